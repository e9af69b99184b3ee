package blocks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// trouble is what a shelf does with a call instead of answering it well.
type trouble string

const (
	well     trouble = ""
	noBox    trouble = "container gone"   // NOT_FOUND
	boxed    trouble = "container closed" // CHANGED
	absent   trouble = "block gone"       // NO_DATA
	rotten   trouble = "damaged on disk"  // CORRUPT
	broken   trouble = "internal error"   // INTERNAL
	resting  trouble = "shutting down"    // UNAVAILABLE
	stranger trouble = "unknown token"    // UNAUTHENTICATED
	banned   trouble = "wrong mode"       // PERMISSION_DENIED
	short    trouble = "short answer"     // the last byte is missing
	empty    trouble = "empty answer"
	flipped  trouble = "flipped bit" // of the data that is sent
	shifted  trouble = "wrong offset"
	unsummed trouble = "a checksum less"
	cut      trouble = "cut connection" // without an answer
	half     trouble = "half an answer" // then the connection is cut
	stuck    trouble = "no answer"
	held     trouble = "late answer" // when the test lets it
)

// codes are those that some troubles are answered with.
var codes = map[trouble]muster.Code{
	noBox: muster.ErrNotFound, boxed: muster.ErrChanged, absent: muster.ErrNoData, rotten: muster.ErrCorrupt,
	broken: muster.ErrInternal, resting: muster.ErrUnavailable, stranger: muster.ErrUnauthenticated, banned: muster.ErrPermission,
}

// asked is a call that a shelf got.
type asked struct {
	stream       bool
	block        muster.BlockID
	token        string
	from, length int64
	message      int // of a stream, from 0
}

// shelf is a datanode with blocks in memory that does what a test says.
type shelf struct {
	pb.DRPCBlocksUnimplementedServer
	t      *testing.T
	node   muster.Node
	server *rpc.Server
	served chan error
	away   atomic.Bool  // nobody can connect
	dialed atomic.Int64 // connections that are open
	most   atomic.Int64 // of them at a time

	listener net.Listener

	mu     sync.Mutex // guards what follows
	blocks map[muster.BlockID][]byte
	calls  []asked
	script func(a asked) trouble
	conns  map[*shelfConn]struct{}
	freed  chan struct{} // closed when stuck calls end
	hold   chan struct{} // closed when held calls go on
}

// shelfConn is a connection to a shelf.
type shelfConn struct {
	net.Conn
	shelf *shelf
	half  atomic.Bool // it breaks in the middle of the next write
}

func (c *shelfConn) Write(b []byte) (int, error) {
	if c.half.Load() && len(b) > 100 {
		n, _ := c.Conn.Write(b[:len(b)/2])
		_ = c.Conn.Close()
		return n, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

func (c *shelfConn) Close() error {
	c.shelf.mu.Lock()
	delete(c.shelf.conns, c)
	c.shelf.mu.Unlock()
	return c.Conn.Close()
}

// shelfListener lets a shelf know its connections.
type shelfListener struct {
	net.Listener
	shelf *shelf
}

func (l *shelfListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &shelfConn{Conn: nc, shelf: l.shelf}
	l.shelf.mu.Lock()
	defer l.shelf.mu.Unlock()
	l.shelf.conns[c] = struct{}{}
	return c, nil
}

func newShelf(t *testing.T, lis net.Listener, node muster.Node) *shelf {
	t.Helper()
	s := &shelf{
		t: t, node: node, listener: lis, served: make(chan error, 1), blocks: make(map[muster.BlockID][]byte),
		script: func(asked) trouble { return well }, conns: make(map[*shelfConn]struct{}), freed: make(chan struct{}),
	}
	var err error
	if s.server, err = rpc.NewServer(s, pb.DRPCBlocksDescription{}, rpc.ServerOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.server.HandleReadChunk(s.readChunk); err != nil {
		t.Fatal(err)
	}
	go func() { s.served <- s.server.Serve(&shelfListener{lis, s}) }()
	t.Cleanup(func() {
		s.free()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.server.Shutdown(ctx) // says that calls were ended
		<-s.served
	})
	return s
}

// free ends the calls that are stuck, and makes no more so.
func (s *shelf) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.freed:
	default:
		close(s.freed)
	}
}

// stop ends all connections and lets nobody connect, until start.
func (s *shelf) stop() {
	s.away.Store(true)
	s.cut()
}

func (s *shelf) start() { s.away.Store(false) }

func (s *shelf) cut() {
	s.mu.Lock()
	conns := s.conns
	s.conns = make(map[*shelfConn]struct{})
	s.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// does sets what becomes of calls.
func (s *shelf) does(script func(a asked) trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// always is a script.
func always(what trouble) func(asked) trouble { return func(asked) trouble { return what } }

// took returns the calls so far, the first message of each, and forgets them.
func (s *shelf) took() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// seen returns the calls so far, the first message of each.
func (s *shelf) seen() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// look notes a call and says what becomes of it.
func (s *shelf) look(a asked) (data []byte, what trouble, freed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.message == 0 {
		s.calls = append(s.calls, a)
	}
	return s.blocks[a.block], s.script(a), s.freed
}

// answer sets reply to what is asked for, or fails.
func (s *shelf) answer(ctx context.Context, a asked, reply *rpc.ReadReply) error {
	data, what, freed := s.look(a)
	if code, ok := codes[what]; ok {
		return fmt.Errorf("%w: %s", code, what)
	}
	switch what {
	case cut:
		s.cut()
		return muster.ErrUnavailable
	case half:
		s.mu.Lock()
		for c := range s.conns {
			c.half.Store(true)
		}
		s.mu.Unlock()
	case held:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-freed:
			return muster.ErrUnavailable
		case <-s.hold:
		}
	case stuck:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-freed:
			return muster.ErrUnavailable
		}
	}
	const n = muster.ChecksumBytes
	switch {
	case data == nil:
		return muster.ErrNoData
	case a.from < 0 || a.from >= int64(len(data)):
		return fmt.Errorf("%w: offset %d of %d", muster.ErrInvalid, a.from, len(data))
	case a.length > muster.MaxTransfer:
		return fmt.Errorf("%w: %d bytes", muster.ErrLimit, a.length)
	}
	from := a.from / n * n
	to := min((a.from+a.length+n-1)/n*n, int64(len(data)))
	reply.Data, reply.Offset, reply.Checksums = data[from:to], from, nil
	for p := range slices.Chunk(reply.Data, n) {
		reply.Checksums = binary.LittleEndian.AppendUint32(reply.Checksums, crc32.Checksum(p, castagnoli))
	}
	switch what {
	case short:
		reply.Data = reply.Data[:len(reply.Data)-1]
		last := reply.Data[(len(reply.Data)-1)/n*n:]
		binary.LittleEndian.PutUint32(reply.Checksums[len(reply.Checksums)-4:], crc32.Checksum(last, castagnoli))
	case empty:
		reply.Data, reply.Checksums = nil, nil
	case flipped:
		reply.Data = slices.Clone(reply.Data)
		reply.Data[len(reply.Data)/2] ^= 4
	case shifted:
		reply.Offset += n
	case unsummed:
		reply.Checksums = reply.Checksums[:len(reply.Checksums)-4]
	}
	return nil
}

func (s *shelf) readChunk(ctx context.Context, r *rpc.ReadRequest, reply *rpc.ReadReply) error {
	a := asked{false, r.Block, string(r.Token), r.Offset, r.Length, 0}
	return s.answer(ctx, a, reply)
}

// streamMessage is the data of a message of a stream, so small that tests see several.
const streamMessage = 4 * muster.ChecksumBytes

// ReadBlock sends what is asked for in small messages.
func (s *shelf) ReadBlock(r *pb.ReadRequest, stream pb.DRPCBlocks_ReadBlockStream) error {
	id := muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}
	end := r.GetOffset() + r.GetLength()
	at := r.GetOffset()
	for message := 0; at < end; message++ {
		n := min(streamMessage-at%muster.ChecksumBytes, end-at)
		a := asked{true, id, string(r.GetToken()), at, n, message}
		if message == 0 {
			a.length = r.GetLength()
			s.look(a)
			a.length, a.message = n, 1
		}
		var reply rpc.ReadReply
		if err := s.answer(stream.Context(), a, &reply); err != nil {
			return err
		}
		if err := rpc.SendReadReply(drpc.Stream(stream), &reply); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// library is shelves, and a namespace that knows one file.
type library struct {
	t       *testing.T
	shelves []*shelf
	*Datanodes

	mu     sync.Mutex // guards what follows
	data   []byte     // of the file
	layout Layout
	asks   [][]Stale                                // of each refresh
	refuse error                                    // what refreshes fail with
	answer func(l *Layout, asks int, about []Stale) // changes what a refresh answers
}

// newLibrary returns a library on loopback whose file has blocks of the given sizes on all of
// n shelves. Each block is in a container of its own.
func newLibrary(t *testing.T, n int, o DatanodesOptions, sizes ...int) *library {
	t.Helper()
	l := &library{t: t}
	for i := range n {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.add(i, lis, "127.0.0.1", lis.Addr().(*net.TCPAddr).Port)
	}
	l.begin(o, sizes)
	return l
}

// newPipedLibrary is newLibrary without a network, for tests in a synctest bubble.
func newPipedLibrary(t *testing.T, n int, o DatanodesOptions, sizes ...int) *library {
	t.Helper()
	l := &library{t: t}
	for i := range n {
		l.add(i, &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}, fmt.Sprintf("pipe-%d", i), 1)
	}
	l.begin(o, sizes)
	return l
}

func (l *library) add(i int, lis net.Listener, host string, port int) {
	node := muster.Node{Number: muster.NodeNumber(i), ID: fmt.Sprintf("dn%d", i), Host: host, Port: uint16(port), Rack: muster.DefaultRack}
	l.shelves = append(l.shelves, newShelf(l.t, lis, node))
}

func (l *library) begin(o DatanodesOptions, sizes []int) {
	l.t.Helper()
	if o.Dial == nil {
		o.Dial = l.dial
	}
	var err error
	if l.Datanodes, err = NewDatanodes(o); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.Datanodes.Close() })
	for _, size := range sizes {
		l.append(size)
	}
}

// pipes is a listener of pipes, which dial makes.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accept <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *library) dial(ctx context.Context, address string) (net.Conn, error) {
	for _, s := range l.shelves {
		if address == net.JoinHostPort(s.node.Host, strconv.Itoa(int(s.node.Port))) {
			return s.dial(ctx, address)
		}
	}
	return nil, errors.New("no such host")
}

func (s *shelf) dial(ctx context.Context, address string) (nc net.Conn, err error) {
	if s.away.Load() {
		return nil, errors.New("connection refused")
	}
	if p, ok := s.listener.(*pipes); ok {
		nc, err = p.dial(ctx)
	} else {
		nc, err = new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	open := s.dialed.Add(1)
	for most := s.most.Load(); open > most && !s.most.CompareAndSwap(most, open); most = s.most.Load() {
	}
	return &dialedConn{Conn: nc, shelf: s}, nil
}

// dialedConn is the readers' end of a connection.
type dialedConn struct {
	net.Conn
	shelf *shelf
	once  sync.Once
}

func (c *dialedConn) Close() error {
	c.once.Do(func() { c.shelf.dialed.Add(-1) })
	return c.Conn.Close()
}

// append adds a block of random bytes to the file.
func (l *library) append(size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.layout.Blocks)
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(i), 7})
	_, _ = r.Read(data)
	b := Block{
		ID: muster.BlockID{Container: uint64(100 + i), LocalID: uint64(i + 1)}, File: 9,
		Offset: int64(len(l.data)), Length: int64(size), Token: []byte("token-0"), Seen: []byte("seen-0"),
	}
	for _, s := range l.shelves {
		s.mu.Lock()
		s.blocks[b.ID] = data
		s.mu.Unlock()
		b.Nodes = append(b.Nodes, s.node)
	}
	l.data = append(l.data, data...)
	l.layout.Blocks = append(slices.Clone(l.layout.Blocks), b)
	l.layout.Length = int64(len(l.data))
}

// ask is the file's Refresh: what is named as stale is newer in the answer, and all tokens are.
func (l *library) ask(_ context.Context, stale []Stale) (Layout, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = append(l.asks, stale)
	if l.refuse != nil {
		return Layout{}, l.refuse
	}
	made := Layout{Length: l.layout.Length, Blocks: slices.Clone(l.layout.Blocks)}
	for i := range made.Blocks {
		b := &made.Blocks[i]
		b.Token = fmt.Appendf(nil, "token-%d", len(l.asks))
		if slices.ContainsFunc(stale, func(s Stale) bool { return s.Container == b.ID.Container && bytes.Equal(s.Seen, b.Seen) }) {
			b.Seen = fmt.Appendf(nil, "seen-%d", len(l.asks))
		}
	}
	if l.answer != nil {
		l.answer(&made, len(l.asks), stale)
	}
	l.layout = made
	return made, nil
}

// askedFor returns the refreshes so far.
func (l *library) askedFor() [][]Stale {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asks)
}

// quick are options by which failures cost no time.
var quick = ReadOptions{Pause: time.Millisecond}

// open opens the file until the test ends.
func (l *library) open(o ReadOptions) *File {
	l.t.Helper()
	l.mu.Lock()
	layout := l.layout
	l.mu.Unlock()
	return l.openAs(layout, l.ask, o)
}

func (l *library) openAs(layout Layout, refresh Refresh, o ReadOptions) *File {
	l.t.Helper()
	ctx := rpc.ClientContext(context.Background(), muster.Identity{User: "reader"})
	f, err := NewFile(ctx, l.Datanodes, layout, refresh, o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = f.Close() })
	return f
}

// checkAt reads n bytes at an offset and compares them, and the error.
func (l *library) checkAt(f *File, offset int64, n int) {
	l.t.Helper()
	p := make([]byte, n)
	k, err := f.ReadAt(p, offset)
	want := l.data[min(offset, int64(len(l.data))):]
	want = want[:min(n, len(want))]
	if !bytes.Equal(p[:k], want) {
		l.t.Fatalf("ReadAt(%d bytes, %d) = %d, %v; %d bytes wanted, or others", n, offset, k, err, len(want))
	}
	if k == n && err != nil || k < n && err != io.EOF {
		l.t.Fatalf("ReadAt(%d bytes, %d) = %d, %v", n, offset, k, err)
	}
}

// bothModes runs a test of each of the block readers.
func bothModes(t *testing.T, test func(t *testing.T, m Mode)) {
	for _, m := range []Mode{ByChunk, ByStream} {
		t.Run(m.String(), func(t *testing.T) { test(t, m) })
	}
}

func wantCode(t *testing.T, err error, code muster.Code) {
	t.Helper()
	if !errors.Is(err, code) || muster.CodeOf(err) != code {
		t.Fatalf("got error %v (%s), want %s", err, muster.CodeOf(err).Name(), code.Name())
	}
}

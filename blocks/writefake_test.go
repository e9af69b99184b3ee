package blocks

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"encoding/binary"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// fault is what a scripted datanode does instead of carrying a request out.
type fault string

const (
	none    fault = ""
	full    fault = "disk full"     // UNAVAILABLE
	damaged fault = "damaged"       // CORRUPT
	closing fault = "closed"        // CHANGED: the container
	hang    fault = "hang"          // no answer, ever
	killed  fault = "killed"        // the process has gone
	silent  fault = "lost reply"    // it is carried out, and the connection breaks
	lie     fault = "lie"           // it says that more is durable than was sent
	early   fault = "early"         // the call ends as if all were done
	refuse  fault = "refused token" // UNAUTHENTICATED
)

// heldBlock is a block on a scripted datanode.
type heldBlock struct {
	data      []byte
	durable   int64
	committed bool
	file      uint64
	open      bool // is being written
}

// scripted is a datanode that does what a test says.
type scripted struct {
	pb.DRPCBlocksUnimplementedServer
	t      *testing.T
	node   muster.Node
	server *rpc.Server
	served chan error
	stop   sync.Once
	gone   chan struct{} // closed when hanging calls end

	mu      sync.Mutex                    // guards what follows
	blocks  map[muster.BlockID]*heldBlock //
	calls   map[string]int                // by name
	largest int                           // data in a request
	script  func(call string, n int, r *rpc.WriteRequest) fault
}

// cluster is scripted datanodes and a namespace that knows one file.
type cluster struct {
	t     *testing.T
	nodes []*scripted
	*Datanodes

	replication int
	mu          sync.Mutex // guards what follows
	next        uint64
	targets     []Target              // of the file's blocks
	without     [][]muster.NodeNumber // of each: datanodes that it may lack
	lengths     []int64
	asked       [][]muster.NodeNumber // failed datanodes of each request
	lacking     []muster.NodeNumber   // those of the request before, if that was refused for their sake
	refuse      func(asked int) error
}

const fileID = 77

// newCluster returns a cluster that ends with the test, after which no goroutine is left.
func newCluster(t *testing.T, nodes, replication int) *cluster {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	c := makeCluster(t, nodes, replication)
	t.Cleanup(c.end)
	return c
}

func makeCluster(t *testing.T, nodes, replication int) *cluster {
	t.Helper()
	d, err := NewDatanodes(DatanodesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, Datanodes: d, replication: replication}
	for i := range nodes {
		c.nodes = append(c.nodes, newScripted(t, i))
	}
	return c
}

func (c *cluster) end() {
	if err := c.Close(); err != nil {
		c.t.Error(err)
	}
	for _, n := range c.nodes {
		n.kill()
	}
}

func newScripted(t *testing.T, number int) *scripted {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{
		t: t, blocks: make(map[muster.BlockID]*heldBlock), calls: make(map[string]int), served: make(chan error, 1), gone: make(chan struct{}),
		script: func(string, int, *rpc.WriteRequest) fault { return none },
		node: muster.Node{
			Number: muster.NodeNumber(number), ID: fmt.Sprintf("dn%d", number), Host: "127.0.0.1",
			Port: uint16(lis.Addr().(*net.TCPAddr).Port), Rack: muster.DefaultRack,
		},
	}
	if s.server, err = rpc.NewServer(s, pb.DRPCBlocksDescription{}, rpc.ServerOptions{}); err != nil {
		t.Fatal(err)
	}
	go func() { s.served <- s.server.Serve(lis) }()
	return s
}

// kill ends the datanode without a word; its blocks are still there to look at.
func (s *scripted) kill() {
	s.stop.Do(func() {
		close(s.gone)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.server.Shutdown(ctx) // says that calls were ended
		<-s.served
	})
}

// does sets what the datanode does.
func (s *scripted) does(script func(call string, n int, r *rpc.WriteRequest) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// fault is what to do about a request.
func (s *scripted) fault(call string, r *rpc.WriteRequest) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[call]++
	return s.script(call, s.calls[call], r)
}

// suffer does what a fault says, and says whether the call is over.
func (s *scripted) suffer(ctx context.Context, f fault) (over bool, err error) {
	switch f {
	case full:
		return true, fmt.Errorf("%w: the disk is full", muster.ErrUnavailable)
	case damaged:
		return true, fmt.Errorf("%w: wrong checksum", muster.ErrCorrupt)
	case closing:
		return true, fmt.Errorf("%w: the container is closed", muster.ErrChanged)
	case refuse:
		return true, fmt.Errorf("%w: unknown key", muster.ErrUnauthenticated)
	case early:
		return true, nil
	case killed:
		go s.kill()
		<-s.gone
		return true, fmt.Errorf("%w: killed", muster.ErrUnavailable)
	case hang:
		select {
		case <-ctx.Done():
		case <-s.gone:
		}
		return true, ctx.Err()
	}
	return false, nil
}

// WriteBlock is the datanode's part, with all of its rules.
func (s *scripted) WriteBlock(stream pb.DRPCBlocks_WriteBlockStream) error {
	var id muster.BlockID
	var r rpc.WriteRequest
	defer func() { r.Release() }()
	defer func() { s.close(id) }()
	for first := true; ; first = false {
		err := rpc.ReceiveWriteRequest(stream, &r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f := s.fault("write", &r)
		if over, err := s.suffer(stream.Context(), f); over {
			return err
		}
		if first {
			if err := s.create(&r); err != nil {
				return err
			}
			id = r.Block
		}
		reply, err := s.write(id, &r)
		if err != nil {
			return err
		}
		switch {
		case f == lie:
			reply.Durable += 1 << 30
		case f == silent:
			return fmt.Errorf("%w: the connection broke", muster.ErrUnavailable)
		case !r.Sync && !r.Commit:
			continue
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
		if r.Commit {
			return nil
		}
	}
}

func (s *scripted) create(r *rpc.WriteRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks[r.Block] != nil {
		return fmt.Errorf("%w: block %v", muster.ErrExists, r.Block)
	}
	if r.Block == (muster.BlockID{}) || r.File != fileID || string(r.Token) != "token" {
		s.t.Errorf("a first message of block %v, file %d, token %q", r.Block, r.File, r.Token)
	}
	s.blocks[r.Block] = &heldBlock{file: r.File, open: true}
	return nil
}

// write appends, and says what is durable.
func (s *scripted) write(id muster.BlockID, r *rpc.WriteRequest) (*pb.WriteReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blocks[id]
	at := int64(len(b.data))
	if r.Offset != at || len(r.Data) > muster.MaxTransfer || b.committed || at%muster.ChecksumBytes != 0 && len(r.Data) > 0 {
		s.t.Errorf("message of %d bytes at %d of block %v, which has %d (committed: %v)", len(r.Data), r.Offset, id, at, b.committed)
		return nil, muster.ErrInvalid
	}
	var sums []byte
	for piece := range slices.Chunk(r.Data, muster.ChecksumBytes) {
		sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(piece, castagnoli))
	}
	if !bytes.Equal(sums, r.Checksums) {
		s.t.Errorf("wrong checksums of %d bytes at %d", len(r.Data), r.Offset)
		return nil, muster.ErrCorrupt
	}
	b.data = append(b.data, r.Data...)
	s.largest = max(s.largest, len(r.Data))
	if r.Sync || r.Commit {
		b.durable = int64(len(b.data))
	}
	b.committed = r.Commit
	return &pb.WriteReply{Durable: b.durable, Committed: b.committed}, nil
}

func (s *scripted) close(id muster.BlockID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.blocks[id]; b != nil {
		b.open = false
	}
}

// CommitBlock is the datanode's part.
func (s *scripted) CommitBlock(ctx context.Context, r *pb.CommitBlockRequest) (*pb.CommitBlockReply, error) {
	f := s.fault("commit", nil)
	if over, err := s.suffer(ctx, f); over {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blocks[muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}]
	switch {
	case b == nil:
		return nil, muster.ErrNoData
	case b.open:
		return nil, fmt.Errorf("%w: the block is being written", muster.ErrInvalid)
	case b.committed && b.durable != r.GetLength():
		return nil, muster.ErrExists
	case r.GetLength() > b.durable:
		return nil, muster.ErrInvalid
	}
	b.durable, b.data, b.committed = r.GetLength(), b.data[:r.GetLength()], true
	if f == silent {
		return nil, fmt.Errorf("%w: the connection broke", muster.ErrUnavailable)
	}
	return &pb.CommitBlockReply{}, nil
}

// add is the namespace's part of another block.
func (c *cluster) add(_ context.Context, previous int64, failed []muster.NodeNumber) (Target, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, slices.Clone(failed))
	if c.refuse != nil {
		if err := c.refuse(len(c.asked)); err != nil {
			c.lacking = failed
			return Target{}, err
		}
	}
	t := Target{File: fileID, Token: []byte("token")}
	for i := range c.nodes {
		n := &c.nodes[(int(c.next)+i)%len(c.nodes)].node
		if !slices.Contains(failed, n.Number) && len(t.Nodes) < c.replication {
			t.Nodes = append(t.Nodes, *n)
		}
	}
	if len(t.Nodes) < c.replication {
		c.lacking = failed
		return Target{}, fmt.Errorf("%w: %d of %d datanodes", muster.ErrUnavailable, len(t.Nodes), c.replication)
	}
	if n := len(c.targets); n > 0 {
		c.lengths[n-1] = previous
	} else if previous != 0 {
		c.t.Errorf("there is no block before that could have %d bytes", previous)
	}
	c.next++
	t.ID = muster.BlockID{Container: 1 + c.next%3, LocalID: c.next}
	c.targets, c.lengths, c.without = append(c.targets, t), append(c.lengths, 0), append(c.without, c.lacking)
	c.lacking = nil
	return t, nil
}

// finish is the namespace's part of the end.
func (c *cluster) finish(last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.targets); n > 0 {
		c.lengths[n-1] = last
	} else if last != 0 {
		c.t.Errorf("there is no last block that could have %d bytes", last)
	}
}

// contents returns what a reader finds: of each block the bytes that the namespace believes
// in, from a datanode that has committed them. All that have must agree. If whole, each block
// must be committed somewhere; else it is enough that all datanodes have its bytes.
func (c *cluster) contents(whole bool) []byte {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []byte{}
	for i, t := range c.targets {
		length, committed, replicas := c.lengths[i], 0, 0
		if length == 0 {
			continue
		}
		var data []byte
		for _, n := range t.Nodes {
			s := c.nodes[n.Number]
			s.mu.Lock()
			b := s.blocks[t.ID]
			if b == nil || b.durable < length {
				if !slices.Contains(c.without[i], n.Number) {
					c.t.Errorf("block %d of %d bytes is not durable on datanode %d, which has something: %v", i, length, n.Number, b != nil)
				}
				s.mu.Unlock()
				continue
			}
			replicas++
			if b.committed {
				committed++
			}
			if data != nil && !bytes.Equal(data, b.data[:length]) {
				c.t.Errorf("the datanodes of block %d do not agree", i)
			}
			data = slices.Clone(b.data[:length])
			s.mu.Unlock()
		}
		if 2*replicas < len(t.Nodes) {
			c.t.Errorf("block %d is on %d of %d datanodes", i, replicas, len(t.Nodes))
		}
		if whole && committed == 0 && i == len(c.targets)-1 {
			c.t.Errorf("block %d is committed nowhere", i)
		}
		all = append(all, data...)
	}
	return all
}

// writer returns a writer of the cluster's file.
func (c *cluster) writer(o WriteOptions) *Writer {
	c.t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if err := o.Validate(); err != nil {
		c.t.Fatal(err)
	}
	ctx := rpc.ClientContext(context.Background(), muster.Identity{User: "writer"})
	return NewWriter(ctx, c.Datanodes, Target{}, c.add, o)
}

package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// pen is a client that writes.
type pen struct {
	*instance
	t        *testing.T
	ctx      context.Context
	client   []byte
	sequence uint64
}

// newPen returns a client that writes as a user; "" is who runs the server.
func (in *instance) newPen(t *testing.T, user string) *pen {
	p := &pen{instance: in, t: t, ctx: root(t), client: slices.Repeat([]byte{byte(len(user) + 1)}, 16)}
	if user != "" {
		p.ctx = as(t, user)
	}
	return p
}

func (p *pen) start(path string, change func(*pb.StartWriteRequest)) *pb.StartWriteReply {
	p.t.Helper()
	p.sequence++
	q := &pb.StartWriteRequest{Client: p.client, Sequence: p.sequence, Path: []byte(path), Mode: 0o640, FirstBlock: true, Parents: true}
	if change != nil {
		change(q)
	}
	r, err := p.StartWrite(p.ctx, q)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *pen) add(file uint64, previous int64, failed ...uint32) *pb.WriteTarget {
	p.t.Helper()
	p.sequence++
	r, err := p.AddBlock(p.ctx, &pb.AddBlockRequest{Client: p.client, Sequence: p.sequence, File: file, Previous: previous, Failed: failed})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Target
}

func (p *pen) finish(file uint64, last int64, rename string) (*pb.FinishWriteReply, error) {
	p.sequence++
	return p.FinishWrite(p.ctx, &pb.FinishWriteRequest{Client: p.client, Sequence: p.sequence, File: file, Last: last, Rename: []byte(rename)})
}

// startWriting starts a server, and datanodes without disks.
func startWriting(t *testing.T, o server.Options, nodes int) (*instance, *cluster) {
	t.Helper()
	o.KeyFile = keyFile(t, 7)
	if o.Locations.Registry.Heartbeat == 0 {
		o.Locations.Registry = quick()
	}
	in := start(t, o)
	return in, join(t, in.Addr().String(), o.KeyFile, nodes)
}

func (in *instance) entry(t *testing.T, path string) *pb.EntryReply {
	t.Helper()
	e, err := in.Stat(root(t), &pb.PathRequest{Path: []byte(path), Blocks: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// numbersOf are the datanodes of a target.
func numbersOf(w *pb.WriteTarget) (list []uint32) {
	for _, n := range w.GetNodes() {
		list = append(list, n.Number)
	}
	return list
}

// TestWritingAFile goes through the calls that a writer makes.
func TestWritingAFile(t *testing.T) {
	in, _ := startWriting(t, server.Options{}, 4)
	in.apply(t, muster.Mkdir{Path: "/d", Mode: 0o777})
	p := in.newPen(t, "")
	s := p.start("/d/.f.part", nil)
	if s.Replication != uint32(muster.Replicated(3)) || s.BlockSize != muster.DefaultBlockSize || s.LeaseMs != 60_000 || len(s.Target.Nodes) != 3 || s.Target.Token != nil {
		t.Fatalf("start: %v", s)
	}
	if e := in.entry(t, "/d/.f.part"); e.InodeId != s.File || e.Flags&muster.FlagWriting == 0 || e.Length != 0 || e.Mode != 0o640 || len(e.Blocks) != 1 {
		t.Errorf("while it is written: %v", e)
	}
	second := p.add(s.File, 5)
	if second.Block.Container == s.Target.Block.Container && second.Block.LocalId == s.Target.Block.LocalId {
		t.Fatalf("the second block is the first: %v", second)
	}
	if r, err := in.RenewLeases(p.ctx, &pb.RenewLeasesRequest{Client: p.client}); err != nil || r.LeaseMs != 60_000 {
		t.Errorf("renew: %v, %v", r, err)
	}
	for name, want := range map[string]float64{"files_being_written": 1, "leases": 1} {
		if got := in.counter(t, name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	f, err := p.finish(s.File, 7, "/d/f")
	if err != nil || f.Length != 12 || f.Txid == 0 {
		t.Fatalf("finish: %v, %v", f, err)
	}
	e := in.entry(t, "/d/f")
	if e.InodeId != s.File || e.Flags&muster.FlagWriting != 0 || e.Length != 12 || len(e.Blocks) != 2 || e.Blocks[0].Length != 5 || e.Blocks[1].Length != 7 ||
		e.Blocks[0].LocalId != s.Target.Block.LocalId || e.Blocks[1].LocalId != second.Block.LocalId {
		t.Errorf("the file: %v", e)
	}
	if got := in.counter(t, "files_being_written"); got != 0 {
		t.Errorf("%v files are still being written", got)
	}
	caps, err := in.Capabilities(root(t), &pb.CapabilitiesRequest{})
	if err != nil || !slices.Contains(caps.Features, "write") || slices.Contains(caps.Features, "tokens") {
		t.Errorf("capabilities: %v, %v", caps, err)
	}
}

// TestAnEmptyFileHasNoBlock, whether it was given one or not.
func TestAnEmptyFileHasNoBlock(t *testing.T) {
	in, _ := startWriting(t, server.Options{}, 3)
	p := in.newPen(t, "")
	for path, first := range map[string]bool{"/with": true, "/without": false} {
		s := p.start(path, func(q *pb.StartWriteRequest) { q.FirstBlock = first })
		if (s.Target != nil) != first {
			t.Errorf("%s: %v", path, s)
		}
		if f, err := p.finish(s.File, 0, ""); err != nil || f.Length != 0 {
			t.Errorf("%s: %v, %v", path, f, err)
		}
		if e := in.entry(t, path); len(e.Blocks) > 0 || e.Flags&muster.FlagWriting != 0 {
			t.Errorf("%s: %v", path, e)
		}
	}
}

// TestRepeatsOfWriteCalls: a call whose answer was lost, and after a restart of the server, has the same
// answer when it is repeated; so no block is given twice.
func TestRepeatsOfWriteCalls(t *testing.T) {
	dir := t.TempDir()
	in, _ := startWriting(t, server.Options{Dir: dir}, 6)
	p := in.newPen(t, "")
	var last uint64
	again := func(t *testing.T, call func() (proto.Message, error)) proto.Message {
		t.Helper()
		first, err := call()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			next, err := call()
			if err != nil || !proto.Equal(first, next) {
				t.Fatalf("first %v, then %v, %v", first, next, err)
			}
		}
		if e := in.entry(t, "/f"); e.Txid == last {
			t.Error("the call has changed nothing")
		} else {
			last = e.Txid
		}
		return first
	}
	start := &pb.StartWriteRequest{Client: p.client, Sequence: 1, Path: []byte("/f"), Mode: 0o644, FirstBlock: true}
	s := again(t, func() (proto.Message, error) { return in.StartWrite(p.ctx, start) }).(*pb.StartWriteReply)
	for i := range 3 {
		add := &pb.AddBlockRequest{Client: p.client, Sequence: uint64(2 + i), File: s.File, Previous: 10, Failed: numbersOf(s.Target)[:i%2]}
		again(t, func() (proto.Message, error) { return in.AddBlock(p.ctx, add) })
	}
	if e := in.entry(t, "/f"); len(e.Blocks) != 4 {
		t.Errorf("%d blocks, not 4", len(e.Blocks))
	}
	finish := &pb.FinishWriteRequest{Client: p.client, Sequence: 9, File: s.File, Last: 1}
	f := again(t, func() (proto.Message, error) { return in.FinishWrite(p.ctx, finish) }).(*pb.FinishWriteReply)
	if f.Length != 31 {
		t.Errorf("length %d, not 31", f.Length)
	}
	_, err := in.StartWrite(p.ctx, start) // too late
	wantCode(t, err, muster.ErrNotFound)
	start.Sequence = 10
	_, err = in.StartWrite(p.ctx, start)
	wantCode(t, err, muster.ErrExists)
	in.apply(t, muster.Delete{Path: "/f"})
	if f, err := in.FinishWrite(p.ctx, finish); err != nil || f.Length != -1 {
		t.Errorf("finished, and deleted since: %v, %v", f, err)
	}
}

// TestABlockGoesElsewhere than to datanodes that have failed, and the container that they are members
// of takes no more.
func TestABlockGoesElsewhere(t *testing.T) {
	in, _ := startWriting(t, server.Options{}, 6)
	p := in.newPen(t, "")
	s := p.start("/f", nil)
	failed := numbersOf(s.Target)[1]
	second := p.add(s.File, 0, failed)
	if slices.Contains(numbersOf(second), failed) || len(second.Nodes) != 3 {
		t.Errorf("datanode %d has failed; the block goes to %v", failed, numbersOf(second))
	}
	for id, closed := range map[uint64]bool{s.Target.Block.Container: true, second.Block.Container: false} {
		c, err := in.Container(p.ctx, &pb.ContainerRequest{Container: id})
		if err != nil || c.Placement.Closed != closed {
			t.Errorf("container %d: %v, %v; want it closed: %v", id, c, err, closed)
		}
	}
	third := p.add(s.File, 0, failed) // names it again, and that container has not failed
	if c, err := in.Container(p.ctx, &pb.ContainerRequest{Container: second.Block.Container}); err != nil || c.Placement.Closed {
		t.Errorf("container of other datanodes: %v, %v", c, err)
	}
	second = third
	if e := in.entry(t, "/f"); len(e.Blocks) != 1 || e.Blocks[0].LocalId != second.Block.LocalId {
		t.Errorf("the block without data has left the file: %v", e.Blocks)
	}
	_, err := in.AddBlock(p.ctx, &pb.AddBlockRequest{Client: p.client, Sequence: 77, File: s.File, Failed: []uint32{0, 1, 2, 3}})
	wantCode(t, err, muster.ErrUnavailable)
	if !strings.Contains(err.Error(), "4 excluded") {
		t.Errorf("error %q does not say why", err)
	}
}

// TestReplicationThatIsNotSaid is three, or as many as there are datanodes.
func TestReplicationThatIsNotSaid(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 2: 2, 3: 3, 5: 3} {
		in, _ := startWriting(t, server.Options{}, nodes)
		p := in.newPen(t, "")
		if s := p.start("/f", nil); s.Replication != uint32(muster.Replicated(want)) || len(s.Target.Nodes) != want {
			t.Errorf("of %d datanodes: %v", nodes, s)
		}
		two := func(q *pb.StartWriteRequest) { q.Replication = uint32(muster.Replicated(1)) }
		if s := p.start("/g", two); len(s.Target.Nodes) != 1 {
			t.Errorf("of %d datanodes, one wanted: %v", nodes, s)
		}
	}
	in, _ := startWriting(t, server.Options{}, 0)
	_, err := in.StartWrite(root(t), &pb.StartWriteRequest{Client: make([]byte, 15, 16), Path: []byte("/f")})
	wantCode(t, err, muster.ErrInvalid)
	_, err = in.StartWrite(root(t), &pb.StartWriteRequest{Client: slices.Repeat([]byte{1}, 16), Path: []byte("/f"), FirstBlock: true})
	wantCode(t, err, muster.ErrUnavailable)
}

// TestBadWriteCalls: each is refused by its code, with words that name what is wrong, and changes nothing.
func TestBadWriteCalls(t *testing.T) {
	in, _ := startWriting(t, server.Options{}, 3)
	in.apply(t, muster.Mkdir{Path: "/open", Mode: 0o777}, muster.Create{Path: "/open/there", Mode: 0o644})
	p, other := in.newPen(t, ""), in.newPen(t, "bob")
	s := p.start("/open/f", nil)
	txid := in.entry(t, "/open/f").Txid
	coded, _ := muster.ParseReplication("ec/rs-3-2")
	begin := func(p *pen, change func(*pb.StartWriteRequest)) func() error {
		return func() error {
			q := &pb.StartWriteRequest{Client: p.client, Sequence: 1000, Path: []byte("/open/new"), Mode: 0o644, FirstBlock: true}
			change(q)
			_, err := in.StartWrite(p.ctx, q)
			return err
		}
	}
	add := func(p *pen, change func(*pb.AddBlockRequest)) func() error {
		return func() error {
			q := &pb.AddBlockRequest{Client: p.client, Sequence: 1001, File: s.File}
			change(q)
			_, err := in.AddBlock(p.ctx, q)
			return err
		}
	}
	finish := func(p *pen, change func(*pb.FinishWriteRequest)) func() error {
		return func() error {
			q := &pb.FinishWriteRequest{Client: p.client, Sequence: 1002, File: s.File}
			change(q)
			_, err := in.FinishWrite(p.ctx, q)
			return err
		}
	}
	otherClient := slices.Repeat([]byte{99}, 16)
	for what, c := range map[string]struct {
		call  func() error
		code  muster.Code
		words string
	}{
		"no client":             {begin(p, func(q *pb.StartWriteRequest) { q.Client = nil }), muster.ErrInvalid, "16 random bytes"},
		"short client":          {begin(p, func(q *pb.StartWriteRequest) { q.Client = q.Client[:8] }), muster.ErrInvalid, "8 bytes"},
		"the server's name":     {begin(p, func(q *pb.StartWriteRequest) { q.Client = []byte("muster recoverer") }), muster.ErrInvalid, "the server"},
		"erasure-coded":         {begin(p, func(q *pb.StartWriteRequest) { q.Replication = uint32(coded) }), muster.ErrInvalid, "ec/rs-3-2"},
		"no replication":        {begin(p, func(q *pb.StartWriteRequest) { q.Replication = 77 }), muster.ErrInvalid, "replicated/N"},
		"huge replication":      {begin(p, func(q *pb.StartWriteRequest) { q.Replication = 1<<16 | 0x0103 }), muster.ErrInvalid, "replication"},
		"too many replicas":     {begin(p, func(q *pb.StartWriteRequest) { q.Replication = uint32(muster.Replicated(5)) }), muster.ErrUnavailable, "5 datanodes"},
		"small blocks":          {begin(p, func(q *pb.StartWriteRequest) { q.BlockSize = 1 }), muster.ErrInvalid, "block size 1"},
		"negative blocks":       {begin(p, func(q *pb.StartWriteRequest) { q.BlockSize = -1 }), muster.ErrInvalid, "block size -1"},
		"bad mode":              {begin(p, func(q *pb.StartWriteRequest) { q.Mode = 1 << 20 }), muster.ErrInvalid, "mode"},
		"bad path":              {begin(p, func(q *pb.StartWriteRequest) { q.Path = []byte("relative") }), muster.ErrInvalid, ""},
		"no parent":             {begin(p, func(q *pb.StartWriteRequest) { q.Path = []byte("/none/f") }), muster.ErrNotFound, ""},
		"there already":         {begin(p, func(q *pb.StartWriteRequest) { q.Path = []byte("/open/there") }), muster.ErrExists, ""},
		"being written":         {begin(other, func(q *pb.StartWriteRequest) { q.Path = []byte("/open/f"); q.Overwrite = true }), muster.ErrExists, "writ"},
		"not allowed":           {begin(other, func(q *pb.StartWriteRequest) { q.Path = []byte("/f") }), muster.ErrPermission, ""},
		"a negative block":      {add(p, func(q *pb.AddBlockRequest) { q.Previous = -1 }), muster.ErrInvalid, "-1"},
		"too long a block":      {add(p, func(q *pb.AddBlockRequest) { q.Previous = muster.DefaultBlockSize + 1 }), muster.ErrInvalid, ""},
		"no file":               {add(p, func(q *pb.AddBlockRequest) { q.File = 4711 }), muster.ErrNotFound, "4711"},
		"file 0":                {add(p, func(q *pb.AddBlockRequest) { q.File = 0 }), muster.ErrNotFound, ""},
		"a directory":           {add(p, func(q *pb.AddBlockRequest) { q.File = 1 }), muster.ErrInvalid, "no file"},
		"many failed":           {add(p, func(q *pb.AddBlockRequest) { q.Failed = make([]uint32, 2000) }), muster.ErrLimit, "2000"},
		"another client's":      {add(p, func(q *pb.AddBlockRequest) { q.Client = otherClient }), muster.ErrExists, "lease"},
		"another user's":        {add(other, func(q *pb.AddBlockRequest) { q.Client = p.client }), muster.ErrPermission, ""},
		"not the last block":    {add(p, func(q *pb.AddBlockRequest) { q.Ends = &pb.BlockID{Container: 4711, LocalId: 1} }), muster.ErrChanged, "4711"},
		"finish another block":  {finish(p, func(q *pb.FinishWriteRequest) { q.Ends = &pb.BlockID{Container: 4711, LocalId: 1} }), muster.ErrChanged, "4711"},
		"finish a negative":     {finish(p, func(q *pb.FinishWriteRequest) { q.Last = -1 }), muster.ErrInvalid, "-1"},
		"finish another's":      {finish(p, func(q *pb.FinishWriteRequest) { q.Client = otherClient }), muster.ErrExists, "lease"},
		"finish no file":        {finish(p, func(q *pb.FinishWriteRequest) { q.File = 4711 }), muster.ErrNotFound, "4711"},
		"finish at a bad place": {finish(p, func(q *pb.FinishWriteRequest) { q.Rename = []byte("/open/there") }), muster.ErrExists, "there"},
		"renew nobody's": {func() error {
			_, err := in.RenewLeases(p.ctx, &pb.RenewLeasesRequest{})
			return err
		}, muster.ErrInvalid, "16 random bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			err := c.call()
			wantCode(t, err, c.code)
			if !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %q does not say %q", err, c.words)
			}
		})
	}
	if e := in.entry(t, "/open/f"); e.Txid != txid {
		t.Errorf("txid %d, and before all of it %d", e.Txid, txid)
	}
	if _, err := p.finish(s.File, 3, "/open/g"); err != nil {
		t.Errorf("in the end: %v", err)
	}
	_, err := in.AddBlock(p.ctx, &pb.AddBlockRequest{Client: p.client, Sequence: 1003, File: s.File})
	wantCode(t, err, muster.ErrNotFound)
	if strings.Contains(err.Error(), "/open") {
		t.Errorf("error %q tells a path to whoever knows an inode id", err)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("inode %d is not being written any more", s.File)) {
		t.Errorf("error %q", err)
	}
}

// TestAWriterThatWasSilentIsToldSo: of a file that was closed, and of one that cannot be yet, since the
// datanodes of its block do not answer.
func TestAWriterThatWasSilentIsToldSo(t *testing.T) {
	in, _ := startWriting(t, server.Options{Leases: server.Leases{Lease: 100 * time.Millisecond}}, 3)
	p := in.newPen(t, "")
	closed, stuck := p.start("/closed", func(q *pb.StartWriteRequest) { q.FirstBlock = false }), p.start("/stuck", nil)
	eventually(t, "a file is recovered", func() bool { return in.counter(t, "leases_recovered") == 1 })
	_, err := p.finish(closed.File, 0, "")
	wantCode(t, err, muster.ErrNotFound)
	if !strings.Contains(err.Error(), "lease of 100ms") {
		t.Errorf("error %q", err)
	}
	eventually(t, "the lease of the other is taken", func() bool {
		_, err = p.finish(stuck.File, 0, "")
		return err != nil
	})
	wantCode(t, err, muster.ErrExists)
	if !strings.Contains(err.Error(), "lease of 100ms") {
		t.Errorf("error %q", err)
	}
	if e := in.entry(t, "/stuck"); e.Flags&muster.FlagWriting == 0 || len(e.Blocks) != 1 {
		t.Errorf("a block of which nothing is known has left its file: %v", e)
	}
}

// TestWritingBesideARemoteLocationService, which gives the blocks.
func TestWritingBesideARemoteLocationService(t *testing.T) {
	key := keyFile(t, 3)
	l := startLocations(t, server.LocationsOptions{KeyFile: key, Registry: quick(), Tokens: true})
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{Server: l.Addr().String()}})
	join(t, l.Addr().String(), key, 4)
	p := in.newPen(t, "")
	s := p.start("/f", nil)
	second := p.add(s.File, 9, numbersOf(s.Target)[0])
	if f, err := p.finish(s.File, 1, ""); err != nil || f.Length != 10 {
		t.Fatalf("finish: %v, %v", f, err)
	}
	caps, err := in.Capabilities(root(t), &pb.CapabilitiesRequest{})
	if err != nil || !slices.Contains(caps.Features, "tokens") || !slices.IsSorted(caps.Features) {
		t.Errorf("capabilities: %v, %v", caps, err)
	}
	known, err := l.Registry().BlockKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := token.NewRing(known.Keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*pb.WriteTarget{s.Target, second} {
		id := muster.BlockID{Container: w.Block.Container, LocalID: w.Block.LocalId}
		got, err := token.Verify(ring, w.Token, time.Now(), id, token.Write, caps.User)
		if err != nil || got.File != s.File || got.MaxLength != muster.DefaultBlockSize {
			t.Errorf("the token of %v: %+v, %v", id, got, err)
		}
		if _, err := token.Verify(ring, w.Token, time.Now(), id, token.Read, caps.User); err == nil {
			t.Errorf("a writer's token reads")
		}
	}
}

// TestManyWritersAtOnce get blocks that nobody else gets.
func TestManyWritersAtOnce(t *testing.T) {
	in, _ := startWriting(t, server.Options{}, 4)
	type given struct {
		id  string
		err error
	}
	const writers, blocks = 8, 5
	all := make(chan given, writers*blocks)
	for w := range writers {
		go func() {
			client, path := slices.Repeat([]byte{byte(100 + w)}, 16), fmt.Sprintf("/f%d", w)
			s, err := in.StartWrite(rpc.ClientContext(t.Context(), muster.Identity{User: "w", Groups: []string{muster.Supergroup}}),
				&pb.StartWriteRequest{Client: client, Sequence: 1, Path: []byte(path), Mode: 0o644, FirstBlock: true})
			all <- given{s.GetTarget().GetBlock().String(), err}
			for i := range blocks - 1 {
				a, err := in.AddBlock(rpc.ClientContext(t.Context(), muster.Identity{User: "w", Groups: []string{muster.Supergroup}}),
					&pb.AddBlockRequest{Client: client, Sequence: uint64(2 + i), File: s.GetFile(), Previous: 1})
				all <- given{a.GetTarget().GetBlock().String(), err}
			}
		}()
	}
	seen := map[string]bool{}
	for range writers * blocks {
		if g := <-all; g.err != nil || seen[g.id] {
			t.Errorf("%s: given before: %v, %v", g.id, seen[g.id], g.err)
		} else {
			seen[g.id] = true
		}
	}
}

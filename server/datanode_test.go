package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

func TestBlocksAreWrittenAndRead(t *testing.T) {
	in := blockCluster(t, false)
	n := startNode(t, datanodeOptions(in, filepath.Join(t.TempDir(), "new", "blocks")))
	ctx := as(t, "ann")
	for i, size := range []int{0, 1, 100, muster.ChecksumBytes, 100_000, muster.MaxTransfer, 3*muster.MaxTransfer + 5, muster.ChunkBytes + 77} {
		id, b := muster.BlockID{Container: 7, LocalID: uint64(i + 1)}, data(uint64(i), size)
		n.put(ctx, t, id, nil, 42, b)
		got, err := n.stream(ctx, id, nil, 0, 0)
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("block of %d bytes: got %d, %v", size, len(got), err)
		}
		info, err := n.GetBlock(ctx, &pb.GetBlockRequest{Container: 7, LocalId: id.LocalID})
		if err != nil || info.Length != int64(size) || !info.Committed || info.File != 42 || len(info.Chunks) != (size+muster.ChunkBytes-1)/muster.ChunkBytes {
			t.Errorf("block of %d bytes: %v, %v", size, info, err)
		}
		for _, at := range []int{0, 1, size / 2, size - 1} {
			if at < 0 || at >= size {
				continue
			}
			length := min(size-at, 70_000)
			got, err := n.get(ctx, id, nil, int64(at), int64(length)+9)
			if want := b[at:min(size, at+length+9)]; err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes at %d of %d: got %d, %v", length, at, size, len(got), err)
			}
			got, err = n.stream(ctx, id, nil, int64(at), int64(length))
			if err != nil || !bytes.Equal(got, b[at:at+length]) {
				t.Errorf("stream of %d bytes at %d of %d: got %d, %v", length, at, size, len(got), err)
			}
		}
		if got, err := n.get(ctx, id, nil, int64(size), 10); err != nil || len(got) != 0 {
			t.Errorf("at the end of %d: %d bytes, %v", size, len(got), err)
		}
	}
	list, err := n.list(ctx, 7)
	if err != nil || len(list) != 8 || list[3].LocalId != 4 || list[3].Length != muster.ChecksumBytes || !list[3].Committed || list[3].File != 42 {
		t.Errorf("got %v, %v", list, err)
	}
	if n := n.dials.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// list lists the blocks of a container.
func (n *dn) list(ctx context.Context, container uint64) (all []*pb.ListedBlock, err error) {
	s, err := n.ListBlocks(ctx, &pb.ListBlocksRequest{Container: container})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	for {
		reply, err := s.Recv()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, reply.Blocks...)
	}
}

// Each row of the table of codes, one after another over one connection, which stays usable.
func TestBadCallsHaveTheirCodes(t *testing.T) {
	in := blockCluster(t, false)
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	ctx := as(t, "ann")
	const size = 100_000
	id, open := muster.BlockID{Container: 1, LocalID: 1}, muster.BlockID{Container: 1, LocalID: 2}
	b := data(1, size)
	n.put(ctx, t, id, nil, 9, b)
	half := messages(open, nil, 9, b, false)
	half[0].Sync = true
	if reply, err := n.send(ctx, half...); err != nil || reply.GetDurable() != size || reply.GetCommitted() {
		t.Fatalf("got %v, %v", reply, err)
	}
	closed := muster.BlockID{Container: 2, LocalID: 1}
	n.put(ctx, t, closed, nil, 9, b)
	if err := n.Blocks().CloseContainer(2); err != nil {
		t.Fatal(err)
	}

	chunk := func(id muster.BlockID, offset, length int64) func() error {
		return func() error { _, err := n.get(ctx, id, nil, offset, length); return err }
	}
	stream := func(id muster.BlockID, offset, length int64) func() error {
		return func() error { _, err := n.stream(ctx, id, nil, offset, length); return err }
	}
	stat := func(id muster.BlockID) func() error {
		return func() error {
			_, err := n.GetBlock(ctx, &pb.GetBlockRequest{Container: id.Container, LocalId: id.LocalID})
			return err
		}
	}
	commit := func(id muster.BlockID, length int64) func() error {
		return func() error {
			_, err := n.CommitBlock(ctx, &pb.CommitBlockRequest{Container: id.Container, LocalId: id.LocalID, Length: length})
			return err
		}
	}
	next := uint64(100)
	write := func(change func(list []rpc.WriteRequest) []rpc.WriteRequest) func() error {
		return func() error {
			next++
			_, err := n.send(ctx, change(messages(muster.BlockID{Container: 1, LocalID: next}, nil, 9, data(next, 3*muster.ChecksumBytes), false))...)
			return err
		}
	}
	more := func(r rpc.WriteRequest) func(list []rpc.WriteRequest) []rpc.WriteRequest {
		return func(list []rpc.WriteRequest) []rpc.WriteRequest { return append(list, r) }
	}
	deleted := func(id muster.BlockID) func() error {
		return func() error {
			reply, err := n.DeleteBlocks(ctx, &pb.DeleteBlocksRequest{Blocks: []*pb.BlockDeletion{{Container: id.Container, LocalId: id.LocalID}}})
			if err != nil {
				return err
			}
			return rpc.FromStatus(reply.Outcomes[0].Code, reply.Outcomes[0].Message)
		}
	}
	nowhere, unknown := muster.BlockID{Container: 99, LocalID: 1}, muster.BlockID{Container: 1, LocalID: 99}
	short := data(5, 1000)
	for _, c := range []struct {
		name string
		call func() error
		code muster.Code
	}{
		{"chunk of no container", chunk(nowhere, 0, 10), muster.ErrNotFound},
		{"stream of no container", stream(nowhere, 0, 10), muster.ErrNotFound},
		{"get of no container", stat(nowhere), muster.ErrNotFound},
		{"list of no container", func() error { _, err := n.list(ctx, 99); return err }, muster.ErrNotFound},
		{"chunk of no block", chunk(unknown, 0, 10), muster.ErrNoData},
		{"stream of no block", stream(unknown, 0, 10), muster.ErrNoData},
		{"get of no block", stat(unknown), muster.ErrNoData},
		{"chunk of an open block", chunk(open, 0, 10), muster.ErrNoData},
		{"stream of an open block", stream(open, 0, 10), muster.ErrNoData},
		{"commit of no block", commit(unknown, 0), muster.ErrNoData},

		{"chunk of block 0", chunk(muster.BlockID{Container: 1}, 0, 10), muster.ErrInvalid},
		{"stream of container 0", stream(muster.BlockID{LocalID: 1}, 0, 10), muster.ErrInvalid},
		{"get of block 0", stat(muster.BlockID{}), muster.ErrInvalid},
		{"list of container 0", func() error { _, err := n.list(ctx, 0); return err }, muster.ErrInvalid},
		{"delete of block 0", deleted(muster.BlockID{Container: 1}), muster.ErrInvalid},
		{"chunk before the beginning", chunk(id, -1, 10), muster.ErrInvalid},
		{"chunk past the end", chunk(id, size+1, 10), muster.ErrInvalid},
		{"chunk far past the end", chunk(id, math.MaxInt64, 10), muster.ErrInvalid},
		{"chunk of nothing", chunk(id, 0, 0), muster.ErrInvalid},
		{"chunk of less than nothing", chunk(id, 0, -1), muster.ErrInvalid},
		{"stream before the beginning", stream(id, -1, 10), muster.ErrInvalid},
		{"stream past the end", stream(id, size+1, 0), muster.ErrInvalid},
		{"stream far past the end", stream(id, 1<<40, 0), muster.ErrInvalid},
		{"chunk that is too large", chunk(id, 0, muster.MaxTransfer+1), muster.ErrLimit},
		{"chunk that is far too large", chunk(id, 5, math.MaxInt64), muster.ErrLimit},

		{"commit before the beginning", commit(open, -1), muster.ErrInvalid},
		{"commit past what is durable", commit(open, size+1), muster.ErrInvalid},
		{"commit at another length", commit(id, size-1), muster.ErrExists},
		{"commit once more", commit(id, size), muster.OK},

		{"write of nothing at all", func() error { _, err := n.send(ctx); return err }, muster.ErrInvalid},
		{"write of block 0", write(func(l []rpc.WriteRequest) []rpc.WriteRequest { l[0].Block.LocalID = 0; return l }), muster.ErrInvalid},
		{"write of a block that exists", func() error { _, err := n.send(ctx, messages(id, nil, 9, b, true)...); return err }, muster.ErrExists},
		{"write of a block that is open", func() error { _, err := n.send(ctx, messages(open, nil, 9, b, true)...); return err }, muster.ErrExists},
		{"write in a closed container", func() error {
			_, err := n.send(ctx, messages(muster.BlockID{Container: 2, LocalID: 5}, nil, 9, b, true)...)
			return err
		}, muster.ErrChanged},
		{"write with a gap", write(more(rpc.WriteRequest{Data: short, Checksums: sums(short), Offset: 4 * muster.ChecksumBytes})), muster.ErrInvalid},
		{"write of the same again", write(more(rpc.WriteRequest{Data: short, Checksums: sums(short), Offset: 0})), muster.ErrInvalid},
		{"write before the beginning", write(func(l []rpc.WriteRequest) []rpc.WriteRequest { l[0].Offset = -1; return l }), muster.ErrInvalid},
		{"write after the end", write(func(l []rpc.WriteRequest) []rpc.WriteRequest {
			return append(l, rpc.WriteRequest{Data: short, Checksums: sums(short), Offset: 3 * muster.ChecksumBytes},
				rpc.WriteRequest{Data: short, Checksums: sums(short), Offset: 3*muster.ChecksumBytes + 1000})
		}), muster.ErrInvalid},
		{"write that names the block again", write(func(l []rpc.WriteRequest) []rpc.WriteRequest { return append(l, rpc.WriteRequest{Block: l[0].Block}) }), muster.ErrInvalid},
		{"write with another file", write(more(rpc.WriteRequest{File: 10})), muster.ErrInvalid},
		{"write of checksums alone", write(more(rpc.WriteRequest{Checksums: sums(short), Offset: 3 * muster.ChecksumBytes})), muster.ErrInvalid},
		{"write with too few checksums", write(func(l []rpc.WriteRequest) []rpc.WriteRequest { l[0].Checksums = l[0].Checksums[4:]; return l }), muster.ErrInvalid},
		{"write of a wrong checksum", write(func(l []rpc.WriteRequest) []rpc.WriteRequest { l[0].Checksums[5]++; return l }), muster.ErrCorrupt},
		{"write of too much", write(func(l []rpc.WriteRequest) []rpc.WriteRequest {
			l[0].Data = data(1, muster.MaxTransfer+muster.ChecksumBytes)
			l[0].Checksums = sums(l[0].Data)
			return l
		}), muster.ErrLimit},
		{"scrub by anybody", func() error { _, err := n.Scrub(ctx, &pb.ScrubRequest{}); return err }, muster.ErrPermission},
		{"delete of what is not there", deleted(nowhere), muster.OK},
		{"write of what was deleted", func() error {
			gone := muster.BlockID{Container: 1, LocalID: 50}
			n.put(ctx, t, gone, nil, 9, b)
			if err := deleted(gone)(); err != nil {
				return err
			}
			_, err := n.send(ctx, messages(gone, nil, 9, b, true)...)
			return err
		}, muster.ErrExists},
	} {
		err := c.call()
		if code := muster.CodeOf(err); code != c.code {
			t.Errorf("%s: %v (%s), want %s", c.name, err, code.Name(), c.code.Name())
		}
		if got, err := n.get(ctx, id, nil, 0, size); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("after %s: %d bytes, %v", c.name, len(got), err)
		}
	}
	if n := n.dials.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if s, err := n.DatanodeStatus(ctx, &pb.DatanodeStatusRequest{}); err != nil || s.Id != n.ID() || len(s.Disks) != 1 || len(s.Counters) == 0 {
		t.Errorf("got %v, %v", s, err)
	}
	if r, err := n.Scrub(root(t), &pb.ScrubRequest{}); err != nil {
		t.Errorf("got %v, %v", r, err)
	}
}

// An aborted write leaves what was durable, which can be committed.
func TestAnAbortedWriteLeavesWhatIsDurable(t *testing.T) {
	in := blockCluster(t, false)
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	id, b := muster.BlockID{Container: 1, LocalID: 1}, data(3, 5*muster.ChecksumBytes)
	ctx, cancel := context.WithCancel(as(t, "ann"))
	defer cancel()
	s, err := rpc.WriteBlock(ctx, n.pool)
	if err != nil {
		t.Fatal(err)
	}
	first := messages(id, nil, 4, b, false)[0]
	first.Sync = true
	if err := s.Send(&first); err != nil {
		t.Fatal(err)
	}
	reply, err := s.Receive()
	if err != nil || reply.Durable != int64(len(b)) {
		t.Fatalf("got %v, %v", reply, err)
	}
	// What follows is not asked to be durable, and the client vanishes.
	if err := s.Send(&rpc.WriteRequest{Data: b, Checksums: sums(b), Offset: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = s.Close()
	ctx = as(t, "ann")
	for { // until the datanode has noticed
		_, err = n.CommitBlock(ctx, &pb.CommitBlockRequest{Container: 1, LocalId: 1, Length: int64(len(b))})
		if err == nil {
			break
		}
		t.Logf("commit: %v", err)
	}
	if got, err := n.stream(ctx, id, nil, 0, 0); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
}

func TestADatanodeKeepsItsIDAndItsBlocks(t *testing.T) {
	in := blockCluster(t, false)
	o := datanodeOptions(in, filepath.Join(t.TempDir(), "a"))
	o.Dirs = append(o.Dirs, filepath.Join(t.TempDir(), "b"))
	n := startNode(t, o)
	ctx, id, b := as(t, "ann"), muster.BlockID{Container: 3, LocalID: 1}, data(1, 200_000)
	n.put(ctx, t, id, nil, 1, b)
	if _, err := server.StartDatanode(t.Context(), o); muster.CodeOf(err) != muster.ErrUnavailable || !strings.Contains(err.Error(), "another process") || !strings.Contains(err.Error(), o.Dirs[0]) {
		t.Errorf("a second one on the folders: %v", err)
	}
	n.stop(t)
	again := startNode(t, o)
	if again.ID() != n.ID() || again.Number() != n.Number() {
		t.Errorf("datanode %s, number %d became %s, %d", n.ID(), n.Number(), again.ID(), again.Number())
	}
	if got, err := again.stream(ctx, id, nil, 0, 0); err != nil || !bytes.Equal(got, b) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	again.stop(t)
	// A disk of another datanode is not taken for one's own.
	if err := os.WriteFile(filepath.Join(o.Dirs[1], "datanode.id"), []byte("somebody-else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.StartDatanode(t.Context(), o); muster.CodeOf(err) != muster.ErrInvalid || !strings.Contains(err.Error(), "somebody-else") {
		t.Errorf("got %v", err)
	}
	// A disk that is new gets the id.
	o.Dirs[1] = filepath.Join(t.TempDir(), "c")
	if third := startNode(t, o); third.ID() != n.ID() {
		t.Errorf("id %s, want %s", third.ID(), n.ID())
	}
	if text, err := os.ReadFile(filepath.Join(o.Dirs[1], "datanode.id")); err != nil || strings.TrimSpace(string(text)) != n.ID() {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestOptionsOfDatanodesAreChecked(t *testing.T) {
	good := server.DatanodeOptions{Dirs: []string{"d"}, Locations: "h:1", KeyFile: "k"}
	for name, change := range map[string]func(o *server.DatanodeOptions){
		"no folder":        func(o *server.DatanodeOptions) { o.Dirs = nil },
		"a folder twice":   func(o *server.DatanodeOptions) { o.Dirs = []string{"d", "d"} },
		"no service":       func(o *server.DatanodeOptions) { o.Locations = "" },
		"no key":           func(o *server.DatanodeOptions) { o.KeyFile = "" },
		"a bad host":       func(o *server.DatanodeOptions) { o.Host = "a b" },
		"negative writers": func(o *server.DatanodeOptions) { o.Writers = -1 },
		"a bad store":      func(o *server.DatanodeOptions) { o.Store.Reserve = -1 },
	} {
		o := good
		change(&o)
		if _, err := server.StartDatanode(t.Context(), o); muster.CodeOf(err) != muster.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	wrong := good
	wrong.Dirs, wrong.KeyFile = []string{t.TempDir()}, filepath.Join(t.TempDir(), "no")
	if _, err := server.StartDatanode(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), wrong.KeyFile) {
		t.Errorf("got %v", err)
	}
}

// A datanode with another key never joins, and says why.
func TestADatanodeOfAnotherClusterDoesNotJoin(t *testing.T) {
	in := blockCluster(t, false)
	o := datanodeOptions(in, t.TempDir())
	o.KeyFile, o.Key = "", bytes.Repeat([]byte{7}, rpc.ClusterKeyBytes)
	_, err := server.StartDatanode(t.Context(), o)
	wantCode(t, err, muster.ErrUnauthenticated)
}

// A start that is given up while the location service is away leaves nothing behind.
func TestADatanodeWaitsForTheLocationService(t *testing.T) {
	o := server.DatanodeOptions{Dirs: []string{t.TempDir()}, Locations: "127.0.0.1:1", Key: make([]byte, rpc.ClusterKeyBytes)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := server.StartDatanode(ctx, o); err == nil {
		t.Fatal("it started")
	}
}

func TestAServerHasDatanodesOfItsOwn(t *testing.T) {
	o := server.Options{Dir: t.TempDir(), Datanodes: server.LocalDatanodes{Count: 3}}
	in := start(t, o)
	nodes := in.LocalDatanodes()
	if len(nodes) != 3 {
		t.Fatalf("%d datanodes", len(nodes))
	}
	r, err := in.DRPCNamespaceClient.Datanodes(root(t), &pb.DatanodesRequest{})
	if err != nil || len(r.Datanodes) != 3 {
		t.Fatalf("got %v, %v", r, err)
	}
	for i, d := range r.Datanodes {
		if len(d.Disks) > 1 {
			t.Errorf("datanode %d has %d disks", i, len(d.Disks))
		}
	}
	for i := range 3 {
		if _, err := os.Stat(filepath.Join(o.Dir, "datanodes", fmt.Sprint(i+1), "datanode.id")); err != nil {
			t.Error(err)
		}
	}
	o.Dir, o.Locations.Server, o.KeyFile = t.TempDir(), "127.0.0.1:1", "k"
	if _, err := server.Start(t.Context(), o); muster.CodeOf(err) != muster.ErrInvalid {
		t.Errorf("with a location service elsewhere: %v", err)
	}
}

// secretsIn returns the files below a folder in which one of the secrets is.
func secretsIn(t *testing.T, dir string, secrets [][]byte) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, s := range secrets {
			if bytes.Contains(content, s) {
				found = append(found, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestACopyThatIsTooShortMayComeAgain, unlike a block that was deleted. A committed one is too long.
func TestACopyThatIsTooShortMayComeAgain(t *testing.T) {
	in := blockCluster(t, false)
	n := startNode(t, datanodeOptions(in, t.TempDir()))
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	remove := func(again bool) error {
		t.Helper()
		reply, err := n.DeleteBlocks(ctx, &pb.DeleteBlocksRequest{Blocks: []*pb.BlockDeletion{{Container: 1, LocalId: 1, Again: again}}})
		if err != nil {
			t.Fatal(err)
		}
		return rpc.FromStatus(reply.Outcomes[0].Code, reply.Outcomes[0].Message)
	}
	for range 2 {
		list := messages(id, nil, 7, data(1, 100), false)
		list[0].Sync = true
		if last, err := n.send(ctx, list...); err != nil || last.GetDurable() != 100 {
			t.Fatal(last, err)
		}
		for muster.CodeOf(remove(true)) == muster.ErrExists && !t.Failed() { // the call that wrote it is just ending
			runtime.Gosched()
		}
	}
	n.put(ctx, t, id, nil, 7, data(1, 200))
	wantCode(t, remove(true), muster.ErrExists)
	if err := remove(false); err != nil {
		t.Fatal(err)
	}
	_, err := n.send(ctx, messages(id, nil, 7, data(1, 200), true)...)
	wantCode(t, err, muster.ErrExists)
}

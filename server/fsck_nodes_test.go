package server_test

import (
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// checkBlocks returns the problems of the files below a path, kind and path of each, and the last message.
func (in *instance) checkBlocks(t *testing.T, path string) (found []string, last *pb.FsckReply) {
	t.Helper()
	stream, err := in.Fsck(root(t), &pb.FsckRequest{Blocks: true, Path: []byte(path)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range reply.Problems {
			found = append(found, strings.TrimSpace(p.Kind+" "+string(p.Path)))
		}
		last = reply
	}
	if !last.GetDone() || last.ProblemCount != uint64(len(found)) {
		t.Fatalf("%d problems, and the last message is %v", len(found), last)
	}
	slices.Sort(found)
	return found, last
}

// wants checks what a check of blocks finds.
func (in *instance) wants(t *testing.T, when, path string, blocks uint64, want ...string) {
	t.Helper()
	found, last := in.checkBlocks(t, path)
	if !slices.Equal(found, want) || last.Blocks != blocks {
		t.Errorf("%s: of %d blocks it found %q, want %d and %q", when, last.Blocks, found, blocks, want)
	}
}

// spoil does something to the one block file of a datanode that has so many bytes.
func spoil(t *testing.T, dir string, size int, f func(path string, b []byte) error) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(filepath.Join(dir, "blocks"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) != size {
			return err
		}
		count++
		return f(path, b)
	})
	if err != nil || count != 1 {
		t.Fatalf("%d files of %d bytes, %v", count, size, err)
	}
}

// TestBlocksAreCheckedOnDatanodes goes through what may happen to blocks on three datanodes.
func TestBlocksAreCheckedOnDatanodes(t *testing.T) {
	in := start(t, server.Options{Locations: server.Locating{Tokens: true, Registry: registry.Options{
		Heartbeat: 10 * time.Millisecond, ReplicaGrace: time.Hour, PlanEvery: time.Hour,
	}}})
	nodes, options := make([]*dn, 3), make([]server.DatanodeOptions, 3)
	for i := range nodes {
		options[i] = datanodeOptions(in, t.TempDir())
		d, err := server.StartDatanode(t.Context(), options[i])
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = reach(t, d)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			n.stop(t)
		}
	})
	f := fleet{}
	for _, n := range nodes {
		f[uint32(n.Addr().(*net.TCPAddr).Port)] = n
	}
	p := in.newPen(t, "")
	one := func(r *pb.StartWriteRequest) { r.Replication = uint32(muster.Replicated(1)) }
	put := func(w *pb.WriteTarget, file uint64, size int) {
		for i := range w.Nodes {
			f.write(p.ctx, t, w, i, file, data(1, size), true)
		}
	}
	three := p.start("/d/three", nil)
	put(three.Target, three.File, 5000)
	second := p.add(three.File, 5000)
	put(second, three.File, 6000)
	single := p.start("/d/single", one)
	put(single.Target, single.File, 7000)
	open := p.start("/open", nil) // nothing is written of its last block
	put(open.Target, open.File, 8000)
	p.add(open.File, 8000)
	for file, last := range map[uint64]int64{three.File: 6000, single.File: 7000} {
		if _, err := p.finish(file, last, ""); err != nil {
			t.Fatal(err)
		}
	}
	in.apply(t, muster.Create{Path: "/meta", Length: 12345, Mode: 0o644})
	soon(t, "all is reported", func() bool { found, _ := in.checkBlocks(t, "/"); return len(found) == 0 })
	in.wants(t, "all", "/", 4)
	in.wants(t, "below a folder", "/d", 3)
	in.wants(t, "a file", "/d/single", 1)
	in.wants(t, "metadata only", "/meta", 0)
	_, last := in.checkBlocks(t, "")
	if last.Files != 4 || last.Directories != 2 {
		t.Errorf("%v", last)
	}

	// A byte is flipped, and a file is removed.
	spoil(t, options[1].Dirs[0], 6000, func(path string, b []byte) error {
		b[3000] ^= 1
		return os.WriteFile(path, b, 0o600)
	})
	spoil(t, options[2].Dirs[0], 5000, func(path string, _ []byte) error { return os.Remove(path) })
	for _, n := range nodes {
		if !n.Blocks().Scrub() {
			t.Fatal("no scrub")
		}
		soon(t, "the scrub is over", func() bool { return !n.Blocks().ScrubState().Running })
	}
	in.wants(t, "damaged", "/", 4, "damaged /d/three", "damaged /d/three")

	// The only replica of a block is lost.
	id := idOf(single.Target)
	if err := f[single.Target.Nodes[0].Port].Blocks().Delete(id); err != nil {
		t.Fatal(err)
	}
	in.wants(t, "lost", "/d/single", 1, "missing /d/single")

	// A datanode goes.
	nodes[2].stop(t)
	want := []string{"under-replicated /open", "unreachable"}
	found, last := in.checkBlocks(t, "/open")
	if !slices.Equal(found, want) || last.UnderReplicated != 1 {
		t.Errorf("down: %q", found)
	}
	d, err := server.StartDatanode(t.Context(), options[2])
	if err != nil {
		t.Fatal(err)
	}
	nodes[2] = reach(t, d)
	soon(t, "it is back", func() bool { found, _ := in.checkBlocks(t, "/open"); return len(found) == 0 })

	_, err = recvAll(in.Fsck(root(t), &pb.FsckRequest{Blocks: true, Path: []byte("/d/no")}))
	wantCode(t, err, muster.ErrNotFound)
	_, err = recvAll(in.Fsck(as(t, "bob"), &pb.FsckRequest{Blocks: true}))
	wantCode(t, err, muster.ErrPermission)
}

// recvAll returns the last message of a check, and how it ended.
func recvAll(stream pb.DRPCNamespace_FsckClient, err error) (last *pb.FsckReply, _ error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = reply
	}
}

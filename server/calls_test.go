package server_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

func TestCapabilitiesNameTheBounds(t *testing.T) {
	in := start(t, server.Options{Version: "v1-test", Listing: listing.Config{MaxPaths: 7, Limit: 3}})
	r, err := in.Capabilities(root(t), &pb.CapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Version != "v1-test" || r.RowSchema != rows.SchemaVersion || r.MaxPaths != 7 || r.DefaultLimit != 3 || r.MaxLimit != 10_000 ||
		r.MaxMessageBytes != rpc.MaxMessage || r.MaxBatchCommands != muster.MaxBatchCommands || r.MaxBatchBytes != muster.MaxBatchBytes ||
		!r.Superuser || r.User == "" || !slices.Contains(r.Features, "snapshot") {
		t.Errorf("got %v", r)
	}
	r, err = in.Capabilities(as(t, "somebody"), &pb.CapabilitiesRequest{})
	if err != nil || r.User != "somebody" || r.Superuser {
		t.Errorf("for somebody: %v, %v", r, err)
	}
	_, err = in.Capabilities(t.Context(), &pb.CapabilitiesRequest{})
	wantCode(t, err, muster.ErrUnauthenticated)
}

func TestStatusOfPaths(t *testing.T) {
	in := start(t, server.Options{})
	in.apply(t,
		muster.Mkdir{Path: "/d", Mode: 0o750},
		muster.Create{Path: "/d/f", Mode: 0o640, Length: 20, Replication: muster.Replicated(3), BlockSize: 16,
			Blocks: []muster.Block{{Container: 1, LocalID: 2, Length: 16}, {Container: 1, LocalID: 3, Length: 4}}},
		muster.Symlink{Path: "/l", Target: "d/f"},
		muster.Symlink{Path: "/loop", Target: "loop"},
	)
	f, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("//d/f"), Blocks: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := rpc.EntryFromPB(f)
	if err != nil || e.Name != "f" || e.Kind != muster.File || e.Mode != 0o640 || e.Length != 20 || len(e.Blocks) != 2 || e.Blocks[1].LocalID != 3 || f.Txid == 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	followed, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/l")})
	if err != nil || followed.InodeId != f.InodeId || string(followed.Name) != "l" || len(followed.Blocks) != 0 {
		t.Errorf("through the link: %v, %v", followed, err)
	}
	link, err := in.Lstat(root(t), &pb.PathRequest{Path: []byte("/l")})
	if err != nil || link.Kind != uint32(muster.Link) || string(link.LinkTarget) != "d/f" {
		t.Errorf("the link: %v, %v", link, err)
	}
	target, err := in.ReadLink(root(t), &pb.PathRequest{Path: []byte("/l")})
	if err != nil || string(target.Target) != "d/f" {
		t.Errorf("its target: %v, %v", target, err)
	}
	_, err = in.ReadLink(root(t), &pb.PathRequest{Path: []byte("/d")})
	wantCode(t, err, muster.ErrInvalid)
	for path, code := range map[string]muster.Code{
		"/missing": muster.ErrNotFound, "/d/f/x": muster.ErrNotDirectory, "/loop": muster.ErrLinkLoop,
		"relative": muster.ErrInvalid, "": muster.ErrInvalid, "/\xff": muster.ErrInvalid, "/../d": muster.ErrInvalid,
	} {
		_, err := in.Stat(root(t), &pb.PathRequest{Path: []byte(path)})
		if muster.CodeOf(err) != code {
			t.Errorf("status of %q: %v", path, err)
		}
	}
	_, err = in.Stat(as(t, "somebody"), &pb.PathRequest{Path: []byte("/d/f")})
	wantCode(t, err, muster.ErrPermission)
}

// More blocks than a row holds come from other keys, and only if they are asked for.
func TestStatusOfAFileOfManyBlocks(t *testing.T) {
	in := start(t, server.Options{})
	blocks := make([]muster.Block, 1000)
	for i := range blocks {
		blocks[i] = muster.Block{Container: uint64(i), LocalID: 1, Length: 1}
	}
	in.apply(t, muster.Create{Path: "/f", Mode: 0o644, Length: 1000, Replication: muster.Replicated(1), BlockSize: 1, Blocks: blocks})
	r, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/f"), Blocks: true})
	if err != nil || len(r.Blocks) != len(blocks) || r.Blocks[999].Container != 999 {
		t.Errorf("%d blocks, %v", len(r.GetBlocks()), err)
	}
	if r, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/f")}); err != nil || len(r.Blocks) != 0 {
		t.Errorf("%d blocks that were not asked for, %v", len(r.GetBlocks()), err)
	}
}

func TestCommandsAreAppliedOrRefused(t *testing.T) {
	in := start(t, server.Options{})
	mkdir := func(path string) *pb.Command {
		return &pb.Command{Command: &pb.Command_Mkdir{Mkdir: &pb.Mkdir{Path: []byte(path), Mode: 0o755}}}
	}
	id := []byte("0123456789abcdef")
	first, err := in.Apply(root(t), &pb.ApplyRequest{Client: id, Sequence: 1, Commands: []*pb.Command{mkdir("/a"), mkdir("/a/b")}})
	if err != nil || first.Refusal != nil || len(first.InodeIds) != 2 || first.Txid == 0 {
		t.Fatalf("got %v, %v", first, err)
	}
	again, err := in.Apply(root(t), &pb.ApplyRequest{Client: id, Sequence: 1, Commands: []*pb.Command{mkdir("/a"), mkdir("/a/b")}})
	if err != nil || again.Txid != first.Txid || !slices.Equal(again.InodeIds, first.InodeIds) {
		t.Errorf("the repeat got %v, %v", again, err)
	}
	_, err = in.Apply(root(t), &pb.ApplyRequest{Client: id, Sequence: 1, Commands: []*pb.Command{mkdir("/c")}})
	wantCode(t, err, muster.ErrInvalid)
	for name, c := range map[string]struct {
		commands []*pb.Command
		index    uint32
		code     muster.Code
	}{
		"exists":         {[]*pb.Command{mkdir("/x"), mkdir("/a")}, 1, muster.ErrExists},
		"of the future":  {[]*pb.Command{mkdir("/x"), mkdir("/y"), {}}, 2, muster.ErrInvalid},
		"strange values": {[]*pb.Command{{Command: &pb.Command_Mkdir{Mkdir: &pb.Mkdir{Path: []byte("/x"), Mode: 1 << 17}}}}, 0, muster.ErrInvalid},
	} {
		r, err := in.Apply(root(t), &pb.ApplyRequest{Commands: c.commands})
		if err != nil || r.Refusal == nil || r.Refusal.Index != c.index || r.Refusal.Code != uint32(c.code) || r.Refusal.Message == "" {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		if _, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/x")}); muster.CodeOf(err) != muster.ErrNotFound {
			t.Errorf("%s: something of a refused batch was applied: %v", name, err)
		}
	}
	_, err = in.Apply(root(t), &pb.ApplyRequest{})
	wantCode(t, err, muster.ErrLimit)
	_, err = in.Apply(root(t), &pb.ApplyRequest{Commands: make([]*pb.Command, muster.MaxBatchCommands+1)})
	wantCode(t, err, muster.ErrLimit)
	_, err = in.Apply(root(t), &pb.ApplyRequest{Client: []byte("short"), Commands: []*pb.Command{mkdir("/c")}})
	wantCode(t, err, muster.ErrInvalid)
}

func TestStatusCounts(t *testing.T) {
	in := start(t, server.Options{Version: "v1-test"})
	in.fill(t, "/d", 9)
	r, err := in.Status(root(t), &pb.StatusRequest{})
	if err != nil || r.Version != "v1-test" || r.Started == 0 || r.Txid == 0 || r.Inodes != 11 {
		t.Errorf("got %v, %v", r, err)
	}
	views := in.counter(t, "views")
	in.check(t) // one status call, one page
	if n := in.counter(t, "views"); n != views+2 {
		t.Errorf("%v views were taken, want 2", n-views)
	}
	if n := in.counter(t, "calls_active"); n != 1 {
		t.Errorf("%v calls are active beside the one that asks", n-1)
	}
	_, err = in.Stat(root(t), &pb.PathRequest{Path: []byte("/missing")})
	wantCode(t, err, muster.ErrNotFound)
	if n := in.counter(t, "calls_failed"); n != 1 {
		t.Errorf("%v calls have failed, want 1", n)
	}
	for _, name := range []string{"alloc_bytes", "cpu_seconds", "heap_bytes", "mallocs", "resident_bytes"} {
		if n := in.counter(t, name); n <= 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	names := func() (names []string) {
		for _, c := range r.Counters {
			names = append(names, c.Name)
		}
		return names
	}()
	if !slices.IsSorted(names) {
		t.Errorf("the counters are not in order: %v", names)
	}
}

func TestFsckIsTheSuperusers(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 9)
	s, err := in.Fsck(root(t), &pb.FsckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Recv()
	if err != nil || !r.Done || r.ProblemCount != 0 || len(r.Problems) != 0 || r.Inodes != 11 || r.Files != 9 || r.Directories != 2 {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
	s, err = in.Fsck(as(t, "somebody"), &pb.FsckRequest{})
	if err == nil {
		_, err = s.Recv()
	}
	wantCode(t, err, muster.ErrPermission)
	if !strings.Contains(err.Error(), "somebody") {
		t.Errorf("%v does not name the user", err)
	}
}

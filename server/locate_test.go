package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// The list of HDDS-17731: head asks for nothing, full status and open take the cache and
// force nothing, lookup asks each time.
func TestEachCallAsksForWhatItNeeds(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3)
	l.file("/t/a", 1, 2, 1)
	l.file("/t/b", 2, 3, 3)
	ctx := as(t, "root")
	all := l.all()
	for i, c := range []struct {
		what string
		call func() error
		want [][]uint64 // calls to the service
		hits uint64     // containers from the cache
	}{
		{"head status", func() error {
			_, err := l.client.Stat(ctx, &pb.PathRequest{Path: []byte("/t/a"), Blocks: true})
			return err
		}, nil, 0},
		{"head status of a link", func() error { _, err := l.client.Lstat(ctx, &pb.PathRequest{Path: []byte("/t/a")}); return err }, nil, 0},
		{"full status: one load of what is missing", one(ctx, all["stat"], "/t/a"), [][]uint64{{1, 2}}, 0},
		{"full status, cached", one(ctx, all["stat"], "/t/a"), nil, 2},
		{"locate: half of it missing", one(ctx, all["locate"], "/t/b"), [][]uint64{{3}}, 1},
		{"open, cached", one(ctx, all["open"], "/t/b"), nil, 2},
		{"lookup asks", one(ctx, all["lookup"], "/t/b"), [][]uint64{{2, 3}}, 0},
		{"lookup asks again", one(ctx, all["lookup"], "/t/b"), [][]uint64{{2, 3}}, 0},
		{"what lookup loaded is cached", one(ctx, all["stat"], "/t/b"), nil, 2},
	} {
		l.take()
		before := l.cache.Stats()
		if err := c.call(); err != nil {
			t.Fatalf("%d %s: %v", i, c.what, err)
		}
		if got := l.take(); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%d %s: the service was asked for %v, want %v", i, c.what, got, c.want)
		}
		if after := l.cache.Stats(); after.Hits-before.Hits != c.hits {
			t.Errorf("%d %s: %d containers from the cache, want %d", i, c.what, after.Hits-before.Hits, c.hits)
		}
	}
}

func one(ctx context.Context, call func(context.Context, string) (*pb.LocatedReply, error), path string) func() error {
	return func() error { _, err := call(ctx, path); return err }
}

func TestLocateReturnsTheBlocksThatOverlapTheRange(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3, 4)
	lengths := []int64{100, 1, 250, 40}
	var blocks []muster.Block
	total := int64(0)
	for i, n := range lengths {
		blocks = append(blocks, muster.Block{Container: uint64(i + 1), LocalID: 7, Length: n})
		total += n
	}
	l.apply(muster.Create{Path: "/f", Length: total, Replication: muster.Replicated(3), Blocks: blocks})
	for _, from := range []int64{0, 1, 99, 100, 101, 102, 350, 351, 390, 391, 5000, 1 << 62} {
		for _, n := range []int64{-1, 0, 1, 2, 100, 101, 300, 391, 9999, 1<<63 - 2, 1<<63 - 1} {
			r, err := l.client.Locate(as(t, "root"), &pb.LocateRequest{Path: []byte("/f"), Offset: from, Length: n})
			if err != nil {
				t.Fatalf("%d bytes at %d: %v", n, from, err)
			}
			var want []uint64
			begin, offset := int64(0), int64(-1)
			for i, length := range lengths {
				if end := begin + length; end > from && (n <= 0 || begin-from < n) {
					want = append(want, uint64(i+1))
					if offset < 0 {
						offset = begin
					}
				}
				begin += length
			}
			if got := containersOf(r); !slices.Equal(got, want) || len(got) > 0 && r.Located.Offset != offset {
				t.Errorf("%d bytes at %d: blocks %v at %d, want %v at %d", n, from, got, r.Located.Offset, want, offset)
			}
			if len(r.Located.Containers) != len(want) || r.Located.NoData || r.Located.Next != 0 || r.Entry.Length != total {
				t.Errorf("%d bytes at %d: %v", n, from, r)
			}
		}
	}
	for _, from := range []int64{-1, -1 << 63} {
		if _, err := l.client.Locate(as(t, "root"), &pb.LocateRequest{Path: []byte("/f"), Offset: from}); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("offset %d: %v", from, err)
		}
	}
	// Nothing else is asked for.
	l.replicated(11, 12, 13)
	l.file("/g", 11, 12, 13)
	l.take()
	if _, err := l.client.Locate(as(t, "root"), &pb.LocateRequest{Path: []byte("/g"), Offset: 100, Length: 1}); err != nil {
		t.Fatal(err)
	}
	if got := l.take(); !slices.EqualFunc(got, [][]uint64{{12}}, slices.Equal) {
		t.Errorf("the service was asked for %v, want container 12", got)
	}
}

func TestOnlyFilesHaveBlocksAndNoBlocksTakeNoCall(t *testing.T) {
	l := startLocated(t)
	l.apply(muster.Mkdir{Path: "/d", Mode: 0o755}, muster.Create{Path: "/empty", Mode: 0o644}, muster.Symlink{Path: "/to-d", Target: "d"}, muster.Symlink{Path: "/lost", Target: "none"})
	for name, call := range l.all() {
		r, err := call(as(t, "root"), "/empty")
		if err != nil || r.Located == nil || r.Located.NoData || len(r.Located.Placements)+len(r.Located.Containers)+len(r.Entry.Blocks) > 0 {
			t.Errorf("%s of an empty file: %v, %v", name, r, err)
		}
		for path, want := range map[string]muster.Code{
			"/d": muster.ErrIsDirectory, "/to-d": muster.ErrIsDirectory, "/": muster.ErrIsDirectory,
			"/lost": muster.ErrNotFound, "/empty/x": muster.ErrNotDirectory, "relative": muster.ErrInvalid,
		} {
			if name == "stat" && want == muster.ErrIsDirectory {
				want = muster.OK
			}
			r, err := call(as(t, "root"), path)
			if muster.CodeOf(err) != want || err == nil && (r.Located != nil || r.Entry.Kind != uint32(muster.Directory)) {
				t.Errorf("%s %s: %v, %v; want %s", name, path, r, err, want.Name())
			}
		}
	}
	link, err := l.client.Lstat(as(t, "root"), &pb.PathRequest{Path: []byte("/to-d"), Located: true})
	if err != nil || link.Kind != uint32(muster.Link) || link.Located != nil {
		t.Errorf("a link: %v, %v", link, err)
	}
	if calls := l.take(); len(calls) > 0 {
		t.Errorf("the service was asked: %v", calls)
	}
}

// TestWhoReadsMustBeAllowedTo: locations are for readers; with a status they are for all
// who may see it.
func TestWhoReadsMustBeAllowedTo(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.file("/d/f", 1)
	l.apply(
		muster.SetAttr{Path: "/d/f", Mode: new(uint16(0o040)), Owner: new("ann"), Group: new("staff")},
		muster.Symlink{Path: "/l", Target: "d/f"},
	)
	for _, path := range []string{"/d/f", "/l"} {
		for name, call := range l.reading() {
			for user, want := range map[string]muster.Code{"ann": muster.ErrPermission, "zed": muster.ErrPermission, "root": muster.OK} {
				if _, err := call(as(t, user), path); muster.CodeOf(err) != want {
					t.Errorf("%s %s by %s: %v", name, path, user, err)
				}
			}
		}
		if r, err := l.all()["stat"](as(t, "zed"), path); err != nil || len(r.Located.Nodes) != 3 {
			t.Errorf("stat %s: %v, %v", path, r, err)
		}
	}
	l.apply(muster.SetAttr{Path: "/d", Mode: new(uint16(0o700))})
	for name, call := range l.all() {
		if _, err := call(as(t, "ann"), "/l"); !errors.Is(err, muster.ErrPermission) {
			t.Errorf("%s past a closed directory: %v", name, err)
		}
	}
}

func TestCodedReplicasKeepTheirIndex(t *testing.T) {
	l := startLocated(t)
	nodes := []muster.NodeNumber{9, 5, 1, muster.NoNode, 0}
	l.change(func() { l.placements[1] = muster.Placement{Replication: rs32, Nodes: nodes} })
	l.apply(muster.Create{Path: "/f", Length: 100, Replication: rs32, Blocks: blocksIn(1)})
	for range 100 {
		r, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Reader: "/r0"})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Located.Containers[0]
		for i, n := range nodes {
			if at := c.Nodes[i]; n == muster.NoNode && at != 0 || n != muster.NoNode && r.Located.Nodes[at-1].Number != uint32(n) {
				t.Fatalf("index %d: %v", i+1, r)
			}
		}
		order := orders(r)[0]
		if first := slices.Sorted(slices.Values(order[:2])); !slices.Equal(first, []int{0, 1}) || order[4] != -1 {
			t.Fatalf("from /r0 the order is %v", order)
		}
	}
}

// TestEachNodeAndContainerIsDescribedOnce, however many blocks are there.
func TestEachNodeAndContainerIsDescribedOnce(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2)
	l.file("/f", 2, 1, 2, 2, 1)
	r, err := l.all()["open"](as(t, "root"), "/f")
	if err != nil || len(r.Located.Nodes) != 3 || len(r.Located.Containers) != 2 || !slices.Equal(containersOf(r), []uint64{2, 1, 2, 2, 1}) {
		t.Fatalf("%v, %v", r, err)
	}
	if n := r.Located.Nodes[0]; n.Host == "" || n.Rack == "" || n.Port != 9866 || n.Id == "" {
		t.Errorf("node %v", n)
	}
}

// TestOneNodeTwiceInAPlacementIsDescribedOnce though no placement should have it so.
func TestOneNodeTwiceInAPlacementIsDescribedOnce(t *testing.T) {
	l := startLocated(t)
	l.change(func() {
		l.placements[1] = muster.Placement{Replication: muster.Replicated(3), Nodes: []muster.NodeNumber{5, 5, 7}}
		l.placements[2] = muster.Placement{Replication: muster.Replicated(1), Nodes: []muster.NodeNumber{9}}
	})
	l.file("/f", 1, 2)
	r, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Unsorted: true})
	if err != nil || len(r.Located.Order) != 0 {
		t.Fatal(r, err)
	}
	if got := orders(r); !slices.Equal(got[0], []int{5, 5, 7}) || !slices.Equal(got[1], []int{9}) {
		t.Errorf("%v", got)
	}
}

func TestASteadyAnswerIsTheSameFromAllCalls(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3)
	l.file("/f", 3, 1, 2, 3)
	var first *pb.LocatedReply
	for _, name := range slices.Sorted(maps.Keys(l.all())) {
		r, err := l.all()[name](as(t, "root"), "/f")
		if err != nil {
			t.Fatal(err)
		}
		r.Located.Order = nil
		for _, c := range r.Located.Containers {
			c.Seen = nil
		}
		if first == nil {
			first = r
		} else if !proto.Equal(first, r) {
			t.Errorf("%s: %v, others %v", name, r, first)
		}
	}
}

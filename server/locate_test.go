package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/namespace"
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

// TestARefreshLoadsWhatItNamesOnce: and whoever names the same answer later gets what was
// loaded since.
func TestARefreshLoadsWhatItNamesOnce(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3)
	l.file("/f", 1, 2, 3)
	ctx := as(t, "root")
	open := func(stale ...*pb.Stale) *pb.LocatedReply {
		t.Helper()
		r, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte("/f"), Refresh: stale})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	staleOf := func(r *pb.LocatedReply, i int) *pb.Stale {
		return &pb.Stale{Container: r.Located.Containers[i].Container, Seen: r.Located.Containers[i].Seen}
	}
	first := open()
	l.change(func() {
		for id, p := range l.placements {
			p.Nodes = []muster.NodeNumber{2, 7, 12}
			l.placements[id] = p
		}
	})
	for name, c := range map[string]struct {
		stale []*pb.Stale
		want  [][]uint64
	}{
		"nothing":                    {nil, nil},
		"a container of another one": {[]*pb.Stale{{Container: 99, Seen: make([]byte, locations.SeenBytes)}}, nil},
	} {
		l.take()
		if open(c.stale...); !slices.EqualFunc(l.take(), c.want, slices.Equal) {
			t.Errorf("%s: the service was asked", name)
		}
	}
	l.take()
	second := open(staleOf(first, 1))
	if got := l.take(); !slices.EqualFunc(got, [][]uint64{{2}}, slices.Equal) {
		t.Fatalf("the service was asked for %v, want container 2 alone", got)
	}
	for i, nodes := range orders(second) {
		slices.Sort(nodes)
		if want := [][]int{{1, 6, 11}, {2, 7, 12}, {1, 6, 11}}[i]; !slices.Equal(nodes, want) {
			t.Errorf("block %d is on %v, want %v", i, nodes, want)
		}
	}
	for range 100 { // others who had the first answer
		open(staleOf(first, 1))
	}
	if got := l.take(); len(got) > 0 {
		t.Errorf("the service was asked for %v once more", got)
	}
	// Two marks of one container: the newer one counts, wherever it stands.
	for _, reverse := range []bool{false, true} {
		marks := []*pb.Stale{staleOf(first, 1), staleOf(open(), 1)}
		if reverse {
			slices.Reverse(marks)
		}
		l.take()
		open(marks...)
		if got := l.take(); !slices.EqualFunc(got, [][]uint64{{2}}, slices.Equal) {
			t.Errorf("the service was asked for %v, want container 2", got)
		}
	}
}

func TestARefreshThatIsNoneIsRefused(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.file("/f", 1)
	for name, stale := range map[string][]*pb.Stale{
		"short mark": {{Container: 1, Seen: []byte("short")}},
		"no mark":    {{Container: 1}},
		"no message": {nil},
	} {
		if _, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Refresh: stale}); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	seen := make([]byte, locations.SeenBytes)
	if _, err := l.client.Lookup(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Refresh: []*pb.Stale{{Container: 1, Seen: seen}}}); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("lookup: %v", err)
	}
	many := make([]*pb.Stale, muster.MaxBlocks+1)
	for i := range many {
		many[i] = &pb.Stale{Container: uint64(i), Seen: seen}
	}
	if _, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Refresh: many}); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("too many: %v", err)
	}
	if got := l.take(); len(got) > 0 {
		t.Errorf("the service was asked for %v", got)
	}
}

// TestStoreReadsOfCallsWithLocations pins what each reads of the store, in one view: what a
// status reads. Links on the way are walked once (HDDS-9297).
func TestStoreReadsOfCallsWithLocations(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2)
	l.file("/w/t/f", 1, 2)
	l.file("/w/t/many", slices.Repeat([]uint64{1}, 1000)...)
	l.apply(
		muster.Symlink{Path: "/l", Target: "w/t"},
		muster.Symlink{Path: "/w/t/to-f", Target: "f"},
		muster.Mkdir{Path: "/w/t/d", Mode: 0o755},
	)
	calls := l.all()
	calls["head status"] = func(ctx context.Context, path string) (*pb.LocatedReply, error) {
		_, err := l.client.Stat(ctx, &pb.PathRequest{Path: []byte(path), Blocks: true})
		return nil, err
	}
	if _, err := calls["head status"](as(t, "root"), "/"); err != nil { // the view keeps the root
		t.Fatal(err)
	}
	for path, want := range map[string]uint64{
		"/w/t/f":    3,     // two directories, the file
		"/l/f":      4,     // the link before them
		"/l/to-f":   5,     // and the second link
		"/w/t/many": 3 + 4, // and its chunks of 256 blocks, past the first 16
	} {
		for name, call := range calls {
			for _, cached := range []bool{false, true} {
				before := l.tree.Stats()
				if _, err := call(as(t, "root"), path); err != nil {
					t.Fatalf("%s %s: %v", name, path, err)
				}
				after := l.tree.Stats()
				if gets, seeks, views := after.Gets-before.Gets, after.Seeks-before.Seeks, after.Views-before.Views; gets != want || seeks != 0 || views != 1 {
					t.Errorf("%s %s (again: %v): %d gets, %d seeks, %d views; want %d, 0, 1", name, path, cached, gets, seeks, views, want)
				}
			}
		}
	}
}

// TestHotCallsReadNothingOfTheStore: names and rows are in memory.
func TestHotCallsReadNothingOfTheStore(t *testing.T) {
	l := startLocatedOn(t, namespace.Options{})
	l.replicated(1, 2)
	l.file("/w/t/f", 1, 2)
	l.apply(muster.Symlink{Path: "/l", Target: "w/t"})
	calls := func() {
		for name, call := range l.all() {
			if _, err := call(as(t, "root"), "/l/f"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for range 20 {
		calls()
	}
	before := l.tree.Stats()
	calls()
	if after := l.tree.Stats(); after.Gets != before.Gets || after.Seeks != before.Seeks || after.Views != before.Views+4 {
		t.Errorf("%d gets, %d seeks, %d views", after.Gets-before.Gets, after.Seeks-before.Seeks, after.Views-before.Views)
	}
}

// TestTheViewIsGivenBackBeforeTheServiceIsAsked: the service's answer waits for all views.
func TestTheViewIsGivenBackBeforeTheServiceIsAsked(t *testing.T) {
	for _, name := range []string{"stat", "locate", "open", "lookup"} {
		l := startLocated(t)
		l.replicated(1)
		l.file("/f", 1)
		l.change(func() {
			l.before = func(context.Context) error { return l.tree.Close() } // waits for the views that are out
		})
		ctx, cancel := context.WithTimeout(as(t, "root"), 10*time.Second)
		defer cancel()
		if r, err := l.all()[name](ctx, "/f"); err != nil || len(r.Located.Nodes) != 3 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
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
		for _, n := range []int64{-1, 0, 1, 2, 100, 101, 300, 391, 9999, 1<<63 - 1} {
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

// TestMetadataOnlyFilesSayThatDataIsMissing: Open and Lookup refuse them; a status and
// Locate mark what is missing, where it was asked for.
func TestMetadataOnlyFilesSayThatDataIsMissing(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2)
	ctx := as(t, "root")
	l.apply(
		muster.Create{Path: "/none", Length: 1000},
		muster.Create{Path: "/half", Length: 1000, Replication: muster.Replicated(3), Blocks: blocksIn(1, 2)},
	)
	for _, path := range []string{"/none", "/half"} {
		for _, name := range []string{"open", "lookup"} {
			if _, err := l.all()[name](ctx, path); !errors.Is(err, muster.ErrNoData) {
				t.Errorf("%s %s: %v", name, path, err)
			}
		}
	}
	if calls := l.take(); len(calls) > 0 {
		t.Errorf("the service was asked for a file without data: %v", calls)
	}
	for path, blocks := range map[string]int{"/none": 0, "/half": 2} {
		for _, name := range []string{"stat", "locate"} {
			if r, err := l.all()[name](ctx, path); err != nil || !r.Located.NoData || len(r.Located.Placements) != blocks {
				t.Errorf("%s %s: %v, %v", name, path, r, err)
			}
		}
	}
	for _, c := range []struct {
		from, n int64
		missing bool
	}{{0, 0, true}, {0, 200, false}, {0, 201, true}, {150, 50, false}, {200, 1, true}, {999, 1, true}, {1000, 1, false}, {2000, 0, false}} {
		r, err := l.client.Locate(ctx, &pb.LocateRequest{Path: []byte("/half"), Offset: c.from, Length: c.n})
		if err != nil || r.Located.NoData != c.missing {
			t.Errorf("%d bytes at %d: missing %v, %v; want %v", c.n, c.from, r.GetLocated().GetNoData(), err, c.missing)
		}
	}
}

// A file that is being written ends where its blocks end so far.
func TestTheEndOfAFileThatIsWrittenIsNotMissing(t *testing.T) {
	for _, flags := range []uint8{0, muster.FlagWriting} {
		var f file
		f.cut(&muster.Row{Kind: muster.File, Flags: flags, Length: 1000, Blocks: blocksIn(1, 2)}, wanted{to: 5000})
		if f.noData != (flags == 0) || len(f.in) != 2 {
			t.Errorf("flags %d: %+v", flags, f)
		}
	}
}

// TestWithoutTheServiceCachedAnswersGoOn: what is not cached fails, or is marked in a
// status; and is answered again when the service is back.
func TestWithoutTheServiceCachedAnswersGoOn(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3)
	l.file("/cached", 1)
	l.file("/other", 2)
	l.file("/both", 1, 3)
	ctx := as(t, "root")
	old, err := l.all()["stat"](ctx, "/cached")
	if err != nil {
		t.Fatal(err)
	}
	for _, down := range []error{fmt.Errorf("%w: gone", muster.ErrUnavailable), errors.New("something else"), muster.ErrUnauthenticated} {
		l.change(func() { l.err = down })
		for name, call := range l.all() {
			if name == "lookup" {
				continue
			}
			if r, err := call(ctx, "/cached"); err != nil || len(r.Located.Nodes) != 3 {
				t.Errorf("%s of what is cached: %v, %v", name, r, err)
			}
		}
		for name, call := range l.reading() {
			if _, err := call(ctx, "/other"); !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := l.all()["lookup"](ctx, "/cached"); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("lookup: %v", err)
		}
		seen := old.Located.Containers[0].Seen
		if _, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte("/cached"), Refresh: []*pb.Stale{{Container: 1, Seen: seen}}}); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("refresh: %v", err)
		}
		r, err := l.all()["stat"](ctx, "/both")
		if err != nil || len(r.Located.Containers) != 2 || r.Located.Containers[0].Code != 0 || len(r.Located.Containers[0].Nodes) != 3 ||
			r.Located.Containers[1].Code == 0 || r.Located.Containers[1].Message == "" || len(r.Located.Containers[1].Nodes) != 0 {
			t.Errorf("status of what is half cached: %v, %v", r, err)
		}
	}
	l.change(func() { l.err = nil })
	for name, call := range l.all() {
		for _, path := range []string{"/cached", "/other", "/both"} {
			if r, err := call(ctx, path); err != nil || slices.ContainsFunc(r.Located.Containers, func(c *pb.LocatedContainer) bool { return c.Code != 0 }) {
				t.Errorf("%s %s, the service is back: %v, %v", name, path, r, err)
			}
		}
	}
}

// TestACallEndsWithItsDeadline though the service never answers.
func TestACallEndsWithItsDeadline(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.file("/f", 1)
	hung := make(chan struct{})
	l.change(func() {
		l.before = func(ctx context.Context) error {
			select {
			case <-hung:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	})
	for name, call := range l.all() {
		ctx, cancel := context.WithTimeout(as(t, "root"), 50*time.Millisecond)
		if _, err := call(ctx, "/f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	close(hung)
	for name, call := range l.all() {
		if _, err := call(as(t, "root"), "/f"); err != nil {
			t.Errorf("%s, after that: %v", name, err)
		}
	}
}

// TestAContainerThatDoesNotExistIsMarked in all calls: the file's other blocks can be read.
func TestAContainerThatDoesNotExistIsMarked(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 3)
	l.file("/f", 1, 2, 3, 4)
	for name, call := range l.all() {
		r, err := call(as(t, "root"), "/f")
		if err != nil || len(r.Located.Containers) != 4 {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		for i, c := range r.Located.Containers {
			if lost := i%2 == 1; lost != (c.Code == uint32(muster.ErrNotFound)) || lost == (len(c.Nodes) == 3) || lost != (c.Message != "") {
				t.Errorf("%s: %v", name, c)
			}
		}
	}
	// One that is unknown for now is another matter.
	l.change(func() { l.failures[2] = fmt.Errorf("%w: no replica has been reported yet", muster.ErrUnavailable) })
	for name, call := range l.reading() {
		if _, err := call(as(t, "root"), "/f"); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is not usable is told, and asked for again the next time (HDDS-9709, HDDS-11209).
func TestWhatIsNotUsableIsAnsweredAndNotKept(t *testing.T) {
	const no = muster.NoNode
	for name, c := range map[string]struct {
		placement muster.Placement
		kept      bool
	}{
		"no replica":       {muster.Placement{Replication: muster.Replicated(3)}, false},
		"a data part gone": {muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, no, 3, 4, 5}}, false},
		"parity gone":      {muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, 2, 3, no, no}}, true},
		"too few told":     {muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, 2}}, false},
	} {
		l := startLocated(t)
		l.change(func() { l.placements[1] = c.placement })
		l.file("/f", 1)
		for _, first := range []bool{true, false} {
			r, err := l.all()["open"](as(t, "root"), "/f")
			if err != nil || r.Located.Containers[0].Code != 0 || len(r.Located.Containers[0].Nodes) != len(c.placement.Nodes) {
				t.Errorf("%s: %v, %v", name, r, err)
			}
			if calls := l.take(); (len(calls) == 0) != (c.kept && !first) {
				t.Errorf("%s (first: %v): asked for %v", name, first, calls)
			}
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

// TestAStormOfRefreshes: when a datanode dies, the service is asked for each of its
// containers once, not once by each reader; whether they come at once or one after another.
func TestAStormOfRefreshes(t *testing.T) {
	const containers, openers = 10, 1000
	for _, atOnce := range []bool{true, false} {
		l := startLocated(t)
		ids := make([]uint64, containers)
		for i := range ids {
			ids[i] = uint64(i + 1)
			l.file(fmt.Sprintf("/f%d", i), ids[i])
		}
		l.replicated(ids...)
		open := func(i int, refresh ...*pb.Stale) (*pb.LocatedReply, error) {
			return l.client.Open(as(t, "root"), &pb.OpenRequest{Path: fmt.Appendf(nil, "/f%d", i%containers), Refresh: refresh})
		}
		stale := make([]*pb.Stale, containers)
		for i := range stale {
			r, err := open(i)
			if err != nil {
				t.Fatal(err)
			}
			stale[i] = &pb.Stale{Container: ids[i], Seen: r.Located.Containers[0].Seen}
		}
		l.change(func() { // node 1 dies
			for id, p := range l.placements {
				p.Nodes = []muster.NodeNumber{6, 11}
				l.placements[id] = p
			}
		})
		l.take()
		var all sync.WaitGroup
		reopen := func(i int) {
			r, err := open(i, stale[i%containers])
			if err != nil || len(r.Located.Containers[0].Nodes) != 2 {
				t.Errorf("opener %d: %v, %v", i, r, err)
			}
		}
		for i := range openers {
			if atOnce {
				all.Go(func() { reopen(i) })
			} else {
				reopen(i)
			}
		}
		all.Wait()
		asked := map[uint64]int{}
		for _, call := range l.take() {
			for _, id := range call {
				asked[id]++
			}
		}
		for _, id := range ids {
			if asked[id] != 1 {
				t.Errorf("at once %v: the service was asked %d times for container %d", atOnce, asked[id], id)
			}
		}
	}
}

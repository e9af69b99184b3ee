package listing_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// pageReads lists one page and gives the store reads that it took.
func pageReads(t *testing.T, w *world, l *listing.Lister, paths []string, o listing.Options) (gets, seeks uint64) {
	t.Helper()
	before := w.tree.Stats()
	m, err := page(t.Context(), l, root, paths, o, nil)
	if err != nil || !m.Done {
		t.Fatal(m, err)
	}
	after := w.tree.Stats()
	return after.Gets - before.Gets, after.Seeks - before.Seeks
}

// With nothing in memory, a page of n directories walks to their common parent once. Then two
// of their rows cost a point read each, a seek leads to the third, and those that follow in
// order cost steps. Each costs a seek to its children and one to its record, unless that is
// near the one before. Its children's rows cost nothing but steps, and directories among them
// such a record each if their time is wanted. The root is read once for all pages. What was
// listed twice costs nothing.
func TestStoreReadsOfAPage(t *testing.T) {
	var dirs, files []string
	for d := range 10 {
		dirs = append(dirs, fmt.Sprintf("/warehouse/db/table/ds=%02d", d))
		for f := range 5 {
			files = append(files, fmt.Sprintf("%s/f%d", dirs[d], f))
		}
	}
	open := func(images int64) (*world, *listing.Lister) {
		w := openTree(t, namespace.Options{FS: vfs.NewMem(), Superuser: root.User, ImageBytes: images})
		w.build(files...)
		return w, w.lister(listing.Config{})
	}
	cold, fromStore := open(1)
	hot, fromMemory := open(64 << 20)
	tests := []struct {
		name        string
		paths       []string
		options     listing.Options
		gets, seeks uint64
	}{
		{"the root", []string{"/"}, listing.Options{Own: true}, 2, 1},
		{"ten directories of five files", dirs, listing.Options{}, 3 + 2, 1 + 10 + 10},
		{"one directory of ten directories", []string{"/warehouse/db/table"}, listing.Options{}, 3, 1 + 10}, // its record and the first one's are neighbours
		{"the same without times", []string{"/warehouse/db/table"}, listing.Options{Columns: rows.ColKind}, 3, 1 + 1},
		{"fifty files", files, listing.Options{}, 3 + 10 + 10*2, 10},
		{"own entries of fifty files", files, listing.Options{Own: true}, 3 + 10 + 10*2, 10},
		{"three missing files", []string{"/a", "/b", "/c"}, listing.Options{}, 2, 1},
	}
	for _, test := range tests {
		if gets, seeks := pageReads(t, cold, fromStore, test.paths, test.options); gets != test.gets || seeks != test.seeks {
			t.Errorf("%s: %d gets, %d seeks; want %d, %d", test.name, gets, seeks, test.gets, test.seeks)
		}
		for range 2 {
			pageReads(t, hot, fromMemory, test.paths, test.options)
		}
		if gets, seeks := pageReads(t, hot, fromMemory, test.paths, test.options); gets+seeks != 0 {
			t.Errorf("%s, listed before: %d gets, %d seeks", test.name, gets, seeks)
		}
	}
}

// perPage is how many allocations list costs. Buffers that were used once must serve again:
// so no garbage collection may come between, which would empty the pools.
func perPage(list func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return testing.AllocsPerRun(5, list)
}

// Once warm, neither a row nor a path nor a page allocates.
func TestAPageOfHotDirectoriesAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := openTree(t, namespace.Options{FS: vfs.NewMem(), Superuser: root.User, ImageBytes: 64 << 20})
	var dirs []string
	var commands []muster.Command
	for d := range 1000 {
		dirs = append(dirs, fmt.Sprintf("/table/ds=%d/bucket=%04d", d/100, d))
		commands = append(commands, muster.Create{
			Path: dirs[d] + "/part-00000", Mode: 0o644, Replication: muster.Replicated(3), BlockSize: 1 << 20, Length: 1 << 20,
			Blocks: []muster.Block{{Container: 1, LocalID: uint64(d), Length: 1 << 20}}, Parents: true,
		})
	}
	w.do(commands...)
	w.build(filesIn("/large", 3000)...)
	l := w.lister(listing.Config{Limit: 3000})
	send := func(*listing.Message) error { return nil }
	shuffled := slices.Clone(dirs)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for name, paths := range map[string][]string{
		"one path": dirs[:1], "a thousand": dirs, "shuffled": shuffled, "one large": {"/large"}, "of directories": {"/table/ds=0", "/table"},
	} {
		for _, columns := range []rows.Columns{0, rows.AllColumns, rows.ColName} {
			list := func() {
				if err := l.Page(t.Context(), root, paths, listing.Options{Columns: columns}, nil, send); err != nil {
					t.Fatal(err)
				}
			}
			list()
			if n := perPage(list); n > 0 {
				t.Errorf("%s, columns %x: %v allocations a page", name, columns, n)
			}
		}
	}
}

// A stream costs its goroutines and channels; its rows, paths and pages cost nothing.
func TestALongerStreamAllocatesNoMore(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := openTree(t, namespace.Options{FS: vfs.NewMem(), Superuser: root.User, ImageBytes: 64 << 20})
	w.build("/a/f", "/b/f", "/c/")
	w.build(filesIn("/large", 3000)...)
	l := w.lister(listing.Config{})
	chunk := append(slices.Repeat([]string{"/a", "/b", "/c"}, 300), "/large")
	for _, c := range []muster.Consistency{muster.ConsistencyPage, muster.ConsistencySnapshot} {
		stream := func(chunks int) float64 {
			list := func() {
				left := chunks
				next := func(context.Context) ([]string, error) {
					if left--; left < 0 {
						return nil, io.EOF
					}
					return chunk[:len(chunk):len(chunk)], nil
				}
				err := l.Stream(t.Context(), root, listing.Options{Columns: rows.AllColumns, Consistency: c}, nil, next, func(*listing.Message) error { return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			list()
			return perPage(list)
		}
		short, long := stream(3), stream(43)
		t.Logf("consistency %v: %v and %v allocations", c, short, long)
		if long > short+40*2 { // chunks that wait together are copied
			t.Errorf("consistency %v: %v allocations for 43 chunks, %v for 3", c, long, short)
		}
	}
}

// Where blocks are costs no allocation: neither a block nor a page nor, once a call, a node.
func TestLocationsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newLocatedWorld(t)
	w.world = openTree(t, namespace.Options{FS: vfs.NewMem(), Superuser: root.User, ImageBytes: 64 << 20})
	var dirs []string
	var commands []muster.Command
	containers := make([]uint64, 100)
	for d := range 1000 {
		dirs = append(dirs, fmt.Sprintf("/table/ds=%d/bucket=%04d", d/100, d))
		containers[d%100] = uint64(d % 100)
		commands = append(commands, muster.Create{
			Path: dirs[d] + "/part-00000", Mode: 0o644, Replication: muster.Replicated(3), BlockSize: 1 << 20, Length: 2 << 20,
			Blocks: []muster.Block{{Container: uint64(d % 100), LocalID: uint64(d), Length: 1 << 20}, {Container: 7, LocalID: uint64(d), Length: 1 << 20}}, Parents: true,
		})
	}
	w.do(commands...)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 6, 11}, containers...)
	w.place(rs32(t), []muster.NodeNumber{1, 6, 11, muster.NoNode, 2}, containers[:20]...)
	l := w.lister(listing.Config{Limit: 3000})
	for name, o := range map[string]listing.Options{
		"hint": {Locations: muster.LocationsHint}, "must": {Locations: muster.LocationsMust},
		"sorted": {Locations: muster.LocationsHint, Sorted: true, Reader: "/r1"},
	} {
		list := func() {
			if err := l.Page(t.Context(), root, dirs, o, nil, func(*listing.Message) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		list()
		if n := perPage(list); n > 0 {
			t.Errorf("%s: %v allocations a page", name, n)
		}
	}
}

package namespace

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

// cached says whether an item is in the image cache.
func (t *Tree) cached(key uint64) bool {
	_, _, ok := t.loads.cache.Get(key, math.MaxUint64)
	return ok
}

// warm lists directories, with the heads of the directories in them, so that all are in memory.
func warm(t testing.TB, tree *Tree, paths ...string) {
	t.Helper()
	reading(t, tree, root, func(r *Reader) { list(t, r, paths...) })
}

// list lists directories as a page does, and returns all names.
func list(t testing.TB, r *Reader, paths ...string) (all []string) {
	t.Helper()
	res := make([]Resolved, len(paths))
	for i, path := range paths {
		var err error
		if res[i], err = r.Resolve(path, true); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	r.Load(res)
	ids := []uint64{}
	for i := range res {
		if err := r.Scan(&res[i], "", true); err != nil {
			t.Fatalf("%s: %v", paths[i], err)
		}
		for row := (muster.Row{}); r.Next(&row); {
			all = append(all, string(row.Name))
			if row.Kind == muster.Directory {
				ids = append(ids, row.ID)
			}
		}
		if r.Err() != nil {
			t.Fatalf("%s: %v", paths[i], r.Err())
		}
	}
	if err := r.Heads(ids, make([]Head, len(ids))); err != nil {
		t.Fatal(err)
	}
	return all
}

func idOf(t testing.TB, tree *Tree, path string) uint64 {
	t.Helper()
	return stat(t, tree, path).ID
}

// commits are what may happen to the directory /p/d, and whether the images of it and of its
// parent, and its head, are what they were.
var commits = []struct {
	what               string
	command            muster.Command
	image, parent, top bool // kept: of /p/d, of /p, head of /p/d
}{
	{"create in it", muster.Create{Path: "/p/d/new"}, false, true, false},
	{"delete in it", muster.Delete{Path: "/p/d/f"}, false, true, false},
	{"change a file's mode", muster.SetAttr{Path: "/p/d/f", Mode: new(uint16(0o600))}, false, true, false},
	{"add a block in it", add(7, 0, 1), false, true, false},
	{"finish a file in it", finish(7, 0), false, true, false},
	{"take the lease of a file in it", muster.TakeLease{File: 7, From: writer, Holder: another}, true, true, true},
	{"rename in it by id", muster.Rename{File: 7, To: "/p/d/x"}, false, true, false},
	{"change its mode", muster.SetAttr{Path: "/p/d", Mode: new(uint16(0o700))}, true, false, true},
	{"change its mtime", muster.SetAttr{Path: "/p/d", MTime: new(int64(5))}, true, true, false},
	{"rename in it", muster.Rename{From: "/p/d/f", To: "/p/d/g"}, false, true, false},
	{"rename it", muster.Rename{From: "/p/d", To: "/p/e"}, true, false, false},
	{"rename its parent", muster.Rename{From: "/p", To: "/q"}, true, true, true},
	{"move it away", muster.Rename{From: "/p/d", To: "/e"}, true, false, false},
	{"create beside it", muster.Create{Path: "/p/x"}, true, false, true},
	{"change something below it", muster.Create{Path: "/p/d/sub/x"}, true, true, true},
	{"change the root's mode", muster.SetAttr{Path: "/", Mode: new(uint16(0o777))}, true, true, true},
}

func commitTree(t *testing.T) (tree *Tree, dir, parent uint64) {
	tree = openMem(t, Options{ImageBytes: 1 << 20})
	mustApply(t, tree, muster.Mkdir{Path: "/p/d/sub", Mode: 0o755, Parents: true}, muster.Create{Path: "/p/d/f", Mode: 0o644}, muster.Create{Path: "/p/other"}, start("/p/d/w"))
	warm(t, tree, "/", "/p", "/p/d", "/p/d/sub")
	return tree, idOf(t, tree, "/p/d"), idOf(t, tree, "/p")
}

// TestACommitDropsWhatItChangesAndNothingElse of what is in memory.
func TestACommitDropsWhatItChangesAndNothingElse(t *testing.T) {
	for _, c := range commits {
		t.Run(c.what, func(t *testing.T) {
			tree, dir, parent := commitTree(t)
			if !tree.cached(dir) || !tree.cached(parent) || !tree.cached(headKey|dir) {
				t.Fatal("not in memory before")
			}
			mustApply(t, tree, c.command)
			if got := tree.cached(dir); got != c.image {
				t.Errorf("the directory's image is kept: %v, want %v", got, c.image)
			}
			if got := tree.cached(parent); got != c.parent {
				t.Errorf("the parent's image is kept: %v, want %v", got, c.parent)
			}
			if got := tree.cached(headKey | dir); got != c.top {
				t.Errorf("the head is kept: %v, want %v", got, c.top)
			}
		})
	}
}

// TestAWriterInALargeDirectoryCostsItsRangesOnly: listing a directory of 30,000 files after each file made in
// it reads no more than the range that the file is in.
func TestAWriterInALargeDirectoryCostsItsRangesOnly(t *testing.T) {
	const files = 30_000
	tree := openMem(t, Options{ImageBytes: 64 << 20})
	load(t, tree, "/t", 1, files)
	const path = "/t/d000000"
	for range 2 {
		if got := names(t, tree, path); len(got) != files {
			t.Fatalf("%d files", len(got))
		}
	}
	for i := range 20 {
		before := tree.Stats().Images
		name := fmt.Sprintf("f%06d-%d", i*1371%files, i)
		mustApply(t, tree, muster.Create{Path: path + "/" + name})
		got := names(t, tree, path)
		if len(got) != files+i+1 || !slices.IsSorted(got) || !slices.Contains(got, name) {
			t.Fatalf("%d files after %d were made", len(got), i+1)
		}
		after := tree.Stats().Images
		if loads, rows := after.Loads-before.Loads, after.Rows-before.Rows; loads == 0 || loads > 2 || rows > imageRows {
			t.Errorf("a file made: %d loads of %d rows", loads, rows)
		}
	}
}

// TestDamageIsNeverKept: a directory with a row that does not decode is no image, and its other
// rows are read as ever.
func TestDamageIsNeverKept(t *testing.T) {
	tree, dir, _ := commitTree(t)
	tree.loads.cache.Evict(func(uint64) bool { return true })
	poke(t, tree, appendRowKey(nil, dir, "g"), []byte("no row"))
	for range 2 {
		reading(t, tree, root, func(r *Reader) {
			res, err := r.Resolve("/p/d", true)
			if err != nil {
				t.Fatal(err)
			}
			page := []Resolved{res}
			r.Load(page)
			var row muster.Row
			if err := r.Scan(&page[0], "", true); err != nil || !r.Next(&row) || string(row.Name) != "f" || r.Next(&row) || !errors.Is(r.Err(), muster.ErrCorrupt) {
				t.Errorf("%q, %v, %v", row.Name, err, r.Err())
			}
			if _, err := r.Resolve("/p/d/g", true); !errors.Is(err, muster.ErrCorrupt) {
				t.Errorf("the row itself: %v", err)
			}
			if _, err := r.Resolve("/p/d/f", true); err != nil {
				t.Errorf("another row: %v", err)
			}
		})
	}
	if tree.cached(dir) {
		t.Error("it is an image")
	}
}

// TestAHotPageReadsNothing, and a cold one of 1,000 directories made in order goes through the store once: a point
// read for the first name, then two iterators that are positioned once.
func TestAHotPageReadsNothing(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 16 << 20})
	load(t, tree, "/t", 1000, 1)
	var paths []string
	for d := range 1000 {
		paths = append(paths, fmt.Sprintf("/t/d%06d", d))
	}
	var page [64]Resolved
	visit := func() (cost reads) {
		reading(t, tree, root, func(r *Reader) {
			cost = r.cost(func() {
				for paths := range slices.Chunk(paths, len(page)) {
					for i, path := range paths {
						var err error
						if page[i], err = r.Resolve(path, true); err != nil {
							t.Fatal(err)
						}
					}
					r.Load(page[:len(paths)])
					for i := range paths {
						row := muster.Row{}
						if err := r.Scan(&page[i], "", true); err != nil || !r.Next(&row) || r.Next(&row) {
							t.Fatal(err, r.Err())
						}
						if _, known := r.ChangedAt(&page[i]); !known {
							t.Fatal("nobody knows when it changed")
						}
					}
				}
			})
		})
		return cost
	}
	if cost := visit(); cost != (reads{1, 2}) {
		t.Errorf("cold: %+v", cost)
	}
	if cost := visit(); cost != (reads{}) {
		t.Errorf("hot: %+v", cost)
	}
	if raceEnabled {
		return
	}
	if allocs := testing.AllocsPerRun(10, func() { visit() }); allocs > 4 {
		t.Errorf("hot: %v allocations for 1,000 directories", allocs)
	}
}

// TestLookingAtEachFileThatIsMadeLoadsNothing else of its directory.
func TestLookingAtEachFileThatIsMadeLoadsNothing(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 16 << 20})
	load(t, tree, "/t", 1, 300)
	for i := range 50 {
		path := fmt.Sprintf("/t/d000000/n%03d", i)
		mustApply(t, tree, muster.Create{Path: path})
		stat(t, tree, path)
	}
	if s := tree.Stats().Images; s.Rows > 100 {
		t.Errorf("%+v", s)
	}
	for range 40 {
		stat(t, tree, "/t/d000000/n000")
	}
	reading(t, tree, root, func(r *Reader) {
		if cost := r.cost(func() { list(t, r, "/t/d000000") }); cost != (reads{}) {
			t.Errorf("it is not loaded after many looks: %+v", cost)
		}
	})
}

// TestACachedDirectoryTakesAtMost300Bytes: its image of one file with a block, its row in the parent's
// image and all that the cache needs to find them, with names as engines write them.
func TestACachedDirectoryTakesAtMost300Bytes(t *testing.T) {
	const dirs, most = 20_000, 300
	tree := openMem(t, Options{ImageBytes: 64 << 20})
	before := tree.Stats().Images.Bytes
	commands := []muster.Command{muster.Mkdir{Path: "/b", Mode: 0o755}}
	var paths []string
	for d := range dirs {
		path := fmt.Sprintf("/b/customer=%08d", d)
		paths = append(paths, path)
		commands = append(commands, muster.Mkdir{Path: path, Mode: 0o755, Owner: "etl", Group: "warehouse"}, muster.Create{
			Path: fmt.Sprintf("%s/part-00000-%08x-0000-4000-8000-000000000000-c000.snappy.parquet", path, d), Mode: 0o644, Owner: "etl", Group: "warehouse",
			Length: 1 << 20, Replication: muster.Replicated(3), BlockSize: 128 << 20, Blocks: []muster.Block{{Container: 1, LocalID: uint64(d), Length: 1 << 20}},
		})
	}
	for batch := range slices.Chunk(commands, 3000) {
		mustApply(t, tree, batch...)
	}
	reading(t, tree, root, func(r *Reader) {
		var page [64]Resolved
		for paths := range slices.Chunk(paths, len(page)) {
			for i, path := range paths {
				var err error
				if page[i], err = r.Resolve(path, true); err != nil {
					t.Fatal(err)
				}
			}
			r.Load(page[:len(paths)])
		}
	})
	s := tree.Stats().Images
	if got := (s.Bytes - before) / dirs; got > most || s.Items < dirs || s.Evictions > 0 {
		t.Errorf("%d bytes a directory, want at most %d (%+v)", got, most, s)
	}
}

// TestImagesFindNames, with every hint, and what is between names.
func TestImagesFindNames(t *testing.T) {
	var p packer
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprintf("n%02d", i))
		p.reset()
		for _, name := range all {
			p.add([]byte(name), []byte("row of "+name))
		}
		var m image
		m.open(p.appendItem(nil))
		for hint := range len(all) + 1 {
			for at, name := range all {
				got, ok := m.find(name, hint)
				n, row := m.row(got)
				if !ok || got != at || string(n) != name || string(row) != "row of "+name {
					t.Fatalf("%s with hint %d of %d: %d, %v: %q %q", name, hint, len(all), got, ok, n, row)
				}
				if got, ok := m.find(name+"x", hint); ok || got != at+1 {
					t.Fatalf("after %s with hint %d of %d: %d, %v", name, hint, len(all), got, ok)
				}
			}
			if got, ok := m.find("a", hint); ok || got != 0 {
				t.Fatalf("before all with hint %d of %d: %d, %v", hint, len(all), got, ok)
			}
		}
	}
	p.reset()
	var m image
	if m.open(p.appendItem(nil)); m.n != 0 {
		t.Errorf("an empty image has %d rows", m.n)
	} else if at, ok := m.find("a", 0); ok || at != 0 {
		t.Errorf("an empty image has a name")
	}
}

// TestRangesPartAllNames.
func TestRangesPartAllNames(t *testing.T) {
	d := ranges(appendRanges(nil, []part{{1, nil}, {0, []byte("b")}, {3, []byte("bb")}, {4, []byte("z")}}))
	if d.count() != 4 {
		t.Fatalf("%d ranges", d.count())
	}
	for name, want := range map[string]int{"": 0, "a": 0, "az": 0, "b": 1, "ba": 1, "bb": 2, "c": 2, "y\xff": 2, "z": 3, "zz": 3} {
		i := d.find(name)
		low, high := d.bounds(i)
		if i != want || name < string(low) || high != nil && name >= string(high) {
			t.Errorf("%q is in range %d from %q to %q, want %d", name, i, low, high, want)
		}
	}
	var parts []string
	for _, p := range d.parts(nil) {
		parts = append(parts, fmt.Sprintf("%d%s", p.key, p.low))
	}
	if got := strings.Join(parts, " "); got != "1 0b 3bb 4z" {
		t.Errorf("parts %s", got)
	}
}

package namespace

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-fs/muster"
)

// resolveAll resolves names of a directory with one reader.
func resolveAll(t testing.TB, tree *Tree, paths []string) {
	t.Helper()
	reading(t, tree, root, func(r *Reader) {
		for _, path := range paths {
			resolveOne(t, r, path)
		}
	})
}

// TestNamesInNoOrderDoNotCostALoadEach, in a directory too large to stay in memory, and names in
// order cost next to no point reads.
func TestNamesInNoOrderDoNotCostALoadEach(t *testing.T) {
	const files, most = 20_000, 256
	tree := openMem(t, Options{ImageBytes: 64 << 10, imageRows: most})
	load(t, tree, "/t", 1, files)
	var paths []string
	for i := range files {
		paths = append(paths, fmt.Sprintf("/t/d000000/f%06d", i))
	}
	for pass := range 3 {
		before := tree.Stats()
		resolveAll(t, tree, paths)
		after := tree.Stats()
		if gets, rows := after.Gets-before.Gets, after.Images.Rows-before.Images.Rows; gets > 2*patience || rows > 2*files {
			t.Errorf("in order, pass %d: %d point reads and %d rows loaded for %d names", pass, gets, rows, files)
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	rng.Shuffle(files, func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for pass := range 3 {
		before := tree.Stats()
		resolveAll(t, tree, paths)
		if rows := tree.Stats().Images.Rows - before.Images.Rows; rows > files*most/patience {
			t.Errorf("in no order, pass %d: %d rows loaded for %d names", pass, rows, files)
		}
	}
}

// TestWhatIsLoadedForANameHasTheName, also if rows are large: one load is enough.
func TestWhatIsLoadedForANameHasTheName(t *testing.T) {
	const files = 4000
	tree := openMem(t, Options{ImageBytes: 64 << 20})
	mustApply(t, tree, muster.Mkdir{Path: "/d", Mode: 0o755})
	path := func(i int) string { return fmt.Sprintf("/d/part-%06d-%0100d", i, 0) }
	var commands []muster.Command
	for i := range files {
		commands = append(commands, muster.Create{Path: path(i), Replication: muster.Replicated(3), Length: 10, Blocks: make([]muster.Block, 3)})
	}
	mustApply(t, tree, commands...)
	id := idOf(t, tree, "/d")
	for at := 0; at < files; at += 397 {
		for _, n := range []uint64{1, 2, 3} { // misses so far: how much is loaded depends on it
			tree.loads.cache.Evict(func(uint64) bool { return true })
			tree.loads.door.seen[id%doors].Store(id<<8 | n)
			before := tree.Stats()
			reading(t, tree, root, func(r *Reader) {
				r.Resolve("/", true)
				if _, err := r.look(id, path(at)[3:], &muster.Row{}); err != nil {
					t.Fatal(err)
				}
			})
			after := tree.Stats()
			if loads, gets := after.Images.Loads-before.Images.Loads, after.Gets-before.Gets; loads != 1 || gets > 0 {
				t.Errorf("file %d after %d misses: %d loads, %d gets", at, n, loads, gets)
			}
		}
	}
}

// TestAClosedReaderHoldsOnToNothing that it read: it may wait for its next caller for long.
func TestAClosedReaderHoldsOnToNothing(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 16 << 20})
	load(t, tree, "/t", 50, 2)
	v, err := tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	r := v.NewReader(&root)
	for i := range 50 {
		list(t, r, fmt.Sprintf("/t/d%06d", i))
		resolveOne(t, r, fmt.Sprintf("/t/d%06d/f000001", i))
	}
	resolveOne(t, r, "/t")
	r.Close()
	w := &r.walk
	for _, n := range w.nodes[:cap(w.nodes)] {
		if n.row != nil || n.name != "" {
			t.Fatalf("the row of %q", n.name)
		}
	}
	for _, m := range w.memo.places {
		if m.path != "" {
			t.Errorf("path %s", m.path)
		}
	}
	for _, p := range r.parents {
		if p.id != 0 || p.run.item != nil || p.rows.n != 0 {
			t.Errorf("the image of directory %d", p.id)
		}
	}
	for _, i := range r.items[:cap(r.items)] {
		if i.Bytes != nil {
			t.Error("an item")
		}
	}
	for _, w := range r.load.flight.wants[:cap(r.load.flight.wants)] {
		if w.item != nil || w.low != nil || w.high != nil {
			t.Errorf("what it loaded of directory %d", w.dir)
		}
	}
	if r.view != nil || r.snap.snap != nil || r.load.view != nil || w.path != "" || w.cur.Owner != nil || r.row.Owner != nil || r.load.row.Owner != nil {
		t.Error("a view or a row")
	}
}

func resolveOne(t testing.TB, r *Reader, path string) {
	t.Helper()
	if _, err := r.Resolve(path, true); err != nil {
		t.Fatal(err)
	}
}

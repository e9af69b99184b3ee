package namespace

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// waitReclaimed waits until nothing is left to reclaim.
func waitReclaimed(t testing.TB, tree *Tree) {
	t.Helper()
	for tree.Stats().Reclaiming > 0 {
		if t.Context().Err() != nil {
			t.Fatal("the test ends before the reclaim does")
		}
		runtime.Gosched()
	}
}

// openIdle opens a tree that does background work only when told, by a number of steps.
func openIdle(t testing.TB, o Options) (tree *Tree, steps func(n int)) {
	t.Helper()
	o.idle = true
	tree = openMem(t, o)
	return tree, func(n int) { work(t, tree, n) }
}

func work(t testing.TB, tree *Tree, steps int) {
	t.Helper()
	for range steps {
		if _, err := tree.janitor.work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReclaimIsCleanAfterEachStep reclaims trees of all shapes and checks the store after each step.
func TestReclaimIsCleanAfterEachStep(t *testing.T) {
	for _, step := range []int{1, 2, 7, 1000} {
		t.Run(fmt.Sprintf("step=%d", step), func(t *testing.T) {
			tree, steps := openIdle(t, Options{ReclaimStep: step})
			mustApply(t, tree, muster.Mkdir{Path: "/t/a/b/c/d", Mode: 0o755, Parents: true}, muster.Create{Path: "/stays"},
				muster.Create{Path: "/t/a/blocks", Length: 1e6, Replication: muster.Replicated(1), Blocks: make([]muster.Block, 600)}, muster.Symlink{Path: "/t/a/b/l", Target: "/stays"})
			for i := range 10 {
				mustApply(t, tree, muster.Create{Path: fmt.Sprintf("/t/a/b/f%d", i)}, muster.Mkdir{Path: fmt.Sprintf("/t/d%d", i)})
			}
			mustApply(t, tree, muster.Delete{Path: "/t", Recursive: true})
			if err := resolves(t, tree, root, "/t/a", true); muster.CodeOf(err) != muster.ErrNotFound {
				t.Errorf("in a detached tree: %v", err)
			}
			mustApply(t, tree, muster.Mkdir{Path: "/t/new", Parents: true})
			for n := 0; tree.Stats().Reclaiming > 0; n++ {
				if sum := check(t, tree); sum.Inodes != 4 {
					t.Fatalf("after %d steps: %+v", n, sum)
				}
				steps(1)
			}
			if sum := check(t, tree); sum.Inodes != 4 || sum.Reclaiming != 0 || tree.Stats().Inodes != 4 {
				t.Errorf("at last: %+v", sum)
			}
		})
	}
}

// TestReclaimOfLargeDirectories: rows go by range, and by no step more than its share.
func TestReclaimOfLargeDirectories(t *testing.T) {
	tree, steps := openIdle(t, Options{ReclaimStep: 100})
	load(t, tree, "/t", 2, 512)
	mustApply(t, tree, muster.Delete{Path: "/t", Recursive: true})
	for n := 0; tree.Stats().Reclaiming > 0; n++ {
		before := tree.Stats().Inodes
		steps(1)
		if done := before - tree.Stats().Inodes; done > 100 {
			t.Errorf("step %d reclaimed %d inodes", n, done)
		}
		check(t, tree)
	}
	if n := tree.Stats().Inodes; n != 1 {
		t.Errorf("%d inodes left", n)
	}
}

// TestReclaimGoesOnAfterARestart, from where it was.
func TestReclaimGoesOnAfterARestart(t *testing.T) {
	mem := vfs.NewMem()
	tree, err := Open("tree", Options{FS: mem, Superuser: "root", ReclaimStep: 10, idle: true})
	if err != nil {
		t.Fatal(err)
	}
	load(t, tree, "/t", 30, 5)
	mustApply(t, tree, muster.Delete{Path: "/t", Recursive: true})
	work(t, tree, 3)
	left := tree.Stats()
	if err := tree.Close(); err != nil || left.Reclaiming == 0 {
		t.Fatalf("%v, %+v", err, left)
	}
	tree = openMem(t, Options{FS: mem, ReclaimStep: 10})
	waitReclaimed(t, tree)
	if sum := check(t, tree); sum.Inodes != 1 || sum.Reclaiming != 0 {
		t.Errorf("%+v", sum)
	}
}

// tombstones returns how many there are in the store, and writes all that is in memory into tables.
func tombstones(t testing.TB, tree *Tree) (n uint64) {
	t.Helper()
	if err := tree.db.Flush(); err != nil {
		t.Fatal(err)
	}
	levels, err := tree.db.SSTables(pebble.WithProperties())
	if err != nil {
		t.Fatal(err)
	}
	for _, tables := range levels {
		for _, table := range tables {
			n += table.Properties.NumDeletions
		}
	}
	return n
}

// TestReclaimLeavesNeighboursAlone: halfway through the reclaim of many entries, in all shapes, listing
// the directories beside them takes at most their rows and 16 internal steps of the store. What the
// rows of large directories leave behind in the store is one tombstone each directory. With
// MUSTER_LARGE set it is 1,000,000 entries.
func TestReclaimLeavesNeighboursAlone(t *testing.T) {
	total := 30_000
	if os.Getenv("MUSTER_LARGE") != "" {
		total = 1_000_000
	}
	for _, files := range []int{total / 2, 1000, 1} {
		t.Run(fmt.Sprintf("files=%d", files), func(t *testing.T) {
			tree, steps := openIdle(t, Options{ImageBytes: 1})
			load(t, tree, "/before", 1, 10)
			dirs := total / (files + 1)
			load(t, tree, "/t", dirs, files)
			load(t, tree, "/after", 1, 10)
			mustApply(t, tree, muster.Create{Path: "/t/last"})
			mustApply(t, tree, muster.Delete{Path: "/t", Recursive: true})
			start := tree.Stats().Inodes
			for tree.Stats().Inodes > start/2 {
				steps(1)
			}
			for flushed := range 2 {
				for path, rows := range map[string]int{"/": 2, "/before/d000000": 10, "/after": 1, "/after/d000000": 10} {
					reading(t, tree, root, func(r *Reader) {
						res, err := r.Resolve(path, true)
						if err == nil {
							err = r.Scan(&res, "", false)
						}
						got := 0
						for row := (muster.Row{}); err == nil && r.Next(&row); got++ {
						}
						if err != nil || r.Err() != nil || got != rows {
							t.Fatalf("%s: %d rows, %v, %v", path, got, err, r.Err())
						}
						if n := stepsOf(r.children.scan.iter); n > rows+16 {
							t.Errorf("%s: %d internal steps for %d rows (flushed: %d)", path, n, rows, flushed)
						}
					})
				}
				tombstones(t, tree)
			}
			for tree.Stats().Reclaiming > 0 {
				steps(1)
			}
			if n := tree.Stats().Inodes; n != 25 {
				t.Errorf("%d inodes left", n)
			}
			most := start + 3*uint64(dirs) + 16 // each inode's record, and each directory's queue entries and range
			if files <= 256 {
				most += uint64(dirs * files) // rows
			}
			if n := tombstones(t, tree); n > most {
				t.Errorf("%d tombstones, want at most %d", n, most)
			}
		})
	}
}

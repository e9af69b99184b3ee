package namespace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/muster-fs/muster"
)

// TestLookUpsInOrderFindWhatOthersDo: names that come in runs of ascending ones, some of them missing,
// some deleted, in two directories with others behind, are found as by point reads.
func TestLookUpsInOrderFindWhatOthersDo(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	tree := openMem(t, Options{ImageBytes: 1, idle: true})
	dirs := []string{"/a", "/b"}
	present := map[string]bool{}
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("n%02d", i), fmt.Sprintf("n%02d!", i))
	}
	mustApply(t, tree, muster.Mkdir{Path: "/a", Mode: 0o755}, muster.Mkdir{Path: "/b", Mode: 0o755}, muster.Mkdir{Path: "/c", Mode: 0o755}, muster.Create{Path: "/c/x"})
	for range 3 { // so that rows and what deletes them lie in several tables
		for _, dir := range dirs {
			for _, name := range names {
				path := dir + "/" + name
				switch {
				case !present[path] && rng.IntN(2) == 0:
					mustApply(t, tree, muster.Create{Path: path})
					present[path] = true
				case present[path] && rng.IntN(2) == 0:
					mustApply(t, tree, muster.Delete{Path: path})
					delete(present, path)
				}
			}
		}
		if err := tree.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	reading(t, tree, root, func(r *Reader) {
		var last string
		for range 500 {
			dir := dirs[rng.IntN(2)]
			step := 1 << rng.IntN(5)
			for i := rng.IntN(len(names)); i < len(names) && rng.IntN(12) > 0; i += 1 + rng.IntN(step) {
				path := dir + "/" + names[i]
				if path == last {
					continue // the walk is kept
				}
				last = path
				res, err := r.Resolve(path, true)
				if muster.CodeOf(err) == muster.OK != present[path] || err == nil && string(res.path) != path {
					t.Fatalf("%s: %v, want present %v", path, err, present[path])
				}
			}
		}
		if r.snap.seeks < 50 {
			t.Errorf("only %d runs were met", r.snap.seeks)
		}
	})
}

// TestAPageOfSiblingsCostsOneSearch, whether they are there or not.
func TestAPageOfSiblingsCostsOneSearch(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 1})
	load(t, tree, "/w", 300, 0)
	reading(t, tree, root, func(r *Reader) {
		cost := r.cost(func() {
			for d := range 400 {
				_, err := r.Resolve(fmt.Sprintf("/w/d%06d", d), true)
				if (err == nil) != (d < 300) {
					t.Fatal(d, err)
				}
			}
		})
		if want := (reads{1 + 2, 1}); cost != want { // /w, then two siblings
			t.Errorf("%+v, want %+v", cost, want)
		}
		cost = r.cost(func() {
			for d := 0; d < 300; d += 10 {
				resolveOne(t, r, fmt.Sprintf("/w/d%06d", d))
			}
		})
		if cost.gets+cost.seeks > 31 {
			t.Errorf("siblings far from each other: %+v for 30", cost)
		}
	})
}

// TestDeletedNeighboursAreNotReadThrough: thousands of rows and records that were deleted lie between two
// directories, which are read in one pass without meeting them.
func TestDeletedNeighboursAreNotReadThrough(t *testing.T) {
	tree := openMem(t, Options{idle: true})
	mustApply(t, tree, muster.Mkdir{Path: "/a", Mode: 0o755}, muster.Mkdir{Path: "/tmp", Mode: 0o755})
	for range 5 {
		var made, gone []muster.Command
		for i := range 1000 {
			path := fmt.Sprintf("/tmp/%d", i)
			made, gone = append(made, muster.Create{Path: path}), append(gone, muster.Delete{Path: path})
		}
		mustApply(t, tree, made...)
		mustApply(t, tree, gone...)
	}
	mustApply(t, tree, muster.Mkdir{Path: "/b", Mode: 0o755}, muster.Create{Path: "/b/f"})
	reading(t, tree, root, func(r *Reader) {
		res := make([]Resolved, 2)
		for i, path := range []string{"/a", "/b"} {
			var err error
			if res[i], err = r.Resolve(path, true); err != nil {
				t.Fatal(err)
			}
		}
		if r.Load(res); res[0].held.as != whole || res[1].held.as != whole {
			t.Fatalf("%+v", res)
		}
		if rows, records := stepsOf(r.load.rows), stepsOf(r.load.records.iter); rows > 20 || records > 20 {
			t.Errorf("%d internal steps for rows, %d for records", rows, records)
		}
	})
}

// TestAStrayKeyHidesNoDirectory: a key too short to be a row's lies where the loading of a directory stops
// on the way from the one before; the directory is not taken for an empty one.
func TestAStrayKeyHidesNoDirectory(t *testing.T) {
	const first = 254 // so that the key is after the rows of the second and before those of the third
	for rows := range manySteps + 2 {
		tree := openMem(t, Options{idle: true})
		for id := uint64(rootID + 1); id < first; id++ {
			mustApply(t, tree, muster.Mkdir{Path: fmt.Sprintf("/%d", id), Mode: 0o755})
		}
		for _, path := range []string{"/a", "/b", "/c"} {
			mustApply(t, tree, muster.Mkdir{Path: path, Mode: 0o755})
		}
		for i := range rows {
			mustApply(t, tree, muster.Create{Path: fmt.Sprintf("/b/%d", i)})
		}
		mustApply(t, tree, muster.Create{Path: "/c/f"})
		if id := idOf(t, tree, "/c"); id != first+2 {
			t.Fatalf("the third has id %d", id)
		}
		poke(t, tree, appendIDKey(nil, tagRow, first+2)[:idKeyLen-1], []byte("stray"))
		mustApply(t, tree, muster.SetAttr{Path: "/a", MTime: new(int64(1))}) // a view that has it
		reading(t, tree, root, func(r *Reader) {
			if got := list(t, r, "/a", "/c"); len(got) != 1 || got[0] != "f" {
				t.Errorf("after %d rows: %q", rows, got)
			}
		})
	}
}

package namespace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// reads counts what calls on a reader cost in store reads.
type reads struct{ gets, seeks uint64 }

func (r *Reader) reads() reads { return reads{r.snap.gets, r.seeks()} }

// cost is what do adds.
func (r *Reader) cost(do func()) reads {
	before := r.reads()
	do()
	after := r.reads()
	return reads{after.gets - before.gets, after.seeks - before.seeks}
}

// TestStoreReadsOfEachCall pins what each call of a reader reads without images, in the order of the
// table and with one reader: a walk costs one point read for each component that it does not share with
// the walk before, if names do not come in order.
func TestStoreReadsOfEachCall(t *testing.T) {
	tree := openMem(t, Options{ImageBytes: 1})
	mustApply(t, tree,
		muster.Mkdir{Path: "/w/t/p=1", Mode: 0o755, Parents: true},
		muster.Mkdir{Path: "/w/t/p=2", Mode: 0o755},
		muster.Mkdir{Path: "/w/t/p=3", Mode: 0o755},
		muster.Create{Path: "/w/t/p=2/a", Replication: muster.Replicated(1), Length: 1000, Blocks: make([]muster.Block, 3)},
		muster.Create{Path: "/w/t/p=2/b", Replication: muster.Replicated(1), Length: 1000, Blocks: make([]muster.Block, 1000)},
		muster.Symlink{Path: "/l", Target: "w/t"},
		muster.Symlink{Path: "/w/t/up", Target: "../t/p=1"},
	)
	reading(t, tree, root, func(r *Reader) {
		var res Resolved
		var row muster.Row
		resolve := func(path string, follow bool) func() error {
			return func() (err error) { res, err = r.Resolve(path, follow); return err }
		}
		scan := func(blocks bool) func() error {
			return func() error {
				err := r.Scan(&res, "", blocks)
				for err == nil && r.Next(&row) {
				}
				return r.Err()
			}
		}
		heads := make([]Head, 4)
		for _, c := range []struct {
			what string
			do   func() error
			want reads
		}{
			{"the first walk reads the root and each component", resolve("/w/t/p=1", true), reads{4, 0}},
			{"a sibling", resolve("/w/t/p=2", true), reads{1, 0}},
			{"a missing sibling, the third name in order: an iterator goes there", func() error { r.Resolve("/w/t/p=9", true); return nil }, reads{0, 1}},
			{"a sibling before it", resolve("/w/t/p=3", true), reads{1, 0}},
			{"the same path again", resolve("/w/t/p=3", true), reads{0, 0}},
			{"the parent", resolve("/w/t", true), reads{0, 0}},
			{"the root", resolve("/", true), reads{0, 0}},
			{"a walk anew, the directories known", resolve("/w/t/p=2", true), reads{1, 0}},
			{"a child of the path before", resolve("/w/t/p=2/a", true), reads{1, 0}},
			{"may it be read", func() error { return r.CheckRead(&res) }, reads{0, 0}},
			{"the row of a file, blocks in it", func() error { return r.Row(&res, &row, true) }, reads{0, 0}},
			{"a file of 1,000 blocks", resolve("/w/t/p=2/b", true), reads{1, 0}},
			{"its row without blocks", func() error { return r.Row(&res, &row, false) }, reads{0, 0}},
			{"its row with blocks: 4 chunks", func() error { return r.Row(&res, &row, true) }, reads{4, 0}},
			{"back to the directory", resolve("/w/t/p=2", true), reads{0, 0}},
			{"the row of a directory reads its record", func() error { return r.Row(&res, &row, true) }, reads{1, 0}},
			{"a scan", scan(false), reads{0, 1}},
			{"a scan with blocks", scan(true), reads{4, 1}},
			{"an empty directory", resolve("/w/t/p=1", true), reads{1, 0}},
			{"a scan of it", scan(false), reads{0, 1}},
			{"through a link: link, its two components, the last", resolve("/l/p=2", true), reads{4, 0}},
			{"a sibling through the same link", resolve("/l/p=3", true), reads{1, 0}},
			{"a link in last place, not followed", resolve("/l", false), reads{1, 0}},
			{"with .. in its target, which reads nothing", resolve("/w/t/up", true), reads{3, 0}},
			{"heads: the first is searched, the others are next to it", func() error { return r.Heads([]uint64{4, 2, 3, 4}, heads) }, reads{0, 1}},
			{"no heads", func() error { return r.Heads(nil, nil) }, reads{0, 0}},
		} {
			got := r.cost(func() {
				if err := c.do(); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			})
			if got != c.want {
				t.Errorf("%s: %d gets and %d seeks, want %d and %d", c.what, got.gets, got.seeks, c.want.gets, c.want.seeks)
			}
		}
	})
}

// TestStoreReadsOfEachCommand pins what a command reads, the request id's look-up included.
func TestStoreReadsOfEachCommand(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Mkdir{Path: "/a/b", Mode: 0o755, Parents: true}, muster.Create{Path: "/a/b/f"}, muster.Create{Path: "/a/b/g"}, muster.Mkdir{Path: "/a/b/full/d", Parents: true})
	var fill []muster.Command
	for i := range 9998 {
		fill = append(fill, add(0, int64(min(i, 1)), uint64(i+1)))
	}
	file := mustApply(t, tree, append([]muster.Command{start("/a/b/w")}, fill...)...).IDs[0]
	for i, c := range []struct {
		what     string
		commands []muster.Command
		gets     uint64
	}{
		{"create: root, two components, the name, the parent's record", []muster.Command{muster.Create{Path: "/a/b/x"}}, 5},
		{"1,000 siblings in one batch share walk and record", siblings(1000), 4 + 1000},
		{"set a file's mode: four rows, the parent's record", []muster.Command{muster.SetAttr{Path: "/a/b/f", Mode: new(uint16(0o600))}}, 5},
		{"rename in a directory: walk, both names, two records", []muster.Command{muster.Rename{From: "/a/b/f", To: "/a/b/h"}}, 7},
		{"delete a file: walk, name, the parent's record", []muster.Command{muster.Delete{Path: "/a/b/g"}}, 5},
		{"start a file and add its first block: as a create", []muster.Command{start("/a/b/y"), add(0, 0, 1)}, 5},
		{"a file of one block at once: as a create", []muster.Command{start("/a/b/z"), add(0, 0, 1), finish(0, 1)}, 5},
		{"add a block: the records on the way, row, writer and last chunk", []muster.Command{add(file, 1, 20_000)}, 6},
		{"add one that begins a chunk: the same", []muster.Command{add(file, 1, 20_001)}, 6},
		{"take a lease", []muster.Command{muster.TakeLease{File: file, From: writer, Holder: writer}}, 5},
		{"finish: as adding", []muster.Command{finish(file, 1)}, 6},
		{"rename by id: the rename's, and the records on the way", []muster.Command{muster.Rename{File: file, To: "/a/b/w2"}}, 10},
		{"delete it: as a small one", []muster.Command{muster.Delete{Path: "/a/b/w2"}}, 5},
		{"delete a tree: its record too", []muster.Command{muster.Delete{Path: "/a/b/full", Recursive: true}}, 6},
	} {
		before := tree.Stats()
		_, err := tree.Apply(t.Context(), Request{ID: muster.RequestID{Sequence: uint64(i + 1)}, Caller: root, Commands: c.commands})
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Stats().Gets - before.Gets; got != c.gets+1 && !strings.HasPrefix(c.what, "delete a tree") { // its reclaim reads too
			t.Errorf("%s: %d gets, want %d", c.what, got, c.gets+1)
		}
	}
}

func siblings(n int) (commands []muster.Command) {
	for i := range n {
		commands = append(commands, muster.Create{Path: fmt.Sprintf("/a/b/s%d", i)})
	}
	return commands
}

// TestAPageTakesOneView: the read lock is taken for the view, and by nothing that reads it.
func TestAPageTakesOneView(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Mkdir{Path: "/d", Mode: 0o755}, muster.Create{Path: "/d/f"})
	before := tree.Stats().Views
	v, err := tree.View()
	if err != nil {
		t.Fatal(err)
	}
	tree.mu.Lock() // whoever needs the lock from here on hangs
	r := v.NewReader(&root)
	var row muster.Row
	for range 10 {
		res, err := r.Resolve("/d", true)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Scan(&res, "", true); err != nil || !r.Next(&row) || r.Next(&row) {
			t.Fatal(err)
		}
		if err := r.Heads([]uint64{res.ID()}, make([]Head, 1)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	v.Release()
	tree.mu.Unlock()
	if got := tree.Stats().Views - before; got != 1 {
		t.Errorf("%d views taken, want 1", got)
	}
}

// TestReadingAllocatesNothingPerRow: what a page costs does not grow with its rows, but for the
// arena's chunks.
func TestReadingAllocatesNothingPerRow(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	tree := openMem(t, Options{})
	load(t, tree, "/w", 500, 2)
	var paths []string
	for d := range 500 {
		paths = append(paths, fmt.Sprintf("/w/d%06d", d))
	}
	var row muster.Row
	allocs := testing.AllocsPerRun(5, func() {
		reading(t, tree, root, func(r *Reader) {
			rows := 0
			for _, p := range paths {
				res, err := r.Resolve(p, true)
				if err == nil {
					err = r.Scan(&res, "", true)
				}
				for err == nil && r.Next(&row) {
					rows++
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if rows != 1000 {
				t.Fatalf("%d rows", rows)
			}
		})
	})
	if allocs > 100 {
		t.Errorf("%v allocations for 500 directories and 1,000 rows", allocs)
	}
}

// TestScansGoOnAfterAName, which may be gone, and stay in their directory.
func TestScansGoOnAfterAName(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Mkdir{Path: "/d", Mode: 0o755}, muster.Mkdir{Path: "/e", Mode: 0o755}, muster.Create{Path: "/e/z"},
		muster.Create{Path: "/d/a"}, muster.Create{Path: "/d/a!"}, muster.Create{Path: "/d/b"}, muster.Create{Path: "/d/\u00e9"})
	reading(t, tree, root, func(r *Reader) {
		res, err := r.Resolve("/d", true)
		if err != nil {
			t.Fatal(err)
		}
		for after, want := range map[string][]string{
			"": {"a", "a!", "b", "\u00e9"}, "a": {"a!", "b", "\u00e9"}, "a ": {"a!", "b", "\u00e9"}, "a!": {"b", "\u00e9"}, "c": {"\u00e9"}, "\u00e9": nil,
		} {
			if err := r.Scan(&res, after, false); err != nil {
				t.Fatal(err)
			}
			var got []string
			for row := (muster.Row{}); r.Next(&row); {
				got = append(got, string(row.Name))
			}
			if r.Err() != nil || !slices.Equal(got, want) {
				t.Errorf("after %q: %q (%v), want %q", after, got, r.Err(), want)
			}
		}
	})
}

// TestHeadsAndScansMayAlternate: reading heads does not disturb a scan in progress.
func TestHeadsAndScansMayAlternate(t *testing.T) {
	tree := openMem(t, Options{})
	load(t, tree, "/w", 10, 0)
	reading(t, tree, root, func(r *Reader) {
		res, err := r.Resolve("/w", true)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Scan(&res, "", false); err != nil {
			t.Fatal(err)
		}
		n := 0
		for row := (muster.Row{}); r.Next(&row); n++ {
			if err := r.Heads([]uint64{row.ID, rootID}, make([]Head, 2)); err != nil {
				t.Fatal(err)
			}
		}
		if r.Err() != nil || n != 10 {
			t.Errorf("%d rows, %v", n, r.Err())
		}
	})
}

// stepsOf is the internal steps that an iterator of the store made.
func stepsOf(iter *pebble.Iterator) int {
	s := iter.Stats()
	return s.ForwardStepCount[pebble.InternalIterCall] + s.ForwardSeekCount[pebble.InternalIterCall]
}

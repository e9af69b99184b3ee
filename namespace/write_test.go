package namespace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

var (
	writer  = muster.Holder{1}
	another = muster.Holder{2}
)

func start(path string) muster.StartFile {
	return muster.StartFile{Path: path, Mode: 0o644, Replication: muster.Replicated(3), BlockSize: muster.MinBlockSize, Holder: writer}
}

// add adds the n-th block, from 1 on, after one of the given length.
func add(file uint64, previous int64, n uint64) muster.AddBlock {
	return muster.AddBlock{File: file, Holder: writer, Previous: previous, Block: muster.Block{Container: 1 + n/100, LocalID: n}}
}

func finish(file uint64, last int64) muster.FinishFile {
	return muster.FinishFile{File: file, Holder: writer, Last: last}
}

func mustDeletions(t testing.TB, tree *Tree) []muster.BlockID {
	t.Helper()
	list, err := tree.Deletions(muster.BlockID{}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestBlocksAreAddedAtTheEnd adds blocks one by one, some of which get no data and are replaced, up
// to the most that a file may have, across the bounds of row and chunks, and compares the lists.
func TestBlocksAreAddedAtTheEnd(t *testing.T) {
	tree := openMem(t, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	file := mustApply(t, tree, start("/f")).IDs[0]
	var want []muster.Block
	var dropped []muster.BlockID
	n := uint64(0)
	write := func(count int) {
		var commands []muster.Command
		for range count {
			n++
			previous := int64(0)
			if last := len(want) - 1; last >= 0 {
				if previous = rng.Int64N(6); last > 600 {
					previous = 7
				}
				if want[last].Length = previous; previous == 0 {
					dropped = append(dropped, muster.BlockID{Container: want[last].Container, LocalID: want[last].LocalID})
					want = want[:last]
				}
			}
			c := add(file, previous, n)
			want = append(want, c.Block)
			commands = append(commands, c)
		}
		mustApply(t, tree, commands...)
	}
	compare := func(finished bool) {
		t.Helper()
		e := stat(t, tree, "/f")
		length := int64(0)
		for _, b := range want {
			length += b.Length
		}
		if !slices.Equal(e.Blocks, want) || e.Length != length || (e.Flags == 0) != finished {
			t.Fatalf("%d blocks, length %d, flags %d; want %d, %d", len(e.Blocks), e.Length, e.Flags, len(want), length)
		}
	}
	for len(want) < 600 {
		write(1 + rng.IntN(7))
		compare(false)
	}
	check(t, tree)
	for len(want) < muster.MaxBlocks {
		write(min(1000, muster.MaxBlocks-len(want)))
		compare(false)
	}
	if _, err := tryApply(t, tree, add(file, 7, n+1)); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("a block too many: %v", err)
	}
	n++
	mustApply(t, tree, add(file, 0, n)) // in the place of the last one
	dropped = append(dropped, muster.BlockID{Container: want[len(want)-1].Container, LocalID: want[len(want)-1].LocalID})
	want[len(want)-1] = add(file, 0, n).Block
	compare(false)
	mustApply(t, tree, finish(file, 5))
	want[len(want)-1].Length = 5
	compare(true)
	check(t, tree)
	if got := mustDeletions(t, tree); !slices.Equal(got, dropped) {
		t.Errorf("%d blocks are to be deleted, want %d", len(got), len(dropped))
	}
}

// TestFinishDropsAnEmptyLastBlock, where it is the only one of its chunk too.
func TestFinishDropsAnEmptyLastBlock(t *testing.T) {
	for _, n := range []int{0, 1, 2, 16, 17, 18, 272, 273, 274} {
		tree := openMem(t, Options{})
		commands := []muster.Command{start("/f")}
		for i := range n {
			commands = append(commands, add(0, int64(min(i, 1)), uint64(i+1)))
		}
		mustApply(t, tree, append(commands, finish(0, 0))...)
		if e := stat(t, tree, "/f"); len(e.Blocks) != max(n-1, 0) || e.Length != int64(max(n-1, 0)) || e.Flags != 0 {
			t.Errorf("%d blocks: %d are left, of length %d, flags %d", n, len(e.Blocks), e.Length, e.Flags)
		}
		if got := mustDeletions(t, tree); len(got) != min(n, 1) {
			t.Errorf("%d blocks: %v are to be deleted", n, got)
		}
		check(t, tree)
	}
}

// TestTheBlockThatEndsIsNamed: if it is not the file's last one nothing changes, wherever that is.
func TestTheBlockThatEndsIsNamed(t *testing.T) {
	for _, n := range []int{0, 1, 16, 17, 272, 273} {
		tree := openMem(t, Options{})
		commands := []muster.Command{start("/f")}
		for i := range n {
			commands = append(commands, add(0, int64(min(i, 1)), uint64(i+1)))
		}
		file := mustApply(t, tree, commands...).IDs[0]
		before := stat(t, tree, "/f")
		named := func(id muster.BlockID) (muster.AddBlock, muster.FinishFile) {
			a, f := add(file, int64(min(n, 1)), 1000), finish(file, int64(min(n, 1)))
			a.Ends, f.Ends = id, id
			return a, f
		}
		a, f := named(muster.BlockID{Container: 4711, LocalID: 1})
		for _, c := range []muster.Command{a, f} {
			if _, err := tryApply(t, tree, c); !errors.Is(err, muster.ErrChanged) || !strings.Contains(err.Error(), "4711") {
				t.Errorf("%d blocks: %s: %v", n, c.Verb(), err)
			}
		}
		if e := stat(t, tree, "/f"); e.Length != before.Length || !slices.Equal(e.Blocks, before.Blocks) {
			t.Errorf("%d blocks: %+v, and before %+v", n, e, before)
		}
		var last muster.BlockID
		if n > 0 {
			last = muster.BlockID{Container: before.Blocks[n-1].Container, LocalID: before.Blocks[n-1].LocalID}
		}
		a, _ = named(last)
		_, f = named(muster.BlockID{Container: a.Block.Container, LocalID: a.Block.LocalID})
		f.Last = 1
		mustApply(t, tree, a, f)
		if e := stat(t, tree, "/f"); len(e.Blocks) != n+1 || e.Length != int64(n+1) {
			t.Errorf("%d blocks: then %+v", n, e)
		}
		check(t, tree)
	}
}

// TestWhoMayWrite: the holder's requests of the user who started it, or of a superuser; others are
// told who does, and since when.
func TestWhoMayWrite(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	tree := openMem(t, Options{Now: func() time.Time { return now }})
	ann, ben := muster.Identity{User: "ann"}, muster.Identity{User: "ben"}
	mustApply(t, tree, muster.SetAttr{Path: "/", Mode: new(uint16(0o777))})
	a, err := tryAs(t, tree, ann, start("/f"), add(0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	file := a.IDs[0]
	// What a file is like, and where, does not matter to its writer.
	mustApply(t, tree, muster.SetAttr{Path: "/f", Mode: new(uint16(0))}, muster.Mkdir{Path: "/p", Mode: 0}, muster.Rename{From: "/f", To: "/p/g"})
	now = now.Add(time.Hour)
	since := `user "ann" since 2026-05-04T03:02:01Z`
	other := `by another client, of user "ann", since 2026-05-04T03:02:01Z`
	foreign := muster.AddBlock{File: file, Holder: another, Block: muster.Block{Container: 1, LocalID: 9}}
	for _, c := range []struct {
		who     muster.Identity
		command muster.Command
		code    muster.Code
		says    string
	}{
		{root, start("/p/g"), muster.ErrExists, since},
		{root, muster.StartFile{Path: "/p/g", Replication: muster.Replicated(3), BlockSize: muster.MinBlockSize, Overwrite: true, Holder: another}, muster.ErrExists, since},
		{ann, foreign, muster.ErrExists, other},
		{root, foreign, muster.ErrExists, other},
		{ann, muster.FinishFile{File: file, Holder: another}, muster.ErrExists, other},
		{ann, muster.TakeLease{File: file, From: another, Holder: another}, muster.ErrExists, other},
		{ben, add(file, 1, 2), muster.ErrPermission, `user "ann" started to write it, not user "ben"`},
		{ben, finish(file, 1), muster.ErrPermission, "ben"},
		{ben, muster.TakeLease{File: file, From: writer, Holder: another}, muster.ErrPermission, "ben"},
		{ann, add(file, -1, 2), muster.ErrInvalid, "-1"},
		{ann, add(file, muster.MinBlockSize+1, 2), muster.ErrInvalid, "block size"},
		{ann, muster.AddBlock{File: file, Holder: writer, Block: muster.Block{LocalID: 1}}, muster.ErrInvalid, "0/1"},
		{ann, add(0, 0, 1), muster.ErrInvalid, "names a file"},
		{ann, add(999, 0, 1), muster.ErrNotFound, "inode 999"},
		{ann, add(rootID, 0, 1), muster.ErrNotFound, "inode 1"},
		{ann, muster.Rename{File: 999, To: "/x"}, muster.ErrNotFound, "inode 999"},
		{ann, muster.Rename{File: file, To: "/x"}, muster.ErrPermission, "/p"},
		{ann, muster.StartFile{Path: "/x", Replication: muster.Replicated(3), BlockSize: muster.MinBlockSize}, muster.ErrInvalid, "holder"},
		{ann, muster.StartFile{Path: "/x", Replication: muster.Replicated(3), BlockSize: muster.MinBlockSize - 1, Holder: writer}, muster.ErrInvalid, "block size"},
		{ann, muster.StartFile{Path: "/x", BlockSize: muster.MinBlockSize, Holder: writer}, muster.ErrInvalid, "replication"},
		{ann, add(file, 1, 2), muster.OK, ""},
		{root, add(file, 1, 3), muster.OK, ""},
		{root, muster.TakeLease{File: file, From: writer, Holder: another}, muster.OK, ""},
		{ann, add(file, 1, 4), muster.ErrExists, other},
		{root, muster.FinishFile{File: file, Holder: another, Last: 1}, muster.OK, ""},
		{root, muster.FinishFile{File: file, Holder: another, Last: 1}, muster.ErrNotFound, "not being written"},
		{root, muster.Rename{File: file, From: "/not/there", To: "/x"}, muster.OK, ""},
	} {
		_, err := tryAs(t, tree, c.who, c.command)
		if muster.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %+v: %v; want %s, %q", c.who.User, c.command, err, c.code.Name(), c.says)
		}
	}
	if e := stat(t, tree, "/x"); e.ID != file || e.Length != 3 || len(e.Blocks) != 3 || e.MTime != now.UnixMilli() {
		t.Errorf("at last: %+v", e)
	}
	check(t, tree)
}

// TestAWriterIsToldThatItsFileIsGone: deleted, replaced, or below what was deleted, in a batch, a
// group and later, and after the reclaim.
func TestAWriterIsToldThatItsFileIsGone(t *testing.T) {
	for name, gone := range map[string]muster.Command{
		"deleted":            muster.Delete{Path: "/a/b/c/f"},
		"replaced by create": muster.Create{Path: "/a/b/c/f", Overwrite: true},
		"replaced by rename": muster.Rename{From: "/other", To: "/a/b/c/f", Overwrite: true},
		"its directory":      muster.Delete{Path: "/a/b/c", Recursive: true},
		"one above":          muster.Delete{Path: "/a", Recursive: true},
	} {
		t.Run(name, func(t *testing.T) {
			tree, steps := openIdle(t, Options{ReclaimStep: 1})
			begin := []muster.Command{muster.Create{Path: "/other"}, muster.Mkdir{Path: "/a/b/c", Parents: true}, start("/a/b/c/f"), add(0, 0, 1)}
			if _, err := tryApply(t, tree, slices.Concat(begin, []muster.Command{gone, add(6, 1, 2)})...); !errors.Is(err, muster.ErrNotFound) {
				t.Errorf("in one batch: %v", err)
			}
			file := mustApply(t, tree, begin...).IDs[2] // 6
			group := []*call{}
			for _, c := range []muster.Command{add(file, 1, 2), gone, add(file, 1, 3)} {
				call := &call{ctx: t.Context(), request: Request{Caller: root, Commands: []muster.Command{c}}, done: make(chan struct{})}
				if err := call.check(); err != nil {
					t.Fatal(err)
				}
				group = append(group, call)
			}
			queue(t, tree, group)
			for _, call := range group {
				<-call.done
			}
			if group[0].err != nil || group[1].err != nil || !errors.Is(group[2].err, muster.ErrNotFound) {
				t.Errorf("in one group: %v, %v, %v", group[0].err, group[1].err, group[2].err)
			}
			for range 20 {
				for _, c := range []muster.Command{add(file, 1, 3), finish(file, 1), muster.TakeLease{File: file, From: writer, Holder: another}, muster.Rename{File: file, To: "/x"}} {
					if _, err := tryApply(t, tree, c); !errors.Is(err, muster.ErrNotFound) {
						t.Fatalf("%T: %v", c, err)
					}
				}
				reading(t, tree, root, func(r *Reader) {
					if _, err := r.ResolveID(file); !errors.Is(err, muster.ErrNotFound) {
						t.Fatal(err)
					}
				})
				check(t, tree)
				steps(1)
			}
			if list, err := tree.Writings(0, 9); err != nil || len(list) > 0 || tree.Stats().Writing != 0 {
				t.Errorf("being written: %+v, %v", list, err)
			}
			if got := mustDeletions(t, tree); len(got) != 2 {
				t.Errorf("to be deleted: %v", got)
			}
		})
	}
}

// TestRepeatsOfWritesGetTheFirstResult, though the server chose another block, or replication.
func TestRepeatsOfWritesGetTheFirstResult(t *testing.T) {
	tree := openMem(t, Options{})
	id := muster.RequestID{Client: writer}
	apply := func(commands ...muster.Command) (muster.Applied, error) {
		return tree.Apply(t.Context(), Request{ID: id, Caller: root, Commands: commands})
	}
	id.Sequence++
	first, err := apply(start("/f"), add(0, 0, 1))
	if err != nil || first.Repeat {
		t.Fatal(first, err)
	}
	chosen := start("/f")
	chosen.Replication, chosen.BlockSize = muster.Replicated(1), muster.MaxBlockSize
	again, err := apply(chosen, add(0, 0, 2))
	if err != nil || !again.Repeat || again.Txid != first.Txid || !slices.Equal(again.IDs, first.IDs) {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := apply(start("/g"), add(0, 0, 1)); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("another path under the id: %v", err)
	}
	if _, err := apply(start("/f"), add(0, 1, 1)); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("another length under the id: %v", err)
	}
	reading(t, tree, root, func(r *Reader) {
		res, err := r.ResolveID(first.IDs[0])
		if err != nil {
			t.Fatal(err)
		}
		if last, count, err := r.LastBlock(&res); err != nil || count != 1 || last.LocalID != 1 || res.Path() != "/f" {
			t.Errorf("%v, %d, %v at %s", last, count, err, res.Path())
		}
	})
	check(t, tree)
}

// TestLongListsAreQueuedInSteps: deleting files takes few writes however many blocks they have, and
// no step of the background queues more than its share and a chunk; no block is missing, none comes twice,
// over restarts too.
func TestLongListsAreQueuedInSteps(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, ReclaimStep: 1000, Superuser: "root", idle: true}
	files, blocks := 5, muster.MaxBlocks
	if testing.Short() {
		o.ReclaimStep, blocks = 200, 1500
	}
	tree, err := Open("tree", o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[muster.BlockID]bool{}
	for f := range files {
		c := muster.Create{Path: fmt.Sprintf("/d/f%d", f), Parents: true, Length: 1 << 40, Replication: muster.Replicated(1)}
		for i := range blocks {
			c.Blocks = append(c.Blocks, muster.Block{Container: uint64(1 + i%7), LocalID: uint64(f*blocks + i + 1)})
			want[muster.BlockID{Container: c.Blocks[i].Container, LocalID: c.Blocks[i].LocalID}] = true
		}
		mustApply(t, tree, c)
	}
	if n := batchOf(t, tree, muster.Delete{Path: "/d/f0"}); n > 1500 {
		t.Errorf("deleting a file of %d blocks takes %d bytes", blocks, n)
	}
	mustApply(t, tree, muster.Delete{Path: "/d/f0"}, muster.Create{Path: "/d/f1", Overwrite: true})
	mustApply(t, tree, muster.Delete{Path: "/d", Recursive: true})
	before := 0
	for n := 0; tree.Stats().Queueing+tree.Stats().Reclaiming > 0; n++ {
		work(t, tree, 1)
		got := mustDeletions(t, tree)
		if grown := len(got) - before; grown > o.ReclaimStep+chunkBlocks+files*inlineBlocks {
			t.Errorf("step %d queued %d blocks", n, grown)
		}
		for _, b := range got {
			if !want[b] {
				t.Fatalf("%v is not to be deleted, or was", b)
			}
		}
		// Half of them are deleted.
		done := got[:len(got)/2]
		if err := tree.Deleted(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		for _, b := range done {
			delete(want, b)
		}
		before = len(got) - len(done)
		if n%7 == 0 {
			check(t, tree)
			if err := tree.Close(); err != nil {
				t.Fatal(err)
			}
			if tree, err = Open("tree", o); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer func() { _ = tree.Close() }()
	if got := mustDeletions(t, tree); len(got) != len(want) {
		t.Errorf("%d blocks are to be deleted, want %d", len(got), len(want))
	}
	check(t, tree)
}

// TestTheBackgroundQueuesLongLists by itself, when there is nothing else to do for it.
func TestTheBackgroundQueuesLongLists(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Create{Path: "/f", Length: 1, Replication: muster.Replicated(1), Blocks: make([]muster.Block, 300)})
	mustApply(t, tree, muster.Delete{Path: "/f"})
	for tree.Stats().Queueing > 0 {
		if t.Context().Err() != nil {
			t.Fatal("the test ends before the queueing does")
		}
		runtime.Gosched()
	}
	check(t, tree)
}

// TestTheReclaimEndsWriting of files in deleted trees, those without a block too; nobody can before.
func TestTheReclaimEndsWriting(t *testing.T) {
	tree, steps := openIdle(t, Options{ReclaimStep: 3})
	var commands []muster.Command
	for i := range 10 {
		commands = append(commands, start(fmt.Sprintf("/d/f%d", i)))
	}
	mustApply(t, tree, append([]muster.Command{muster.Mkdir{Path: "/d"}}, commands...)...)
	mustApply(t, tree, muster.Delete{Path: "/d", Recursive: true}, start("/stays"))
	left := uint64(11)
	for tree.Stats().Reclaiming > 0 {
		list, err := tree.Writings(0, 100)
		if now := tree.Stats().Writing; err != nil || uint64(len(list)) != now || now > left || list[len(list)-1].File != 13 {
			t.Fatalf("%+v, %v, and %d are counted after %d", list, err, now, left)
		} else {
			left = now
		}
		check(t, tree)
		steps(1)
	}
	if list, err := tree.Writings(0, 100); err != nil || len(list) != 1 || tree.Stats().Writing != 1 {
		t.Errorf("at last: %+v, %v", list, err)
	}
	if list, err := tree.Writings(12, 0); err != nil || len(list) != 0 {
		t.Errorf("at most none: %+v, %v", list, err)
	}
	if list, err := tree.Writings(13, 9); err != nil || len(list) != 0 {
		t.Errorf("after the last: %+v, %v", list, err)
	}
}

// batchOf is how many bytes, about, commands write.
func batchOf(t testing.TB, tree *Tree, commands ...muster.Command) int {
	t.Helper()
	tx := tree.newTxn(tree.committer.meta)
	if _, err := tx.run(&call{request: Request{Caller: root, Commands: commands}}); err != nil {
		t.Fatal(err)
	}
	return tx.size()
}

// TestAddingABlockWritesTheLastChunk and the row, however long the list is.
func TestAddingABlockWritesTheLastChunk(t *testing.T) {
	tree := openMem(t, Options{})
	file := mustApply(t, tree, start("/f")).IDs[0]
	n := 0
	for _, c := range []struct {
		blocks int // that it has
		most   int // bytes
	}{
		{1, 400}, {15, 800}, {16, 900}, {100, 3000}, {271, 7000}, {272, 7500}, {273, 1000}, {9743, 7000}, {9745, 1400}, {9999, 7000},
	} {
		var commands []muster.Command
		for ; n < c.blocks; n++ {
			commands = append(commands, add(file, int64(min(n, 1)), uint64(n+1)))
		}
		mustApply(t, tree, commands...)
		if got := batchOf(t, tree, add(file, 1, 1<<40)); got > c.most {
			t.Errorf("a block after %d writes %d bytes, want at most %d", c.blocks, got, c.most)
		}
	}
}

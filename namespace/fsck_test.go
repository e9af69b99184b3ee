package namespace

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// poke writes to the store behind the tree's back; a nil value deletes.
func poke(t testing.TB, tree *Tree, key, value []byte) {
	t.Helper()
	var err error
	if value == nil {
		err = tree.db.Delete(key, pebble.Sync)
	} else {
		err = tree.db.Set(key, value, pebble.Sync)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, tree, muster.Mkdir{Path: "/", Parents: true}) // a new view
}

// peek reads the store.
func peek(t testing.TB, tree *Tree, key []byte) []byte {
	t.Helper()
	v, closer, err := tree.db.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	return slices.Clone(v)
}

// TestFsckFindsEachKindOfDamage does each kind of damage to a store that was fine, and names it.
func TestFsckFindsEachKindOfDamage(t *testing.T) {
	var dir, deep, file, big, detached, written, gone uint64
	edit := func(id uint64, change func(r *record)) func(t *testing.T, tree *Tree) {
		return func(t *testing.T, tree *Tree) {
			var r record
			key := appendIDKey(nil, tagRecord, id)
			if err := decodeRecord(peek(t, tree, key), &r); err != nil {
				t.Fatal(err)
			}
			change(&r)
			poke(t, tree, key, appendRecord(nil, &r))
		}
	}
	set := func(key, value []byte) func(t *testing.T, tree *Tree) {
		return func(t *testing.T, tree *Tree) { poke(t, tree, key, value) }
	}
	row := func(id uint64, kind muster.Kind) []byte {
		return appendRow(nil, &muster.Row{ID: id, Kind: kind, Owner: []byte("o"), Group: []byte("g")}, blockList{})
	}
	blocks := func(lengths ...int64) []byte {
		var list []muster.Block
		for _, n := range lengths {
			list = append(list, muster.Block{Length: n})
		}
		r := muster.Row{ID: file, Kind: muster.File, Owner: []byte("o"), Group: []byte("g"), Length: math.MaxInt64}
		return appendRow(nil, &r, blockList{len(list), appendBlocks(nil, list)})
	}
	id := func(tag byte, id uint64) []byte { return appendIDKey(nil, tag, id) }
	request := muster.RequestID{Sequence: 7}
	build := func(t *testing.T) *Tree {
		tree, _ := openIdle(t, Options{})
		a := mustApply(t, tree, muster.Mkdir{Path: "/d/deep", Mode: 0o755, Parents: true}, muster.Mkdir{Path: "/d", Parents: true}, muster.Create{Path: "/d/f"},
			muster.Create{Path: "/big", Length: 1, Replication: muster.Replicated(1), Blocks: make([]muster.Block, 300)},
			muster.Mkdir{Path: "/gone/x", Parents: true}, muster.Delete{Path: "/gone", Recursive: true})
		deep, dir, file, big, detached = a.IDs[0], a.IDs[1], a.IDs[2], a.IDs[3], a.IDs[5]
		if _, err := tree.Apply(t.Context(), Request{ID: request, Caller: root, Commands: []muster.Command{muster.Create{Path: "/r"}}}); err != nil {
			t.Fatal(err)
		}
		a = mustApply(t, tree, start("/w"), add(0, 0, 7), muster.Create{Path: "/gone", Length: 1, Replication: muster.Replicated(1), Blocks: make([]muster.Block, 300)},
			muster.Delete{Path: "/gone"}, start("/v"), add(0, 0, 8), muster.Delete{Path: "/v"})
		written, gone = a.IDs[0], a.IDs[2]
		return tree
	}
	build(t) // for the ids
	for name, c := range map[string]struct {
		damage func(t *testing.T, tree *Tree)
		kinds  []string
	}{
		"a row that does not decode":            {set(appendRowKey(nil, dir, "f"), []byte{1, 2}), []string{ProblemDamaged}},
		"a row of a bad name":                   {set(appendRowKey(nil, dir, "a/b"), row(file, muster.File)), []string{ProblemDamaged}},
		"a row without its record":              {set(id(tagRecord, file), nil), []string{ProblemNoRecord, ProblemTotals}},
		"a second row of an inode":              {set(appendRowKey(nil, dir, "g"), row(file, muster.File)), []string{ProblemCounts, ProblemNoRecord}},
		"a row of another kind":                 {set(appendRowKey(nil, dir, "f"), row(file, muster.Directory)), []string{ProblemCounts, ProblemNoRecord}},
		"rows in no directory":                  {set(appendRowKey(nil, 999, "f"), row(998, muster.File)), []string{ProblemNoRecord}},
		"rows in a file":                        {set(appendRowKey(nil, file, "f"), row(998, muster.File)), []string{ProblemNoRecord}},
		"a record without its row":              {set(appendRowKey(nil, dir, "f"), nil), []string{ProblemCounts, ProblemNoRow}},
		"a record that does not decode":         {set(id(tagRecord, file), []byte{9}), []string{ProblemDamaged, ProblemNoRecord}},
		"a row that is another inode's":         {set(appendRowKey(nil, dir, "f"), row(big, muster.File)), []string{ProblemNoRecord, ProblemNoRow}},
		"too many entries counted":              {edit(dir, func(r *record) { r.entries++ }), []string{ProblemCounts}},
		"a directory counted too few":           {edit(dir, func(r *record) { r.dirs-- }), []string{ProblemCounts}},
		"entries counted where none is":         {edit(deep, func(r *record) { r.entries++ }), []string{ProblemCounts}},
		"directories in a circle":               {edit(dir, func(r *record) { r.parent, r.name = deep, []byte("d") }), []string{ProblemLoop, ProblemNoRecord, ProblemNoRow}},
		"a missing chunk":                       {set(appendChunkKey(nil, big, 1), nil), []string{ProblemBlocks}},
		"a chunk too short":                     {set(appendChunkKey(nil, big, 0), appendChunk(nil, sampleBlocks(3))), []string{ProblemBlocks}},
		"a chunk too many":                      {set(appendChunkKey(nil, big, 2), appendChunk(nil, sampleBlocks(3))), []string{ProblemBlocks}},
		"a chunk of no file":                    {set(appendChunkKey(nil, dir, 0), appendChunk(nil, sampleBlocks(3))), []string{ProblemBlocks}},
		"a detached directory not queued":       {set(id(tagQueue, detached), nil), []string{ProblemQueue, ProblemTotals}},
		"an attached directory queued":          {set(id(tagQueue, dir), appendQueue(nil, nil)), []string{ProblemQueue, ProblemTotals}},
		"a queue entry that does not decode":    {set(id(tagQueue, detached), []byte{7}), []string{ProblemDamaged, ProblemQueue}},
		"a result that does not decode":         {set(appendRequestKey(nil, &request.Client, 7), []byte{7}), []string{ProblemDamaged, ProblemRequest}},
		"a result that does not expire":         {set(id(tagExpiry, 2), nil), []string{ProblemRequest, ProblemTotals}},
		"an expiry without its result":          {set(appendRequestKey(nil, &request.Client, 7), nil), []string{ProblemRequest, ProblemTotals}},
		"an expiry that does not decode":        {set(id(tagExpiry, 2), []byte{7}), []string{ProblemDamaged, ProblemRequest}},
		"a record past all ids":                 {set(id(tagRecord, 1<<40), appendRecord(nil, &record{kind: muster.File, parent: 1, name: []byte("x")})), []string{ProblemDamaged}},
		"a record of the future":                {edit(dir, func(r *record) { r.recordAt = 1 << 40 }), []string{ProblemDamaged}},
		"a key of no kind":                      {set([]byte("z"), []byte{1}), []string{ProblemDamaged}},
		"an empty key":                          {set([]byte{}, []byte{1}), []string{ProblemDamaged}},
		"a key past the counters":               {set([]byte("mx"), []byte{1}), []string{ProblemDamaged}},
		"a block of negative length":            {set(appendRowKey(nil, dir, "f"), blocks(1, -1)), []string{ProblemBlocks}},
		"blocks past the file's length":         {set(appendRowKey(nil, dir, "f"), blocks(math.MaxInt64, math.MaxInt64)), []string{ProblemBlocks}},
		"a file written by nobody":              {set(id(tagWriting, written), nil), []string{ProblemTotals, ProblemWriting}},
		"a file said to be written":             {set(id(tagWriting, file), appendWriting(nil, &Writing{Holder: writer, User: "u"})), []string{ProblemTotals, ProblemWriting}},
		"a directory said to be written":        {set(id(tagWriting, dir), appendWriting(nil, &Writing{Holder: writer, User: "u"})), []string{ProblemTotals, ProblemWriting}},
		"a file that is gone said to be so":     {set(id(tagWriting, gone), appendWriting(nil, &Writing{Holder: writer, User: "u"})), []string{ProblemTotals, ProblemWriting}},
		"a writer that does not decode":         {set(id(tagWriting, written), []byte{9}), []string{ProblemDamaged}},
		"a writer of a bad key":                 {set([]byte("wx"), []byte{1}), []string{ProblemDamaged, ProblemTotals}},
		"a block to be deleted that is in use":  {set(appendDeleteKey(nil, muster.BlockID{Container: 1, LocalID: 7}), []byte{deleteVersion}), []string{ProblemDelete}},
		"a block to be deleted, of a bad value": {set(appendDeleteKey(nil, muster.BlockID{Container: 1, LocalID: 9}), []byte{7}), []string{ProblemDamaged}},
		"a block to be deleted, of a bad key":   {set(appendDeleteKey(nil, muster.BlockID{Container: 1}), []byte{deleteVersion}), []string{ProblemDamaged}},
		"a dropped file that is there":          {set(id(tagDropped, big), appendDropped(nil, dropped{count: 300})), []string{ProblemDelete, ProblemTotals}},
		"a dropped file lost":                   {set(id(tagDropped, gone), nil), []string{ProblemBlocks, ProblemTotals}},
		"a dropped file that does not decode":   {set(id(tagDropped, gone), []byte{7}), []string{ProblemBlocks, ProblemDamaged}},
		"a dropped file past all ids":           {set(id(tagDropped, 1<<40), appendDropped(nil, dropped{count: 300})), []string{ProblemDamaged, ProblemTotals}},
		"a dropped file without a chunk":        {set(appendChunkKey(nil, gone, 1), nil), []string{ProblemBlocks}},
		"a dropped file of a chunk too many":    {set(appendChunkKey(nil, gone, 2), appendChunk(nil, sampleBlocks(3))), []string{ProblemBlocks}},
		"nothing but what readers may not miss": {func(*testing.T, *Tree) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree := build(t)
			c.damage(t, tree)
			var kinds []string
			sum, err := tree.Fsck(t.Context(), func(p Problem) error {
				if p.Message == "" {
					t.Error("a problem without a message")
				}
				kinds = append(kinds, p.Kind)
				return nil
			})
			if err != nil || sum.Problems != uint64(len(kinds)) {
				t.Errorf("%v, %+v", err, sum)
			}
			slices.Sort(kinds)
			if kinds = slices.Compact(kinds); !slices.Equal(kinds, c.kinds) {
				t.Errorf("found %q, want %q", kinds, c.kinds)
			}
		})
	}
}

// TestFsckStops when its caller or its context says so.
func TestFsckStops(t *testing.T) {
	tree := openMem(t, Options{})
	load(t, tree, "/t", 100, 100)
	poke(t, tree, appendIDKey(nil, tagQueue, 5), appendQueue(nil, nil))
	enough := errors.New("enough")
	if _, err := tree.Fsck(t.Context(), func(Problem) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("report's error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tree.Fsck(ctx, func(Problem) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the context's: %v", err)
	}
	poke(t, tree, appendIDKey(nil, tagQueue, 5), nil)
	if sum := check(t, tree); sum.Directories != 102 || sum.Files != 10_000 || sum.Inodes != 10_102 {
		t.Errorf("%+v", sum)
	}
}

// TestResultsExpireStepByStep: by age and by number, the oldest first, in bounded steps.
func TestResultsExpireStepByStep(t *testing.T) {
	now := int64(0)
	tree, steps := openIdle(t, Options{RequestAge: time.Second, RequestMax: 1000, Now: func() time.Time { return time.UnixMilli(now) }})
	sequence := uint64(0)
	apply := func(n int) {
		for range n {
			sequence++
			r := Request{ID: muster.RequestID{Client: [16]byte{1}, Sequence: sequence}, Caller: root, Commands: []muster.Command{muster.Mkdir{Path: "/", Parents: true}}}
			if _, err := tree.Apply(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(1100)
	steps(1)
	if n := tree.Stats().Requests; n != 1000 {
		t.Errorf("by number: %d kept", n)
	}
	now = 1000
	apply(5)
	steps(1)
	if n := tree.Stats().Requests; n != 1000 {
		t.Errorf("at the age: %d kept", n)
	}
	now = 1001
	apply(1)
	for want := range slices.Values([]int{1001 - expiryStep, 6, 6}) {
		steps(1)
		if n := tree.Stats().Requests; n != uint64(want) {
			t.Errorf("past the age: %d kept, want %d", n, want)
		}
		check(t, tree)
	}
}

// TestBackgroundWorkEndsAtDamage, instead of trying it again and again.
func TestBackgroundWorkEndsAtDamage(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, tree *Tree, dir uint64){
		"a queue entry that does not decode": func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendIDKey(nil, tagQueue, dir), []byte{9}) },
		"a queue that lost its entry":        func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendIDKey(nil, tagQueue, dir), nil) },
		"a record that does not decode":      func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendIDKey(nil, tagRecord, dir), []byte{9}) },
		"a child that does not decode":       func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendRowKey(nil, dir, "x"), []byte{9}) },
		"a child without its record":         func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendIDKey(nil, tagRecord, dir+1), nil) },
		"a dropped file that does not decode": func(t *testing.T, tree *Tree, dir uint64) {
			poke(t, tree, appendIDKey(nil, tagDropped, dir+2), []byte{9})
		},
		"a dropped file that lost its entry": func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendIDKey(nil, tagDropped, dir+2), nil) },
		"a dropped file without a chunk":     func(t *testing.T, tree *Tree, dir uint64) { poke(t, tree, appendChunkKey(nil, dir+2, 0), nil) },
		"an expiry that does not decode":     func(t *testing.T, tree *Tree, _ uint64) { poke(t, tree, appendIDKey(nil, tagExpiry, 1), []byte{9}) },
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := openIdle(t, Options{RequestMax: 1})
			var dir uint64
			for i, cmd := range []muster.Command{muster.Mkdir{Path: "/gone/x", Parents: true}, muster.Mkdir{Path: "/gone", Parents: true}, muster.Delete{Path: "/gone", Recursive: true},
				muster.Create{Path: "/f", Length: 1, Replication: muster.Replicated(1), Blocks: make([]muster.Block, 300)}, muster.Delete{Path: "/f"}} {
				a, err := tree.Apply(t.Context(), Request{ID: muster.RequestID{Sequence: uint64(i + 1)}, Caller: root, Commands: []muster.Command{cmd}})
				if err != nil {
					t.Fatal(err)
				}
				if i == 2 {
					dir = a.IDs[0]
				}
			}
			damage(t, tree, dir)
			tree.janitor.wake(&tree.committer.meta)
			tree.janitor.run(t.Context()) // returns
			mustApply(t, tree, muster.Mkdir{Path: "/fine"})
		})
	}
}

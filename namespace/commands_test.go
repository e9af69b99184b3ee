package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
)

// TestRefusals: each command that is refused says why by its code, and changes nothing.
func TestRefusals(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree,
		muster.Mkdir{Path: "/d/sub", Mode: 0o755, Parents: true}, muster.Create{Path: "/d/sub/f"}, muster.Create{Path: "/f"}, muster.Create{Path: "/g"},
		muster.Mkdir{Path: "/empty", Mode: 0o755}, muster.Symlink{Path: "/l", Target: "/d"}, muster.Symlink{Path: "/dangling", Target: "none"},
	)
	before := tree.Stats().Txid
	for _, c := range []struct {
		command muster.Command
		want    muster.Code
	}{
		{muster.Mkdir{Path: "/"}, muster.ErrExists},
		{muster.Mkdir{Path: "/d"}, muster.ErrExists},
		{muster.Mkdir{Path: "/f"}, muster.ErrExists},
		{muster.Mkdir{Path: "/l"}, muster.ErrExists},
		{muster.Mkdir{Path: "/f", Parents: true}, muster.ErrExists},
		{muster.Mkdir{Path: "/dangling", Parents: true}, muster.ErrExists},
		{muster.Mkdir{Path: "/dangling/x", Parents: true}, muster.ErrExists},
		{muster.Mkdir{Path: "/f/x"}, muster.ErrNotDirectory},
		{muster.Mkdir{Path: "/f/x", Parents: true}, muster.ErrNotDirectory},
		{muster.Mkdir{Path: "/f/x/y", Parents: true}, muster.ErrNotDirectory},
		{muster.Mkdir{Path: "/none/x"}, muster.ErrNotFound},
		{muster.Mkdir{Path: "/x", Mode: 0o2000}, muster.ErrInvalid},
		{muster.Mkdir{Path: "/x", Owner: strings.Repeat("o", 256)}, muster.ErrInvalid},
		{muster.Mkdir{Path: "/x", Group: "\xff"}, muster.ErrInvalid},
		{muster.Mkdir{Path: "/" + strings.Repeat("n", 256)}, muster.ErrInvalid},
		{muster.Create{Path: "/"}, muster.ErrExists},
		{muster.Create{Path: "/", Overwrite: true}, muster.ErrIsDirectory},
		{muster.Create{Path: "/f"}, muster.ErrExists},
		{muster.Create{Path: "/l"}, muster.ErrExists},
		{muster.Create{Path: "/d", Overwrite: true}, muster.ErrIsDirectory},
		{muster.Create{Path: "/none/x"}, muster.ErrNotFound},
		{muster.Create{Path: "/x", Length: -1}, muster.ErrInvalid},
		{muster.Create{Path: "/x", BlockSize: -1}, muster.ErrInvalid},
		{muster.Create{Path: "/x", Replication: 1}, muster.ErrInvalid},
		{muster.Create{Path: "/x", Length: 9, Blocks: []muster.Block{{Length: 9}}}, muster.ErrInvalid},
		{muster.Create{Path: "/x", Length: 9, Replication: muster.Replicated(1), Blocks: []muster.Block{{Length: 5}, {Length: 5}}}, muster.ErrInvalid},
		{muster.Create{Path: "/x", Replication: muster.Replicated(1), Blocks: []muster.Block{{Length: -1}}}, muster.ErrInvalid},
		{muster.Create{Path: "/x", Replication: muster.Replicated(1), Blocks: make([]muster.Block, muster.MaxBlocks+1)}, muster.ErrLimit},
		{muster.Symlink{Path: "/f", Target: "x"}, muster.ErrExists},
		{muster.Symlink{Path: "/", Target: "x"}, muster.ErrExists},
		{muster.Symlink{Path: "/x"}, muster.ErrInvalid},
		{muster.Symlink{Path: "/x", Target: "a\x00"}, muster.ErrInvalid},
		{muster.Rename{From: "/", To: "/x"}, muster.ErrInvalid},
		{muster.Rename{From: "/f", To: "/"}, muster.ErrExists},
		{muster.Rename{From: "/f", To: "/", Overwrite: true}, muster.ErrInvalid},
		{muster.Rename{From: "/none", To: "/x"}, muster.ErrNotFound},
		{muster.Rename{From: "/f", To: "/none/x"}, muster.ErrNotFound},
		{muster.Rename{From: "/f", To: "/g/x"}, muster.ErrNotDirectory},
		{muster.Rename{From: "/f", To: "/g"}, muster.ErrExists},
		{muster.Rename{From: "/f", To: "/f"}, muster.ErrExists},
		{muster.Rename{From: "/f", To: "/empty", Overwrite: true}, muster.ErrIsDirectory},
		{muster.Rename{From: "/l", To: "/empty", Overwrite: true}, muster.ErrIsDirectory},
		{muster.Rename{From: "/empty", To: "/f", Overwrite: true}, muster.ErrNotDirectory},
		{muster.Rename{From: "/empty", To: "/l", Overwrite: true}, muster.ErrNotDirectory},
		{muster.Rename{From: "/empty", To: "/d", Overwrite: true}, muster.ErrNotEmpty},
		{muster.Rename{From: "/d/sub", To: "/d", Overwrite: true}, muster.ErrNotEmpty},
		{muster.Rename{From: "/d", To: "/d/sub/x"}, muster.ErrInvalid},
		{muster.Rename{From: "/d", To: "/d/x"}, muster.ErrInvalid},
		{muster.Rename{From: "/d", To: "/l/sub/x"}, muster.ErrInvalid},
		{muster.Delete{Path: "/", Recursive: true}, muster.ErrInvalid},
		{muster.Delete{Path: "/none"}, muster.ErrNotFound},
		{muster.Delete{Path: "/d"}, muster.ErrNotEmpty},
		{muster.SetAttr{Path: "/dangling", Mode: new(uint16(0))}, muster.ErrNotFound},
		{muster.SetAttr{Path: "/f", Mode: new(uint16(0o10000))}, muster.ErrInvalid},
		{muster.SetAttr{Path: "/f", Owner: new("")}, muster.ErrInvalid},
		{muster.SetAttr{Path: "/f", Group: new("\xff")}, muster.ErrInvalid},
	} {
		// Second in a batch, so that the index and the undoing show.
		_, err := tryApply(t, tree, muster.Create{Path: "/undone"}, c.command)
		var refused *muster.CommandError
		if !errors.As(err, &refused) || refused.Index != 1 || refused.Path != c.command.Subject() || muster.CodeOf(err) != c.want {
			t.Errorf("%+v: %v (%v), want %v", c.command, err, muster.CodeOf(err).Name(), c.want.Name())
		}
	}
	if got := names(t, tree, "/"); !slices.Equal(got, []string{"d", "dangling", "empty", "f", "g", "l"}) {
		t.Errorf("after refusals: %q", got)
	}
	if after := tree.Stats().Txid; after != before {
		t.Errorf("refusals took txids: %d after %d", after, before)
	}
	check(t, tree)
}

// TestRenames: what is allowed, and what it leaves.
func TestRenames(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree,
		muster.Mkdir{Path: "/a/b", Mode: 0o755, Parents: true}, muster.Create{Path: "/a/f", Length: 1}, muster.Create{Path: "/g", Length: 2},
		muster.Mkdir{Path: "/e", Mode: 0o755}, muster.Symlink{Path: "/l", Target: "/a"}, muster.Create{Path: "/a/b/deep"},
	)
	id := stat(t, tree, "/a/b").ID
	for _, c := range []muster.Rename{
		{From: "/a/f", To: "/a/f", Overwrite: true}, // nothing happens
		{From: "/a/f", To: "/a/f2"},
		{From: "/a/f2", To: "/g", Overwrite: true},
		{From: "/a/b", To: "/e", Overwrite: true},
		{From: "/e", To: "/l/b"}, // through a link
		{From: "/l", To: "/l2"},  // the link itself
		{From: "/l2/b", To: "/b"},
		{From: "/l2", To: "/g", Overwrite: true},
	} {
		mustApply(t, tree, c)
		check(t, tree)
	}
	if got := names(t, tree, "/"); !slices.Equal(got, []string{"a", "b", "g"}) {
		t.Errorf("root %q", got)
	}
	if got := names(t, tree, "/b"); !slices.Equal(got, []string{"deep"}) || stat(t, tree, "/b").ID != id {
		t.Errorf("/b %q", got)
	}
	if got := names(t, tree, "/g"); len(got) != 0 { // a link to /a
		t.Errorf("/g %q", got)
	}
}

// TestABatchSeesItself: later commands see what earlier ones did, also through the directories and links
// that the walk keeps.
func TestABatchSeesItself(t *testing.T) {
	tree := openMem(t, Options{})
	applied := mustApply(t, tree,
		muster.Mkdir{Path: "/a", Mode: 0o700},
		muster.Create{Path: "/a/f"},
		muster.Rename{From: "/a", To: "/b"},
		muster.Create{Path: "/b/g"},
		muster.Mkdir{Path: "/a", Mode: 0o755},
		muster.Create{Path: "/a/h"},
		muster.Symlink{Path: "/l", Target: "/b"},
		muster.Create{Path: "/l/i"},
		muster.Create{Path: "/l", Overwrite: true},
		muster.Delete{Path: "/b", Recursive: true},
		muster.Mkdir{Path: "/b", Mode: 0o755},
		muster.Create{Path: "/b/j", Length: 1e6, Replication: muster.Replicated(1), Blocks: make([]muster.Block, 1000)},
		muster.Delete{Path: "/b/j"},
	)
	if len(applied.IDs) != 13 || applied.IDs[2] != applied.IDs[0] || applied.IDs[9] != applied.IDs[0] {
		t.Errorf("ids %v", applied.IDs)
	}
	for path, want := range map[string][]string{"/": {"a", "b", "l"}, "/a": {"h"}, "/b": nil} {
		if got := names(t, tree, path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	// What makes the later command fail is undone, for the walk too.
	if _, err := tryAs(t, tree, ann, muster.Mkdir{Path: "/x"}); !errors.Is(err, muster.ErrPermission) {
		t.Fatal(err)
	}
	_, err := tryApply(t, tree, muster.SetAttr{Path: "/a", Mode: new(uint16(0))}, muster.Delete{Path: "/none"})
	if !errors.Is(err, muster.ErrNotFound) || stat(t, tree, "/a").Mode != 0o755 {
		t.Errorf("%v", err)
	}
	waitReclaimed(t, tree)
	check(t, tree)
}

// TestPermissionsChangeWithinABatch: a directory's new mode and owner count for the commands after.
func TestPermissionsChangeWithinABatch(t *testing.T) {
	tree := openMem(t, Options{})
	mustApply(t, tree, muster.Mkdir{Path: "/d/e", Mode: 0o755, Parents: true}, muster.SetAttr{Path: "/d", Owner: new("ann")}, muster.SetAttr{Path: "/d/e", Owner: new("ann")})
	_, err := tryAs(t, tree, ann, muster.Create{Path: "/d/e/f"}, muster.SetAttr{Path: "/d", Mode: new(uint16(0o600))}, muster.Create{Path: "/d/e/g"})
	var refused *muster.CommandError
	if !errors.As(err, &refused) || refused.Index != 2 || !errors.Is(err, muster.ErrPermission) {
		t.Errorf("%v", err)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	tree := openMem(t, Options{})
	many := make([]muster.Command, muster.MaxBatchCommands)
	for i := range many {
		many[i] = muster.Mkdir{Path: "/", Parents: true}
	}
	if applied := mustApply(t, tree, many...); applied.Txid != 1 || len(applied.IDs) != len(many) {
		t.Errorf("the most commands: %+v", applied.Txid)
	}
	for name, c := range map[string]struct {
		commands []muster.Command
		want     error
	}{
		"none":     {nil, muster.ErrInvalid},
		"nil":      {[]muster.Command{nil}, muster.ErrInvalid},
		"one more": {append(many, many[0]), muster.ErrLimit},
		"1 MiB":    {[]muster.Command{muster.Create{Path: "/f", Owner: strings.Repeat("o", muster.MaxBatchBytes)}}, muster.ErrLimit},
	} {
		if _, err := tryApply(t, tree, c.commands...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDirectoryTimes: what is added, removed or renamed in a directory is its new mtime and change;
// a child's new attributes are a change only, its contents neither.
func TestDirectoryTimes(t *testing.T) {
	now := int64(1000)
	tree := openMem(t, Options{Now: func() time.Time { return time.UnixMilli(now) }})
	mustApply(t, tree, muster.Mkdir{Path: "/d/e", Mode: 0o755, Parents: true}, muster.Create{Path: "/d/f"}, muster.Mkdir{Path: "/o", Mode: 0o755})
	type times struct{ mtime, changed bool }
	ids := []uint64{stat(t, tree, "/d").ID, stat(t, tree, "/o").ID}
	read := func() (heads [2]Head) {
		reading(t, tree, root, func(r *Reader) {
			if err := r.Heads(ids, heads[:]); err != nil {
				t.Fatal(err)
			}
		})
		return heads
	}
	for _, c := range []struct {
		command muster.Command
		d, o    times
	}{
		{muster.Create{Path: "/d/e/x"}, times{}, times{}},
		{muster.Create{Path: "/d/y"}, times{true, true}, times{}},
		{muster.Create{Path: "/d/y", Overwrite: true}, times{true, true}, times{}},
		{muster.Symlink{Path: "/d/l", Target: "x"}, times{true, true}, times{}},
		{muster.SetAttr{Path: "/d/f", Mode: new(uint16(0o600))}, times{false, true}, times{}},
		{muster.SetAttr{Path: "/d/f", MTime: new(int64(5))}, times{false, true}, times{}},
		{muster.SetAttr{Path: "/d/e", Mode: new(uint16(0o700))}, times{false, true}, times{}},
		{muster.SetAttr{Path: "/d/e", MTime: new(int64(5))}, times{}, times{}},
		{muster.SetAttr{Path: "/d/e", ATime: new(int64(5))}, times{false, true}, times{}},
		{muster.SetAttr{Path: "/d", Mode: new(uint16(0o700))}, times{}, times{}},
		{muster.Rename{From: "/d/f", To: "/d/g"}, times{true, true}, times{}},
		{muster.Rename{From: "/d/g", To: "/o/g"}, times{true, true}, times{true, true}},
		{muster.Rename{From: "/d", To: "/d2"}, times{}, times{}},
		{muster.Rename{From: "/d2", To: "/d"}, times{}, times{}},
		{muster.Mkdir{Path: "/d/e", Parents: true}, times{}, times{}},
		{muster.Delete{Path: "/d/e", Recursive: true}, times{true, true}, times{}},
	} {
		now += 10
		want := read()
		txid := mustApply(t, tree, c.command).Txid
		for i, times := range []times{c.d, c.o} {
			if times.mtime {
				want[i].MTime = now
			}
			if times.changed {
				want[i].ChangedAt = txid
			}
		}
		if got := read(); got != want {
			t.Errorf("%+v: /d and /o are %+v, want %+v", c.command, got, want)
		}
	}
	mustApply(t, tree, muster.SetAttr{Path: "/d", MTime: new(int64(7)), ATime: new(int64(-8))})
	if e := stat(t, tree, "/d"); e.MTime != 7 || e.ATime != -8 {
		t.Errorf("set times: %+v", e)
	}
	check(t, tree)
}

// TestStampsNeverGoBack, whatever the clock does.
func TestStampsNeverGoBack(t *testing.T) {
	now, mem := int64(5000), vfs.NewMem()
	o := Options{FS: mem, Now: func() time.Time { return time.UnixMilli(now) }}
	tree := openMem(t, o)
	mustApply(t, tree, muster.Create{Path: "/a"})
	now = 3000
	mustApply(t, tree, muster.Create{Path: "/b"})
	if a, b := stat(t, tree, "/a"), stat(t, tree, "/b"); a.MTime != 5000 || b.MTime != 5000 {
		t.Errorf("stamps %d, %d", a.MTime, b.MTime)
	}
}

// TestDeletesWriteFewKeys counts the keys that a delete writes before it answers, request id and
// counters included: at most 8, whatever is deleted.
func TestDeletesWriteFewKeys(t *testing.T) {
	tree := openMem(t, Options{})
	load(t, tree, "/tree", 100, 50)
	mustApply(t, tree, muster.Create{Path: "/blocks", Replication: muster.Replicated(1), Length: 1e6, Blocks: make([]muster.Block, muster.MaxBlocks)},
		muster.Mkdir{Path: "/empty"}, muster.Symlink{Path: "/l", Target: "x"})
	for i, path := range []string{"/tree", "/blocks", "/empty", "/l"} {
		v, err := tree.currentView() // not what the committer has: reclaim goes on
		if err != nil {
			t.Fatal(err)
		}
		tx := tree.newTxn(v.meta)
		v.Release()
		c := &call{request: Request{ID: muster.RequestID{Sequence: uint64(i + 1)}, Caller: root, Commands: []muster.Command{muster.Delete{Path: path, Recursive: true}}}}
		if _, err := tx.run(c); err != nil {
			t.Fatal(err)
		}
		b, err := tx.batch()
		if err != nil {
			t.Fatal(err)
		}
		if b.Count() > 8 {
			t.Errorf("deleting %s writes %d keys", path, b.Count())
		}
		b.Close()
		if _, err := tree.Apply(t.Context(), c.request); err != nil {
			t.Fatal(err)
		}
	}
	waitReclaimed(t, tree)
	if sum := check(t, tree); sum.Inodes != 1 || sum.Reclaiming != 0 {
		t.Errorf("left: %+v", sum)
	}
}

// TestBlockListsOfAllSizes: around what a row and a chunk hold, and to the most.
func TestBlockListsOfAllSizes(t *testing.T) {
	tree := openMem(t, Options{})
	for _, n := range []int{0, 1, 15, 16, 17, 271, 272, 273, 528, 529, muster.MaxBlocks} {
		path := fmt.Sprintf("/f%d", n)
		blocks := sampleBlocks(n)
		for i := range blocks {
			blocks[i].LocalID -= uint64(n) // no two files have a block
		}
		mustApply(t, tree, muster.Create{Path: path, Length: 1 << 40, Replication: muster.Replicated(3), Blocks: blocks})
		mustApply(t, tree, muster.SetAttr{Path: path, Mode: new(uint16(1))}) // rewrites the row
		if e := stat(t, tree, path); !slices.Equal(e.Blocks, blocks) || e.Blocks == nil {
			t.Errorf("%d blocks: got %d", n, len(e.Blocks))
		}
	}
	reading(t, tree, root, func(r *Reader) {
		res, err := r.Resolve("/", true)
		if err == nil {
			err = r.Scan(&res, "", true)
		}
		for row := (muster.Row{}); err == nil && r.Next(&row); {
			if want := strings.TrimPrefix(string(row.Name), "f"); fmt.Sprint(len(row.Blocks)) != want || row.Blocks == nil {
				t.Errorf("%s: %d blocks", row.Name, len(row.Blocks))
			}
		}
		if err != nil || r.Err() != nil {
			t.Error(err, r.Err())
		}
	})
	check(t, tree)
	mustApply(t, tree, muster.Create{Path: "/f10000", Overwrite: true})
	check(t, tree)
}

// queue puts calls into the queue while the committer is busy, so that they wait there together.
func queue(t *testing.T, tree *Tree, calls []*call) {
	blocked, release := make(chan struct{}), make(chan struct{})
	tree.committer.queue <- &call{ctx: t.Context(), done: make(chan struct{}), step: func(*txn) error { close(blocked); <-release; return nil }}
	<-blocked
	for _, c := range calls {
		tree.committer.queue <- c
	}
	close(release)
}

// TestGroupsAreBounded in commands and bytes, which bounds how long callers wait for each other and the
// memory that a group takes.
func TestGroupsAreBounded(t *testing.T) {
	many, large := make([]muster.Command, muster.MaxBatchCommands), make([]muster.Command, 100)
	for i := range many {
		many[i] = muster.Mkdir{Path: "/", Parents: true}
	}
	for i := range large {
		large[i] = muster.SetAttr{Path: "/" + strings.Repeat("/", muster.MaxPathBytes-1)}
	}
	for what, c := range map[string]struct {
		commands     []muster.Command
		calls, syncs int
	}{
		"commands": {many, 5, 3},
		"bytes":    {large, 8, 3},
	} {
		tree := openMem(t, Options{})
		var calls []*call
		for range c.calls {
			next := &call{ctx: t.Context(), done: make(chan struct{}), request: Request{Caller: root, Commands: c.commands}}
			if err := next.check(); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, next)
		}
		queue(t, tree, calls)
		for _, c := range calls {
			if <-c.done; c.err != nil {
				t.Errorf("%s: %v", what, c.err)
			}
		}
		if got := tree.Stats().Syncs; got != uint64(c.syncs) {
			t.Errorf("%s: %d calls by %d syncs, want %d", what, c.calls, got, c.syncs)
		}
	}
}

// TestCallersInTheQueueShareASync: what waits in the queue is committed as one group.
func TestCallersInTheQueueShareASync(t *testing.T) {
	tree := openMem(t, Options{})
	const callers = 50
	var group []*call
	for i := range callers {
		c := &call{ctx: t.Context(), done: make(chan struct{}), request: Request{Caller: root, Commands: []muster.Command{muster.Mkdir{Path: fmt.Sprintf("/d%d", i)}}}}
		group = append(group, c)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	group[7].ctx = cancelled
	group[9].request.Commands = []muster.Command{muster.Mkdir{Path: "/d8"}}
	before := tree.Stats()
	queue(t, tree, group)
	for i, c := range group {
		<-c.done
		if want := map[int]error{7: context.Canceled, 9: muster.ErrExists}[i]; !errors.Is(c.err, want) {
			t.Errorf("caller %d: %v, want %v", i, c.err, want)
		}
	}
	after := tree.Stats()
	if after.Syncs-before.Syncs != 1 || after.Commits-before.Commits != callers-2 || after.Refusals-before.Refusals != 2 || after.Txid-before.Txid != callers-2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// TestNothingIsAnsweredAfterAFailure: what reached the store's memory and may not have reached the
// disk answers nobody, be it a repeat, a refusal, or a command that finds all done.
func TestNothingIsAnsweredAfterAFailure(t *testing.T) {
	disk := &failAt{}
	disk.left.Store(1 << 40)
	tree, err := Open("tree", Options{FS: errorfs.Wrap(vfs.NewMem(), disk), Superuser: "root", idle: true})
	if err != nil {
		t.Fatal(err)
	}
	lost := Request{ID: muster.RequestID{Sequence: 1}, Caller: root, Commands: []muster.Command{muster.Mkdir{Path: "/d"}}}
	disk.left.Store(0)
	if _, err := tree.Apply(t.Context(), lost); !errors.Is(err, muster.ErrUnavailable) {
		t.Fatalf("with a failing log: %v", err)
	}
	<-tree.committer.stopped
	for what, r := range map[string]Request{
		"a repeat":     lost,
		"a refusal":    {Caller: root, Commands: []muster.Command{muster.Mkdir{Path: "/d"}}},
		"all is there": {Caller: root, Commands: []muster.Command{muster.Mkdir{Path: "/d", Parents: true}}},
	} {
		c := &call{ctx: t.Context(), request: r, done: make(chan struct{})}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		tree.committer.commit(tree.newTxn(meta{}), []*call{c}) // as if it had been in the queue already
		if !errors.Is(c.err, muster.ErrUnavailable) || c.applied.Txid != 0 {
			t.Errorf("%s: %+v, %v", what, c.applied, c.err)
		}
	}
	if err := tree.Close(); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("close: %v", err)
	}
}

package namespace_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// badDisk makes writing operations of a disk fail, from the n-th on.
type badDisk struct {
	left    atomic.Int64 // operations that still work; < 0: they fail
	forever atomic.Bool  // not only one operation fails
}

// arm lets n operations work.
func (d *badDisk) arm(n int64, forever bool) {
	d.forever.Store(forever)
	d.left.Store(n)
}

func (d *badDisk) repair() { d.arm(1<<60, false) }

func (d *badDisk) MaybeError(op errorfs.Op, _ string) error {
	if op.OpKind() != errorfs.OpKindWrite || op == errorfs.OpFileClose {
		return nil
	}
	if left := d.left.Add(-1); left == -1 || left < -1 && d.forever.Load() {
		return errorfs.ErrInjected
	}
	return nil
}

// crashing is a model on a disk that fails and forgets what was not synced.
type crashing struct {
	*model
	t     *testing.T
	rng   *rand.Rand
	gen   generator
	mem   *vfs.MemFS
	disk  *badDisk
	seen  uint64           // the newest txid that any answer named
	maybe []muster.BlockID // said to be deleted, and there was no answer
}

// TestCrashesLoseNothingAcknowledged applies random requests until a write of the disk
// fails or the machine stops, which may also happen while the store is opened, and checks
// after each recovery: every acknowledged request is there, the one whose outcome is unknown
// is there whole or not at all, no txid that was named is lost, a repeated id gets its first
// result, the store is consistent, and life goes on.
func TestCrashesLoseNothingAcknowledged(t *testing.T) {
	overSeeds(t, 30, func(t *testing.T, rng *rand.Rand) {
		c := &crashing{t: t, rng: rng, gen: generator{pick: rng.IntN, ids: true}, mem: vfs.NewStrictMem(), disk: &badDisk{}}
		c.disk.repair()
		c.model = newModel(t, namespace.Options{FS: errorfs.Wrap(c.mem, c.disk), ReclaimStep: 2, MemTableBytes: 64 << 10})
		defer func() { c.tree.Close() }() // twice is fine
		for range 4 {
			unknown := c.work()
			c.crash()
			c.recover()
			c.check(unknown)
		}
		c.drain()
		c.fsck()
	})
}

// work applies requests until one has no answer, at most a number of them, and returns that one.
func (c *crashing) work() *namespace.Request {
	c.disk.arm(c.rng.Int64N(300), c.rng.IntN(2) == 0)
	for range 20 + c.rng.IntN(80) {
		if c.rng.IntN(10) == 0 && !c.confirm() {
			return nil
		}
		r := c.gen.request(c.oracle)
		got, err := c.tree.Apply(c.t.Context(), r)
		if errors.Is(err, muster.ErrUnavailable) {
			return &r
		}
		c.must(r, got, err)
		c.look()
		c.clock.Add(c.rng.Int64N(100))
	}
	return nil
}

// confirm says of some blocks to be deleted that they were; false if there is no answer.
func (c *crashing) confirm() bool {
	got, err := c.deletions()
	if err != nil {
		return false
	}
	blocks := []muster.BlockID{}
	for b := range got {
		if c.rng.IntN(2) == 0 {
			blocks = append(blocks, b)
		}
	}
	if err := c.tree.Deleted(c.t.Context(), blocks); err != nil {
		c.maybe = blocks
		return false
	}
	for _, b := range blocks {
		c.confirmed[b] = true
	}
	return true
}

// look notes the txid that a reader is told.
func (c *crashing) look() {
	view, err := c.tree.View()
	if err != nil {
		return // the disk failed in the background
	}
	c.seen = max(c.seen, view.Txid(), c.tree.Stats().Txid)
	view.Release()
}

// crash stops the machine, and what was not synced is lost, or only the process, and it
// is not. Close is for the goroutines: nothing that it does reaches the disk.
func (c *crashing) crash() {
	power := c.rng.IntN(4) > 0
	c.mem.SetIgnoreSyncs(power)
	if !power {
		c.disk.arm(0, true)
	}
	c.tree.Close()
	if power {
		c.mem.ResetToSyncedState()
	}
	c.mem.SetIgnoreSyncs(false)
}

// recover opens the store again, at first perhaps in vain.
func (c *crashing) recover() {
	c.disk.arm(c.rng.Int64N(60), c.rng.IntN(2) == 0)
	if tree, err := namespace.Open("store", c.options); err == nil {
		c.tree = tree
		c.look()
		c.crash()
	} else if c.rng.IntN(2) == 0 {
		c.mem.ResetToSyncedState()
	}
	c.disk.repair()
	c.open()
}

// check compares what was recovered.
func (c *crashing) check(unknown *namespace.Request) {
	c.t.Helper()
	recovered := c.tree.Stats().Txid
	if recovered < c.seen {
		c.t.Fatalf("recovered txid %d, but %d was named", recovered, c.seen)
	}
	c.txid = max(c.txid, c.seen)
	if unknown != nil {
		c.settle(*unknown, recovered)
	}
	got, err := c.deletions()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, b := range c.maybe {
		c.confirmed[b] = c.confirmed[b] || !got[b]
	}
	c.maybe = nil
	c.compare()
	c.fsck()
	for range min(5, len(c.history)) {
		c.repeat(c.rng.IntN(len(c.history)))
	}
	c.compare()
}

// settle repeats the request that had no answer: either nothing of it was there, or all
// of it and its result.
func (c *crashing) settle(r namespace.Request, recovered uint64) {
	c.t.Helper()
	notThere := c.difference(c.oracle)
	got, err := c.tree.Apply(c.t.Context(), r)
	if notThere != nil && (err != nil || got.Txid > recovered || !got.Repeat) {
		c.t.Fatalf("%s: its repeat gives %+v, %v, but the recovered tree is neither without nor with it: %v", describe(r), got, err, notThere)
	}
	got.Repeat = false
	c.must(r, got, err)
}

// TestCrashWhileManyWriteLosesNothingAcknowledged stops the machine in the middle of group
// commits, background work and reads.
func TestCrashWhileManyWriteLosesNothingAcknowledged(t *testing.T) {
	overSeeds(t, 12, func(t *testing.T, rng *rand.Rand) {
		c := newCrowd(t, rng.Int64N(200))
		var all errgroup.Group
		for w := range crowdWriters {
			all.Go(func() error { return c.write(t, w) })
		}
		all.Go(func() error { return c.read() })
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		c.tree.Close()
		c.mem.ResetToSyncedState()
		c.mem.SetIgnoreSyncs(false)
		c.open(t)
		defer func() { c.tree.Close() }()
		c.check(t)
	})
}

const crowdWriters = 6

// crowd is a tree in which each writer works in a directory of its own, whose contents
// are a function of the number of requests that were applied.
type crowd struct {
	mem     *vfs.MemFS
	tree    *namespace.Tree
	acks    atomic.Int64 // acknowledged before the crash
	crashAt int64
	crashed atomic.Bool   // set before the disk forgets
	seen    atomic.Uint64 // the newest txid that an answer named before the crash
	applied [crowdWriters]int
	results [crowdWriters][]muster.Applied
}

func newCrowd(t *testing.T, crashAt int64) *crowd {
	c := &crowd{mem: vfs.NewStrictMem(), crashAt: crashAt + 1}
	c.open(t)
	for w := range crowdWriters {
		r := namespace.Request{Caller: boss, Commands: []muster.Command{muster.Mkdir{Path: fmt.Sprintf("/w%d", w), Mode: 0o755}}}
		if _, err := c.tree.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *crowd) open(t *testing.T) {
	t.Helper()
	tree, err := namespace.Open("store", namespace.Options{FS: c.mem, Superuser: superuser, CacheBytes: 1 << 20, MemTableBytes: 64 << 10, ReclaimStep: 2})
	if err != nil {
		t.Fatal(err)
	}
	c.tree = tree
}

// step is a writer's n-th request, from 0: it makes a file and a tree, renames the file
// of the step before, and deletes the tree of the one before that.
func step(w, n int) namespace.Request {
	path := func(kind string, n int) string { return fmt.Sprintf("/w%d/%s%d", w, kind, n) }
	commands := []muster.Command{
		muster.Create{Path: path("file", n)},
		muster.Create{Path: path("tree", n) + "/a/b/c", Parents: true},
		muster.Create{Path: path("tree", n) + "/d"},
	}
	if n >= 1 {
		commands = append(commands, muster.Rename{From: path("file", n-1), To: path("moved", n-1)})
	}
	if n >= 2 {
		commands = append(commands, muster.Delete{Path: path("tree", n-2), Recursive: true})
	}
	return namespace.Request{ID: muster.RequestID{Client: [16]byte{byte(w + 1)}, Sequence: uint64(n)}, Caller: boss, Commands: commands}
}

// after is what a writer's directory holds after n requests.
func after(n int) []string {
	names := []string{}
	for i := range n - 1 {
		names = append(names, fmt.Sprintf("moved%d", i))
	}
	if n > 0 {
		names = append(names, fmt.Sprintf("file%d", n-1), fmt.Sprintf("tree%d", n-1))
	}
	if n > 1 {
		names = append(names, fmt.Sprintf("tree%d", n-2))
	}
	slices.Sort(names)
	return names
}

// write applies steps until the crash. The writer of the crashAt-th answer crashes the machine.
func (c *crowd) write(t *testing.T, w int) error {
	for n := 0; ; n++ {
		got, err := c.tree.Apply(t.Context(), step(w, n))
		if err != nil {
			return err
		}
		if c.crashed.Load() {
			return nil
		}
		c.applied[w]++
		c.results[w] = append(c.results[w], got)
		c.name(got.Txid)
		if c.acks.Add(1) == c.crashAt {
			c.crashed.Store(true)
			c.mem.SetIgnoreSyncs(true)
			return nil
		}
	}
}

// name notes a txid that was named before the crash.
func (c *crowd) name(txid uint64) {
	for old := c.seen.Load(); txid > old && !c.crashed.Load(); old = c.seen.Load() {
		c.seen.CompareAndSwap(old, txid)
	}
}

// read looks at views until the crash.
func (c *crowd) read() error {
	for !c.crashed.Load() {
		view, err := c.tree.View()
		if err != nil {
			return err
		}
		txid := view.Txid()
		view.Release()
		c.name(txid)
	}
	return nil
}

func (c *crowd) check(t *testing.T) {
	view, err := c.tree.View()
	if err != nil {
		t.Fatal(err)
	}
	recovered := view.Txid()
	if seen := c.seen.Load(); recovered < seen {
		t.Errorf("recovered txid %d, but %d was named", recovered, seen)
	}
	for w := range crowdWriters {
		names, err := scanNames(view, fmt.Sprintf("/w%d", w))
		if err != nil {
			t.Fatal(err)
		}
		if n := c.applied[w]; !slices.Equal(names, after(n)) && !slices.Equal(names, after(n+1)) {
			t.Errorf("writer %d had %d requests acknowledged, and has %q", w, n, names)
		}
	}
	view.Release()
	c.checkRepeats(t)
	await(t, "the reclaim", func() bool { return c.tree.Stats().Reclaiming == 0 })
	if _, err := c.tree.Fsck(t.Context(), func(p namespace.Problem) error { return fmt.Errorf("%+v", p) }); err != nil {
		t.Error(err)
	}
}

// checkRepeats repeats what was acknowledged, and one more.
func (c *crowd) checkRepeats(t *testing.T) {
	for w := range crowdWriters {
		for n, want := range c.results[w] {
			got, err := c.tree.Apply(t.Context(), step(w, n))
			if err != nil || got.Txid != want.Txid || !slices.Equal(got.IDs, want.IDs) {
				t.Fatalf("writer %d, request %d: its repeat gives %+v, %v, want %+v", w, n, got, err, want)
			}
		}
		if _, err := c.tree.Apply(t.Context(), step(w, c.applied[w])); err != nil {
			t.Errorf("writer %d: the request without an answer: %v", w, err)
		}
	}
}

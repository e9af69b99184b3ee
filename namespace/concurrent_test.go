package namespace_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

const (
	busyDirs    = 4
	stableNames = 30
	busyWriters = 8
	busyRounds  = 25
	busyReaders = 3
)

// busy is a tree in which writers create, rename and delete while readers scan. Each of
// its directories holds names that stay. A token, and a directory with a file in it, move
// between /left and /right; a pair of files swaps places in one batch.
type busy struct {
	tree *namespace.Tree
}

func newBusy(t *testing.T) *busy {
	tree, err := namespace.Open("store", namespace.Options{FS: vfs.NewStrictMem(), Superuser: superuser, MemTableBytes: 64 << 10, CacheBytes: 1 << 20, ReclaimStep: 3})
	if err != nil {
		t.Fatal(err)
	}
	b := &busy{tree}
	var setup []muster.Command
	for d := range busyDirs {
		setup = append(setup, muster.Mkdir{Path: fmt.Sprintf("/d%d", d), Mode: 0o755})
		for i := range stableNames {
			setup = append(setup, muster.Create{Path: fmt.Sprintf("/d%d/stable%02d", d, i)})
		}
	}
	setup = append(setup,
		muster.Mkdir{Path: "/left", Mode: 0o755}, muster.Mkdir{Path: "/right", Mode: 0o755},
		muster.Create{Path: "/left/token"}, muster.Create{Path: "/left/pair-a"}, muster.Create{Path: "/right/pair-b"},
		muster.Create{Path: "/left/dir/inside", Parents: true})
	if _, err := b.apply(t.Context(), setup...); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *busy) apply(ctx context.Context, commands ...muster.Command) (muster.Applied, error) {
	return b.tree.Apply(ctx, namespace.Request{Caller: boss, Commands: commands})
}

// write is one writer's life. Its own names are nobody else's, so that every command of
// its own must succeed.
func (b *busy) write(ctx context.Context, w int) error {
	rng := rand.New(rand.NewPCG(uint64(w), 0))
	dir := func() string { return fmt.Sprintf("/d%d", rng.IntN(busyDirs)) }
	for i := range busyRounds {
		name := fmt.Sprintf("/%s-%d-%d", string("az"[rng.IntN(2)]), w, i) // before and after the stable ones
		from, to := dir()+name, dir()+name+"-moved"
		tree := fmt.Sprintf("%s/tree-%d-%d", dir(), w, i)
		for _, commands := range [][]muster.Command{
			{muster.Create{Path: from}},
			{muster.Rename{From: from, To: to}, muster.Create{Path: tree + "/x/y", Parents: true}},
			{muster.Delete{Path: to}},
			{muster.Delete{Path: tree, Recursive: true}},
		} {
			applied, err := b.apply(ctx, commands...)
			if err != nil {
				return err
			}
			if err := b.visible(applied.Txid); err != nil {
				return err
			}
		}
	}
	return nil
}

// visible: who was answered sees what was answered.
func (b *busy) visible(txid uint64) error {
	view, err := b.tree.View()
	if err != nil {
		return err
	}
	defer view.Release()
	if view.Txid() < txid {
		return fmt.Errorf("a view after txid %d was acknowledged shows %d", txid, view.Txid())
	}
	return nil
}

// move moves the token and the directory to and fro, and swaps the pair.
func (b *busy) move(ctx context.Context) error {
	from, to := "/left/", "/right/"
	for range 2 * busyRounds {
		for _, commands := range [][]muster.Command{
			{muster.Rename{From: from + "token", To: to + "token"}},
			{muster.Rename{From: from + "dir", To: to + "dir"}},
			{muster.Rename{From: from + "pair-a", To: to + "pair-a"}, muster.Rename{From: to + "pair-b", To: from + "pair-b"}},
		} {
			if _, err := b.apply(ctx, commands...); err != nil {
				return err
			}
		}
		from, to = to, from
	}
	return nil
}

// readAll reads until the writers are done, at least a few times.
func (b *busy) readAll(done *atomic.Bool) error {
	var last uint64
	for rounds := 0; rounds < 5 || !done.Load(); rounds++ {
		view, err := b.tree.View()
		if err != nil {
			return err
		}
		if view.Txid() < last {
			err = fmt.Errorf("a view of txid %d after one of %d", view.Txid(), last)
		} else {
			err = b.check(view)
		}
		last = view.Txid()
		view.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// check scans all directories of a view twice, against all that must hold in any state.
func (b *busy) check(view *namespace.View) error {
	first, err := b.scan(view)
	if err != nil {
		return err
	}
	again, err := b.scan(view)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(first, again) {
		return fmt.Errorf("a view's contents changed:\n%v\n%v", first, again)
	}
	for d := range busyDirs {
		names := first[fmt.Sprintf("/d%d", d)]
		for i := range stableNames {
			if n := count(names, fmt.Sprintf("stable%02d", i)); n != 1 {
				return fmt.Errorf("/d%d: stable%02d comes %d times in %q", d, i, n, names)
			}
		}
		if !slices.IsSorted(names) {
			return fmt.Errorf("/d%d is not in order: %q", d, names)
		}
	}
	both := append(slices.Clone(first["/left"]), first["/right"]...)
	slices.Sort(both)
	if want := []string{"dir", "pair-a", "pair-b", "token"}; !slices.Equal(both, want) {
		return fmt.Errorf("/left and /right together hold %q, want %q", both, want)
	}
	if count(first["/left"], "pair-a") == count(first["/left"], "pair-b") {
		return fmt.Errorf("half of a batch: /left holds %q, /right %q", first["/left"], first["/right"])
	}
	return nil
}

func (b *busy) scan(view *namespace.View) (map[string][]string, error) {
	all := map[string][]string{}
	dirs := []string{"/left", "/right"}
	for d := range busyDirs {
		dirs = append(dirs, fmt.Sprintf("/d%d", d))
	}
	r := view.NewReader(&boss)
	defer r.Close()
	for _, dir := range dirs {
		names, err := scanWith(r, dir)
		if err != nil {
			return nil, err
		}
		all[dir] = names
	}
	// The moving directory keeps what is in it.
	for _, dir := range []string{"/left/dir", "/right/dir"} {
		if !slices.Contains(all[strings.TrimSuffix(dir, "/dir")], "dir") {
			continue
		}
		if names, err := scanWith(r, dir); err != nil || !slices.Equal(names, []string{"inside"}) {
			return nil, fmt.Errorf("%s: %q, %v", dir, names, err)
		}
	}
	return all, nil
}

func count(names []string, name string) (n int) {
	for _, s := range names {
		if s == name {
			n++
		}
	}
	return n
}

// TestReadersBesideWriters: each name that exists throughout is seen exactly once in each
// scan, a rename is never seen twice nor missed within a view, a batch is never seen by half,
// and a view does not change.
func TestReadersBesideWriters(t *testing.T) {
	b := newBusy(t)
	var done atomic.Bool
	writers, ctx := errgroup.WithContext(t.Context())
	for w := range busyWriters - 1 {
		writers.Go(func() error { return b.write(ctx, w) })
	}
	writers.Go(func() error { return b.move(ctx) })
	var readers errgroup.Group
	for range busyReaders {
		readers.Go(func() error { return b.readAll(&done) })
	}
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	done.Store(true)
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := b.tree.Fsck(t.Context(), func(p namespace.Problem) error { return fmt.Errorf("%+v", p) }); err != nil {
		t.Error(err)
	}
	if err := b.tree.Close(); err != nil {
		t.Error(err)
	}
}

// TestAnOldViewStaysAsItWas holds a view while everything it shows is changed, deleted
// and reclaimed.
func TestAnOldViewStaysAsItWas(t *testing.T) {
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem(), ReclaimStep: 2, MemTableBytes: 64 << 10})
	defer func() { m.tree.Close() }()
	rng := rand.New(rand.NewPCG(1, 0))
	g := generator{pick: rng.IntN}
	for range 100 {
		m.apply(g.request(m.oracle))
	}
	old := m.oracle.clone()
	view, err := m.tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Release()
	for range 300 {
		m.apply(g.request(m.oracle))
	}
	for _, name := range m.oracle.names(rootID) {
		m.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Delete{Path: "/" + name, Recursive: true}}})
	}
	m.drain()
	m.compare()
	if err := differs(view, old); err != nil {
		t.Errorf("the old view changed: %v", err)
	}
}

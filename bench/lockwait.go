package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// LockWait is how long a reader waits for the tree's read lock, which taking a view takes once,
// beside writers at full speed and a stream: in this process, with no wire.
type LockWait struct {
	Samples int
	Median  time.Duration
	P99     time.Duration
	Max     time.Duration
	Commits uint64 // groups that writers made durable meanwhile
}

// lockPause is how long the reader waits between two views.
const lockPause = 100 * time.Microsecond

// MeasureLockWait opens a tree in an empty folder, fills the table and lets writers create files in
// directories of their own, batch of them a call, for a time.
func MeasureLockWait(ctx context.Context, dir string, t Table, writers, batch int, duration time.Duration) (w LockWait, err error) {
	tree, err := namespace.Open(dir, namespace.Options{})
	if err != nil {
		return w, err
	}
	defer func() {
		if closed := tree.Close(); err == nil {
			err = closed
		}
	}()
	admin := muster.Identity{User: "root", Groups: []string{muster.Supergroup}}
	if err := FillTree(ctx, tree, admin, t, nil); err != nil {
		return w, err
	}
	lister, err := listing.New(tree, listing.Config{Key: make([]byte, 32)})
	if err != nil {
		return w, err
	}
	before, outer := tree.Stats().Syncs, ctx
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range writers {
		g.Go(func() error { return createIn(ctx, tree, admin, fmt.Sprintf("/writers/%d", i), batch) })
	}
	paths, source := slices.Collect(t.Paths()), direct{lister: lister, caller: admin, columns: rows.DefaultColumns}
	g.Go(func() error {
		for ctx.Err() == nil {
			if _, err := stream(ctx, source, paths, func(part) {}); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	var waits []int64
	g.Go(func() (err error) { waits, err = viewWaits(ctx, tree); return err })
	if err := cmp.Or(g.Wait(), outer.Err()); err != nil {
		return w, err
	}
	return w.of(waits, tree.Stats().Syncs-before), nil
}

// createIn creates files in a directory until ctx ends.
func createIn(ctx context.Context, tree *namespace.Tree, caller muster.Identity, dir string, batch int) error {
	var made atomic.Int64
	for ctx.Err() == nil {
		commands := make([]muster.Command, batch)
		for i := range commands {
			commands[i] = muster.Create{Path: fmt.Sprintf("%s/file-%012d", dir, made.Add(1)), Mode: 0o644, Parents: true}
		}
		if _, err := tree.Apply(ctx, namespace.Request{Caller: caller, Commands: commands}); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// viewWaits takes a view now and then and returns how long each took, in ns.
func viewWaits(ctx context.Context, tree *namespace.Tree) (waits []int64, err error) {
	for ctx.Err() == nil {
		begin := time.Now()
		v, err := tree.View()
		took := time.Since(begin)
		if err != nil {
			return nil, err
		}
		v.Release()
		waits = append(waits, int64(took))
		pause(ctx, lockPause)
	}
	return waits, nil
}

func (w LockWait) of(waits []int64, commits uint64) LockWait {
	if len(waits) == 0 {
		return w
	}
	slices.Sort(waits)
	at := func(part float64) time.Duration { return time.Duration(waits[int(part*float64(len(waits)-1))]) }
	return LockWait{Samples: len(waits), Median: at(0.5), P99: at(0.99), Max: at(1), Commits: commits}
}

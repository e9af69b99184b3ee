package main

import (
	"context"
	"iter"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// importCalls is how many calls an import has in flight: the server shares a sync of
// its log among them.
const importCalls = 4

// calls applies changes that do not depend on each other, by several calls at once.
// One goroutine adds and then waits.
type calls struct {
	client  *client.Client
	group   *errgroup.Group
	ctx     context.Context // of the group: ends with the first failed call
	pending []change
	size    changeSize

	mu      sync.Mutex
	refused []refusal // guarded by mu
}

func newCalls(ctx context.Context, c *client.Client) *calls {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(importCalls)
	return &calls{client: c, group: group, ctx: ctx}
}

// add sends a change sooner or later. It waits while enough calls are in flight, and
// fails after one has failed.
func (c *calls) add(next change) error {
	if c.size.full(next) {
		c.send()
	}
	c.size.add(next)
	c.pending = append(c.pending, next)
	return c.ctx.Err()
}

func (c *calls) send() {
	batch := c.pending
	c.pending, c.size = nil, changeSize{}
	c.group.Go(func() error {
		refused, err := apply(c.ctx, c.client, batch)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused = append(c.refused, refused...)
		return err
	})
}

// wait sends what is left, and returns what was refused once all calls are over.
func (c *calls) wait() ([]refusal, error) {
	if len(c.pending) > 0 {
		c.send()
	}
	err := c.group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused, err
}

// target reads the target's side of a level, all in one call: the children of those
// folders that were there before, in the order of the folders.
type target struct {
	next  func() (*client.Batch, error, bool)
	stop  func()
	index uint64                             // of the next folder that was there
	rows  map[uint64]map[string]muster.Entry // of folders that are not asked for yet, by index
	ended map[uint64]error                   // the folders whose outcome came
}

func (im *importer) listTarget(ctx context.Context, level []*folder) *target {
	t := &target{stop: func() {}, rows: map[uint64]map[string]muster.Entry{}, ended: map[uint64]error{}}
	if !im.update {
		return t
	}
	paths := func(yield func(string) bool) {
		for _, f := range level {
			if f.exists && !yield(f.path) {
				return
			}
		}
	}
	var o client.ListOptions
	if im.data {
		o.Columns = rows.AllColumns // with the blocks, which say whether data is there
	}
	t.next, t.stop = iter.Pull2(im.client.List(ctx, paths, o))
	return t
}

// children returns the entries of the next folder by name; none if it was not there.
func (t *target) children(f *folder) (map[string]muster.Entry, error) {
	if !f.exists || t.next == nil {
		return nil, nil
	}
	index := t.index
	t.index++
	for {
		if err, ended := t.ended[index]; ended {
			rows := t.rows[index]
			delete(t.rows, index)
			delete(t.ended, index)
			return rows, err
		}
		batch, err, more := t.next()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, muster.ErrInternal
		}
		t.take(batch)
	}
}

func (t *target) take(batch *client.Batch) {
	for i := range batch.Len() {
		index := uint64(batch.PathIndex(i))
		if t.rows[index] == nil {
			t.rows[index] = map[string]muster.Entry{}
		}
		t.rows[index][batch.Name(i)] = batch.Entry(i)
	}
	for _, outcome := range batch.Outcomes {
		t.ended[outcome.Index] = outcome.Err()
	}
}

package registry

import (
	"context"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster/store"
)

// writer makes changes durable, one after another. It alone changes what is durable, so a plan
// finds what the change before it left.
type writer struct {
	registry *Registry
	queue    chan *change
	stopped  chan struct{} // closed when run returned
}

// plan fills a batch from what is in memory; it may return nil for nothing to do. Once the
// batch is durable, what it returned is called with mu held, to show the change.
type plan func(b *batch) (show func(), err error)

type change struct {
	ctx  context.Context
	plan plan
	err  error         // set before done is closed
	done chan struct{} // closed when the change is durable, or failed
}

// do has a change made. When ctx ends first, it may or may not be made.
func (w *writer) do(ctx context.Context, p plan) error {
	c := &change{ctx: ctx, plan: p, done: make(chan struct{})}
	select {
	case w.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopped:
		return w.registry.alive()
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		select {
		case <-w.registry.stop:
			return
		case <-w.registry.store.Failed():
			return
		case c := <-w.queue:
			c.err = w.make(c)
			close(c.done)
		}
	}
}

func (w *writer) make(c *change) error {
	r := w.registry
	if err := c.ctx.Err(); err != nil {
		return err
	}
	b := &batch{b: r.store.DB.NewBatch()}
	show, err := c.plan(b)
	if err == nil && b.err != nil {
		err = r.store.Fail(b.err)
	}
	if err == nil && !b.b.Empty() {
		err = r.store.Commit(b.b, func() {})
		r.counts.syncs.Add(1)
	} else {
		_ = b.b.Close() // it holds memory alone
	}
	if err != nil || show == nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	show()
	return nil
}

// batch is a batch of the store that keeps its first error.
type batch struct {
	b   *pebble.Batch
	err error
}

func (b *batch) set(key, value []byte) {
	if b.err == nil {
		b.err = store.Error(b.b.Set(key, value, nil))
	}
}

func (b *batch) delete(key []byte) {
	if b.err == nil {
		b.err = store.Error(b.b.Delete(key, nil))
	}
}

func (b *batch) container(id uint64, c *containerRecord) {
	b.set(containerKey(id), appendContainer(nil, c))
}

func (b *batch) counters(c counters) { b.set(countersKey(), appendCounters(nil, c)) }

package locations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

var (
	errClosed    = fmt.Errorf("%w: the location cache is closed", muster.ErrUnavailable)
	errAbandoned = fmt.Errorf("%w: nobody waits for this load", muster.ErrCancelled) // and so nobody reads this
)

// stretch bounds the answers that are taken over while others wait for the lock.
const stretch = 1000

// loaded is what a load brought for one container: an entry not yet shared, or an error.
type loaded struct {
	entry *entry
	err   error
	says  bool // it is known where the container is, or that it does not exist
}

// work sends loads until none is left. It runs Options.Loads times at most.
func (c *Cache) work() {
	for l := c.next(); l != nil; l = c.next() {
		began := c.now()
		answer, err := c.ask(l.ids)
		c.finish(l, answer, err, c.now()-began)
	}
}

// next begins the load that is first in the queue; nil: none, and the worker ends.
func (c *Cache) next() *load {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running--
		return nil
	}
	l := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.sequence++
	l.sequence = c.sequence
	c.count.Loading++
	return l
}

// ask calls the source. A call that ran out of time, or that panicked, has failed like
// any other; the callers' own time is not over, so it is not ErrDeadline to them.
func (c *Cache) ask(ids []uint64) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.LoadTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic while asking the location service: %v", muster.ErrInternal, p)
		}
	}()
	a, err = c.source.Lookup(ctx, ids)
	switch code := muster.CodeOf(err); {
	case err == nil && len(a.Outcomes) != len(ids):
		err = fmt.Errorf("%w: the location service was asked for %d containers and answered %d", muster.ErrInternal, len(ids), len(a.Outcomes))
	case err != nil && c.ctx.Err() != nil:
		err = errClosed
	case code == muster.ErrDeadline || code == muster.ErrCancelled:
		err = fmt.Errorf("%w: the location service did not answer within %v", muster.ErrUnavailable, c.opts.LoadTimeout)
	}
	return a, err
}

// finish ends a load that was sent.
func (c *Cache) finish(l *load, a Answer, err error, took time.Duration) {
	if err == nil {
		c.mu.Lock()
		c.nodes.learn(a.Nodes, l.sequence)
		c.mu.Unlock()
	}
	got := make([]loaded, len(l.ids))
	for i, id := range l.ids {
		if err != nil {
			got[i].err = err
		} else {
			got[i] = c.receive(id, &a.Outcomes[i], l.sequence)
		}
	}
	c.countLoad(l, got, err, took)
	l.results = make([]Located, len(l.ids))
	for first := 0; first < len(l.ids); first += stretch {
		c.landSome(l, got, first, min(first+stretch, len(l.ids)))
	}
	close(l.done)
}

// countLoad is before those who wait go on, so that they find what they caused counted.
func (c *Cache) countLoad(l *load, got []loaded, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.Loading--
	c.count.Loads++
	c.count.LoadTime += took
	if err != nil {
		c.count.LoadErrors++
		return
	}
	c.count.Loaded += uint64(len(l.ids))
	for _, g := range got {
		if g.entry == nil || !g.entry.placement.Usable() {
			c.count.Unkept++
		}
	}
}

func (c *Cache) landSome(l *load, got []loaded, from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for i := from; i < to; i++ {
		l.results[i] = c.land(l, l.ids[i], got[i], now)
	}
}

// receive checks what the source says of one container, and copies it.
func (c *Cache) receive(id uint64, o *Outcome, sequence uint64) loaded {
	if o.Err != nil {
		return loaded{err: o.Err, says: errors.Is(o.Err, muster.ErrNotFound)}
	}
	p := &o.Placement
	_, _, coded := p.Replication.Coding()
	switch {
	case p.Container != id:
		return loaded{err: fmt.Errorf("%w: the location service was asked for container %d and answered %d", muster.ErrInternal, id, p.Container)}
	case !p.Replication.Valid() || coded && len(p.Nodes) > p.Replication.Nodes():
		return loaded{err: fmt.Errorf("%w: container %d is on %d nodes with replication %#x, says the location service", muster.ErrInternal, id, len(p.Nodes), uint16(p.Replication))}
	}
	for _, n := range p.Nodes {
		if absent := coded && n == muster.NoNode; !absent && c.nodes.get(n) == nil {
			return loaded{err: fmt.Errorf("%w: container %d is on node %d, of which the location service says nothing", muster.ErrInternal, id, n)}
		}
	}
	e := &entry{placement: *p, sequence: sequence}
	e.placement.Nodes = append(e.room[:0], p.Nodes...)
	return loaded{entry: e, says: true}
}

// fail ends a load that is not sent; under mu.
func (c *Cache) fail(l *load, err error) {
	l.results = make([]Located, len(l.ids))
	for i, id := range l.ids {
		l.results[i] = c.land(l, id, loaded{err: err}, 0)
	}
	close(l.done)
}

// land ends what a load is to one container, and returns the answer: the newest there is,
// or the error of a load that was not sent. This is where the rules of the package are kept.
func (c *Cache) land(l *load, id uint64, got loaded, now time.Duration) Located {
	f := c.flights[id]
	old := c.index.find(id)
	if got.says && l.sequence > f.newest {
		f.newest = l.sequence
		c.update(old, got.entry, now)
	}
	if f.last == l {
		f.last = nil
	}
	if f.loads--; f.loads == 0 {
		delete(c.flights, id)
	} else {
		c.flights[id] = f
	}
	switch {
	case l.sequence > 0 && old != nil && old.sequence > l.sequence && c.fresh(old, now):
		return c.located(old)
	case got.err != nil:
		return Located{Err: got.err}
	}
	return c.located(got.entry)
}

// update brings what is kept of a container up to date: old, nil if there is none, by
// what a newer load brought, nil if the container does not exist.
func (c *Cache) update(old, e *entry, now time.Duration) {
	usable := e != nil && e.placement.Usable()
	if usable {
		e.written = now
	}
	switch {
	case usable && old != nil:
		c.clock.replace(old, e)
		c.index.replace(old, e)
	case usable:
		c.admit(e, now)
	case old != nil:
		c.clock.remove(old)
		c.index.remove(old)
	}
}

// admit adds the entry of a container that has none. If the cache is full, another goes.
func (c *Cache) admit(e *entry, now time.Duration) {
	if len(c.clock.ring) < c.opts.Size {
		c.clock.add(e)
	} else {
		victim := c.clock.victim(now - c.opts.TTL)
		c.index.remove(victim)
		c.clock.put(e, victim.slot)
		c.count.Evictions++
	}
	c.index.insert(e)
}

package locations

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/muster-fs/muster"
)

// want is a container that a call could not answer without the lock.
type want struct {
	id    uint64
	after uint64 // the floor: sequence numbers above it will do; notSent: none
	out   int    // where the answer goes
}

// notSent is a floor that only a load without a number is above.
const notSent = math.MaxUint64

// load is one call to the source. Once done is closed it does not change.
type load struct {
	sequence uint64 // 0: not yet sent, takes more ids; under Cache.mu
	ids      []uint64
	waiters  int // calls that wait for it; under Cache.mu
	done     chan struct{}
	results  []Located // for each of ids; before done is closed its worker's alone
}

// flight is what is going on about a container. There is one while any load of it is in
// the queue or in flight.
type flight struct {
	newest uint64 // highest sequence that has answered since the flight began; 0: none
	loads  int
	last   *load // the one made last, and so above newest; nil: it has ended
	at     int   // the container's place in it
}

// joinable says whether who has the floor after may wait for the last load.
func (f *flight) joinable(after uint64) bool {
	return f.last != nil && (f.last.sequence == 0 || f.last.sequence > after)
}

// waiting is what one call waits for.
type waiting struct {
	loads []*load // each once
	parts []part
}

type part struct {
	out  int // where the answer goes
	load *load
	at   int // where it comes from
}

// load gets wants answered: from memory after all, by loads in flight, or by new ones.
func (c *Cache) load(ctx context.Context, wants []want, out []Located) error {
	if err := ctx.Err(); err != nil {
		err = gaveUp(err)
		for _, q := range wants {
			out[q.out] = Located{Err: err}
		}
		return err
	}
	w := c.join(wants, out)
	for i, l := range w.loads {
		select {
		case <-l.done:
		case <-ctx.Done():
			defer c.leave(w.loads[i:])
			return w.collect(out, gaveUp(ctx.Err()))
		}
	}
	return w.collect(out, nil)
}

// gaveUp is what a caller is told whose context has ended.
func gaveUp(err error) error {
	return fmt.Errorf("%w: no answer from the location service until then", muster.CodeOf(err))
}

// join finds or makes a load for each want that memory does not answer.
func (c *Cache) join(wants []want, out []Located) waiting {
	w := waiting{parts: make([]part, 0, len(wants))}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var open *load // takes what this call adds
	for _, q := range wants {
		e := c.index.find(q.id)
		switch inMemory := e != nil && c.fresh(e, now); {
		case inMemory && e.sequence > q.after:
			e.touch()
			out[q.out] = c.located(e)
			c.count.Hits++
			continue
		case inMemory:
			c.count.Forced++
		default:
			c.count.Misses++
		}
		f := c.flights[q.id]
		if !f.joinable(q.after) {
			if c.closed {
				out[q.out] = Located{Err: errClosed}
				continue
			}
			if open == nil || len(open.ids) == MaxBatch {
				open = c.open()
			}
			f.last, f.at = open, len(open.ids)
			f.loads++
			open.ids = append(open.ids, q.id)
			c.flights[q.id] = f
		}
		w.add(part{out: q.out, load: f.last, at: f.at})
	}
	return w
}

// open returns a load that takes more containers: the last that is not yet sent, or a new
// one.
func (c *Cache) open() *load {
	if n := len(c.queue); n > 0 && len(c.queue[n-1].ids) < MaxBatch {
		return c.queue[n-1]
	}
	l := &load{done: make(chan struct{})}
	c.queue = append(c.queue, l)
	if c.running < c.opts.Loads {
		c.running++
		c.workers.Go(c.work)
	}
	return l
}

// add notes that an answer comes from a load; under Cache.mu.
func (w *waiting) add(p part) {
	w.parts = append(w.parts, p)
	if !slices.Contains(w.loads, p.load) { // a handful: they gather what is missed
		w.loads = append(w.loads, p.load)
		p.load.waiters++
	}
}

// collect gives out what has arrived, and err for what has not; it returns err if there
// is any.
func (w *waiting) collect(out []Located, err error) error {
	var missing error
	for _, p := range w.parts {
		select {
		case <-p.load.done:
			out[p.out] = p.load.results[p.at]
		default:
			out[p.out], missing = Located{Err: err}, err
		}
	}
	return missing
}

// leave is for a caller that does not wait for loads any longer. One that is not yet sent
// and that nobody else waits for is given up.
func (c *Cache) leave(loads []*load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range loads {
		l.waiters--
		if i := slices.Index(c.queue, l); i >= 0 && l.waiters == 0 {
			c.queue = slices.Delete(c.queue, i, i+1)
			c.fail(l, errAbandoned)
		}
	}
}

package locations

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// Located is what the cache says of one container.
type Located struct {
	// Placement is immutable and stays valid; nil if Err is not. One that is not usable
	// (see muster.Placement.Usable) is answered and not kept. Every node it names is known
	// to Cache.Node.
	Placement *muster.Placement
	// Seen is for Refresh, should the placement prove wrong.
	Seen Seen
	// Err has a code: the source's for this container or its call, ErrUnavailable if the
	// call took too long or the cache is closed, or the caller's own ErrDeadline or
	// ErrCancelled.
	Err error
}

// Stale names an answer that proved wrong.
type Stale struct {
	Container uint64
	Seen      Seen
}

// Cache is the shared location cache; see the package for its rules.
type Cache struct {
	// Set by New.
	source Source
	opts   Options
	boot   uint64
	start  time.Time
	ctx    context.Context // of the loads; ends with Close
	cancel context.CancelFunc

	// Read without a lock, changed under mu.
	index index
	nodes nodes

	lookups lookups // has atomics of its own

	mu       sync.Mutex // guards what follows; held over memory accesses alone
	clock    clock
	flights  map[uint64]flight
	queue    []*load // not yet sent, in their order
	running  int     // workers, Options.Loads at most
	sequence uint64  // of the load that began last
	count    Stats   // counters only
	closed   bool
	workers  sync.WaitGroup // Add under mu unless closed
}

// New makes an empty cache over s.
func New(s Source, o Options) (*Cache, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c := &Cache{
		source:  s,
		opts:    o,
		boot:    rand.Uint64() | 1, // the zero Seen is of no cache
		start:   time.Now(),
		index:   newIndex(o.Size),
		flights: map[uint64]flight{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the loads in flight and waits for them. What is cached is answered further
// on, anything else is ErrUnavailable.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, l := range c.queue {
		c.fail(l, errClosed)
	}
	c.queue = nil
	c.mu.Unlock()
	c.cancel()
	c.workers.Wait()
}

// Get says where containers are, out[i] for ids[i]; an id may occur repeatedly. The
// answer may be as old as Options.TTL. The error is the context's: what it left
// unanswered has it in out as well, and the rest of out is good. A call that is answered
// from memory does not look at the context.
func (c *Cache) Get(ctx context.Context, ids []uint64, out []Located) error {
	out = out[:len(ids)]
	now := c.now()
	var wants []want
	var firsts [stage]*entry
	for at := 0; at < len(ids); at += stage {
		some := ids[at:min(at+stage, len(ids))]
		c.index.fetch(some, &firsts)
		for i, id := range some {
			if e := firsts[i%stage].find(id); e != nil && c.fresh(e, now) {
				e.touch()
				out[at+i] = c.located(e)
				continue
			}
			if wants == nil {
				wants = make([]want, 0, len(ids)-at-i)
			}
			wants = append(wants, want{id: id, out: at + i})
		}
	}
	c.lookups.hit(len(ids)-len(wants), ids)
	if wants == nil {
		return nil
	}
	return c.load(ctx, wants, out)
}

// Cached is Get for who needs placements alone and can do without those that are not in
// memory: it gives those of the first of ids, and returns how many. It is fewer than all if the
// next one is not there.
func (c *Cache) Cached(ids []uint64, out []*muster.Placement) (n int) {
	now := c.now()
	var firsts [stage]*entry
	defer func() { c.lookups.hit(n, ids) }()
	for n < len(ids) {
		some := ids[n:min(n+stage, len(ids))]
		c.index.fetch(some, &firsts)
		for i, id := range some {
			e := firsts[i%stage].find(id)
			if e == nil || !c.fresh(e, now) {
				return n
			}
			e.touch()
			out[n] = &e.placement
			n++
		}
	}
	return n
}

// Refresh is Get for containers of which earlier answers proved wrong: it answers with
// what was loaded after them, and with anything if Seen is zero. If that fails, what is
// cached stays as it is.
func (c *Cache) Refresh(ctx context.Context, stale []Stale, out []Located) error {
	out = out[:len(stale)]
	wants := make([]want, len(stale))
	for i, s := range stale {
		wants[i] = want{id: s.Container, out: i}
		if s.Seen.boot() == c.boot {
			wants[i].after = s.Seen.sequence()
		}
	}
	return c.load(ctx, wants, out)
}

// Reload is Get by loads that begin after the call. If they fail, what is cached stays as
// it is.
func (c *Cache) Reload(ctx context.Context, ids []uint64, out []Located) error {
	out = out[:len(ids)]
	wants := make([]want, len(ids))
	for i, id := range ids {
		wants[i] = want{id: id, after: notSent, out: i}
	}
	return c.load(ctx, wants, out)
}

// now is the time since the cache was made. It comes from the monotonic clock, so nobody
// who sets the time makes placements old or young.
func (c *Cache) now() time.Duration { return time.Since(c.start) }

func (c *Cache) fresh(e *entry, now time.Duration) bool { return now-e.written < c.opts.TTL }

func (c *Cache) located(e *entry) Located {
	return Located{Placement: &e.placement, Seen: makeSeen(c.boot, e.sequence)}
}

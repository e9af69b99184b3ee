package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// tally is what one listing brought: what is noted while the time runs. It takes parts
// from any goroutine.
type tally struct {
	begin time.Time
	first atomic.Int64 // ns from begin to the first row; 0: none yet
	rows  atomic.Int64
	sum   atomic.Int64 // of what was read
}

func (t *tally) take(p part) {
	if t.first.Load() == 0 && p.hasRows() {
		t.first.CompareAndSwap(0, max(1, int64(time.Since(t.begin))))
	}
	t.sum.Add(p.read())
	t.rows.Add(int64(p.rows()))
}

// census is what one listing brought: the rows themselves, and their bytes if no wire has
// carried them. It takes parts from any goroutine.
type census struct {
	mu     sync.Mutex // guards all
	hasher hasher
	digest digest
	bytes  int64
	err    error // the first one
}

func (c *census) take(p part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := c.hasher.digestOf(p)
	if err != nil && c.err == nil {
		c.err = err
	}
	c.digest = c.digest.plus(d)
	if p.message != nil {
		c.bytes += int64(len(p.message.Frame))
	}
}

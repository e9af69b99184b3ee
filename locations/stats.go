package locations

import (
	"sync/atomic"
	"time"
)

// Stats counts since the cache was made; Size, Nodes, Loading and Waiting are of now.
type Stats struct {
	Size    int // containers kept, those past their time included
	Nodes   int // datanodes known
	Loading int // calls to the source in flight
	Waiting int // containers gathered for a next call

	Hits       uint64        // containers answered from memory
	Misses     uint64        // containers that were not in memory, or past their time
	Forced     uint64        // containers that were in memory, but not new enough for the caller
	Loads      uint64        // calls to the source that have ended
	LoadErrors uint64        // of these, those that failed as a whole
	Loaded     uint64        // containers in the calls that did not
	Unkept     uint64        // of these, those without a usable placement
	Evictions  uint64        // containers dropped for others, for want of space
	LoadTime   time.Duration // sum over the calls to the source
}

// Stats is a reading of all counters at one time but for Hits, which may be ahead.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.count
	s.Size, s.Nodes = len(c.clock.ring), c.nodes.known
	s.Hits += c.lookups.sum()
	for _, l := range c.queue {
		s.Waiting += len(l.ids)
	}
	return s
}

// lookups counts hits outside the lock, in several cache lines, lest one goes round
// between the cores.
type lookups [16]struct {
	hits atomic.Uint64
	_    [56]byte
}

// hit counts n hits of a call for ids, by whose first it chooses the line.
func (l *lookups) hit(n int, ids []uint64) {
	if n > 0 {
		l[ids[0]%uint64(len(l))].hits.Add(uint64(n))
	}
}

func (l *lookups) sum() (n uint64) {
	for i := range l {
		n += l[i].hits.Load()
	}
	return n
}

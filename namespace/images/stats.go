package images

import "sync/atomic"

// Stats is what a cache holds and what it did since it was made.
type Stats struct {
	Budget int64 // Options.Bytes as it is in force; 0: the cache keeps nothing
	Bytes  int64 // allocated: slabs, index, ghost; never above Budget
	Live   int64 // of which items that can still be found, with their headers
	Items  int64

	Hits, Misses uint64 // as told to AddLookups
	Puts         uint64 // items that were kept
	Refused      uint64 // items that were not: too large, or older than what is there
	Promotions   uint64 // items that proved their worth and moved to the main queue's end
	Evictions    uint64 // items that made room for others
	Drops        uint64 // items that Drop removed
}

// counters are what Stats reports. Cache.mu guards them.
type counters struct {
	items, live                                 int64
	puts, refused, promotions, evictions, drops uint64
}

// lookups are counted apart, without the lock.
type lookups struct{ hits, misses atomic.Uint64 }

// AddLookups counts look-ups. A Get that counted itself would pass a cache line from
// core to core: who looks up counts, and adds from time to time.
func (c *Cache) AddLookups(hits, misses uint64) {
	c.lookups.hits.Add(hits)
	c.lookups.misses.Add(misses)
}

// Stats is a consistent reading of all counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.count
	return Stats{
		Budget: c.budget, Bytes: c.bytes(), Live: n.live, Items: n.items,
		Hits: c.lookups.hits.Load(), Misses: c.lookups.misses.Load(),
		Puts: n.puts, Refused: n.refused, Promotions: n.promotions, Evictions: n.evictions, Drops: n.drops,
	}
}

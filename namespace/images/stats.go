package images

// Stats is what a cache holds and what it did since it was made.
type Stats struct {
	Budget int64 // Options.Bytes as it is in force; 0: the cache keeps nothing
	Bytes  int64 // allocated: slabs, index, ghost; never above Budget
	Live   int64 // of which items that can still be found, with their headers
	Items  int64

	Hits, Misses uint64 // as told to AddLookups
	Puts         uint64 // items that were kept
	Refused      uint64 // items that were not: too large, or older than what is there
	Promotions   uint64 // items that proved their worth and moved to the main log
	Evictions    uint64 // items that made room for others
	Drops        uint64 // items that Drop removed
}

// Stats is a consistent reading of all counters.
func (c *Cache) Stats() Stats { return Stats{} }

// AddLookups counts look-ups. A Get that counted itself would pass a cache line from
// core to core: who looks up counts, and adds from time to time.
func (c *Cache) AddLookups(hits, misses uint64) {}

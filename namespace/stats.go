package namespace

// Stats are a tree's counters. Those of work done count since Open.
type Stats struct {
	Txid       uint64 // of the newest durable state
	Inodes     uint64 // attached and waiting for reclaim
	Reclaiming uint64 // detached directories that are not reclaimed yet
	Requests   uint64 // results kept for repeated request ids
	Writing    uint64 // files being written
	Queueing   uint64 // files that are gone and whose blocks are not all among Deletions yet
	StoreBytes uint64 // on disk, the log included

	Views    uint64 // views taken, each by one read lock
	Gets     uint64 // point reads of the store by closed readers and commands
	Seeks    uint64 // iterators positioned by closed readers
	Commits  uint64 // requests applied
	Refusals uint64 // requests refused
	Syncs    uint64 // waits for the disk; what is committed together shares one

	Images ImageStats
}

// ImageStats are what is kept in memory of hot directories: images of their rows, by directory
// or by range of names in it, and their heads.
type ImageStats struct {
	Budget int64 // bytes; 0: nothing is kept
	Bytes  int64 // in use, never more
	Items  int64 // images and heads

	Hits      uint64 // look-ups by closed readers that memory answered
	Misses    uint64 // and those that it did not
	Loads     uint64 // images and heads read from the store
	Rows      uint64 // rows read for that
	Evictions uint64 // items that made room for others
	Drops     uint64 // items that a change made untrue
}

// Stats returns the counters. They wait neither for the log nor for a table; on a closed tree,
// those of the newest state are 0.
func (t *Tree) Stats() Stats {
	c := &t.counters
	s := Stats{
		Views: c.views.Load(), Gets: c.gets.Load(), Seeks: c.seeks.Load(),
		Commits: c.commits.Load(), Refusals: c.refusals.Load(), Syncs: c.syncs.Load(),
	}
	i := t.loads.cache.Stats()
	s.Images = ImageStats{
		Budget: i.Budget, Bytes: i.Bytes, Items: i.Items, Hits: i.Hits, Misses: i.Misses,
		Loads: c.loads.Load(), Rows: c.loadedRows.Load(), Evictions: i.Evictions, Drops: i.Drops,
	}
	v, err := t.currentView()
	if err != nil {
		return s
	}
	defer v.Release()
	s.Txid, s.Inodes, s.Reclaiming, s.Requests = v.meta.txid, v.meta.inodes, v.meta.detached, v.meta.requests
	s.Writing, s.Queueing = v.meta.writing, v.meta.dropped
	s.StoreBytes = t.db.Metrics().DiskSpaceUsage()
	return s
}

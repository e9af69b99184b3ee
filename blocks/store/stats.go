package store

import "sync/atomic"

// counts count since Open.
type counts struct {
	reads, readBytes, misses              atomic.Uint64
	writes, writtenBytes                  atomic.Uint64
	created, committed, deleted           atomic.Uint64
	dataSyncs, folderSyncs, metadataSyncs atomic.Uint64
	readErrors, writeErrors, badChecksums atomic.Uint64
	damageFound, repaired, scrubbedBytes  atomic.Uint64
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	c := &s.counts
	misses := c.misses.Load()
	return Stats{
		Reads: c.reads.Load(), ReadBytes: c.readBytes.Load(),
		Misses: misses, Handles: uint64(s.cache.held.Load()),
		Writes: c.writes.Load(), WrittenBytes: c.writtenBytes.Load(),
		Created: c.created.Load(), Committed: c.committed.Load(), Deleted: c.deleted.Load(),
		DataSyncs: c.dataSyncs.Load(), FolderSyncs: c.folderSyncs.Load(), MetadataSyncs: c.metadataSyncs.Load(),
		ReadErrors: c.readErrors.Load(), WriteErrors: c.writeErrors.Load(), BadChecksums: c.badChecksums.Load(),
		DamageFound: c.damageFound.Load(), Repaired: c.repaired.Load(), ScrubbedBytes: c.scrubbedBytes.Load(),
	}
}

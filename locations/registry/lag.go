package registry

import (
	"time"
)

// lag is what an open container is remembered for, whose replicas do not have as many blocks each.
type lag struct {
	since time.Time
	most  uint32 // blocks that a replica had by then
}

// lagging says whether a replica of an open container does not have what another one had already
// Options.ReplicaGrace ago. A writer that had too few datanodes for a block has gone on without one of
// them, and only a closed container is copied. Counts that differ for a moment, since a block is being
// written or reports take turns, are no lag. The caller holds mu.
func (r *Registry) lagging(c *container, now time.Time) bool {
	if _, _, coded := c.replication.Coding(); coded {
		return false
	}
	least, most := r.spread(c)
	l, known := r.lags[c.id]
	switch {
	case least == most:
		delete(r.lags, c.id)
		return false
	case !known || least >= l.most || most < l.most: // all have caught up, or blocks were deleted
		r.lags[c.id] = lag{now, most}
		return false
	}
	return now.Sub(l.since) >= r.opts.ReplicaGrace
}

// spread returns the fewest and the most blocks that a member of a container has. The caller holds mu.
func (r *Registry) spread(c *container) (least, most uint32) {
	for i, m := range c.members {
		blocks := uint32(0) // of one that has said nothing
		if p := c.of(m); p != nil && p.counts(r.nodes[m]) {
			blocks = p.blocks
		}
		if most = max(most, blocks); i == 0 || blocks < least {
			least = blocks
		}
	}
	return least, most
}

package registry

import (
	"slices"

	"github.com/muster-fs/muster"
)

// container is a container. The registry's mu guards it but for what never changes: id,
// replication and members.
type container struct {
	id uint64
	containerRecord
	next     uint64    // local id to be given next, at most reserved
	since    uint32    // the full report that began last before it was made or closed; 0: none since the start
	replicas []replica // as reported, also those that do not count any more
}

// replica is what a datanode said of a container.
type replica struct {
	node   muster.NodeNumber
	seen   uint32 // the full report that named it, or was the newest when another one did
	index  uint8  // erasure-coded: from 1
	closed bool
	gone   bool // it said so

	blocks, damaged uint32 // as many as fit
	bytes           uint64
}

// counts says whether a replica is there: its datanode's newest full report does not say otherwise.
func (p *replica) counts(n *node) bool { return !p.gone && p.seen >= n.seen }

// of returns what a datanode said, nil if it has said nothing.
func (c *container) of(n muster.NodeNumber) *replica {
	for i := range c.replicas {
		if c.replicas[i].node == n {
			return &c.replicas[i]
		}
	}
	return nil
}

// presumed says whether a member of which nothing was said counts as having a replica.
func (c *container) presumed(n *node) bool { return !c.closed || n.seen <= c.since }

// left returns how many reserved local ids are not given yet.
func (c *container) left() uint64 { return c.reserved - c.next }

// found is a replica that counts.
type found struct {
	*node
	index int // erasure-coded: from 1
}

// where returns the replicas of a container that count, members first and stale ones last, in an empty
// slice that has room. The caller holds mu.
func (r *Registry) where(dst []found, c *container) []found {
	stale := false
	add := func(n *node, index int) {
		if n.health != muster.Dead {
			dst = append(dst, found{n, index})
			stale = stale || n.health == muster.Stale
		}
	}
	for i, m := range c.members {
		n, p := r.nodes[m], c.of(m)
		switch {
		case p == nil && c.presumed(n):
			add(n, i+1)
		case p != nil && p.counts(n):
			add(n, int(p.index))
		}
	}
	for i := range c.replicas {
		p := &c.replicas[i]
		if n := r.nodes[p.node]; p.counts(n) && !slices.Contains(c.members, p.node) {
			add(n, int(p.index))
		}
	}
	if r.orders.copies > 0 {
		dst = r.withoutTargets(dst, c)
	}
	if stale {
		slices.SortStableFunc(dst, func(a, b found) int { return int(a.health) - int(b.health) })
	}
	return dst
}

// withoutTargets leaves out replicas that are being copied, or completed, as long as there are others:
// most blocks may be missing there. The caller holds mu.
func (r *Registry) withoutTargets(all []found, c *container) []found {
	target := func(f found) bool {
		return slices.ContainsFunc(r.orders.of[c.id], func(o *order) bool { return o.target == f.number && o.kind == muster.OrderCopy })
	}
	if !slices.ContainsFunc(all, func(f found) bool { return !target(f) }) {
		return all
	}
	return slices.DeleteFunc(all, target)
}

// place returns where a container is, on nodes that it appends to nodes. The caller holds mu.
func (r *Registry) place(nodes []muster.NodeNumber, c *container) (muster.Placement, []muster.NodeNumber) {
	var few [16]found
	first, all := len(nodes), r.where(few[:0], c)
	if _, _, coded := c.replication.Coding(); !coded {
		for _, f := range all {
			nodes = append(nodes, f.number)
		}
	} else {
		for range c.replication.Nodes() {
			nodes = append(nodes, muster.NoNode)
		}
		for _, f := range all {
			if at := &nodes[first+f.index-1]; *at == muster.NoNode {
				*at = f.number
			}
		}
	}
	return muster.Placement{Container: c.id, Replication: c.replication, Closed: c.closed, Nodes: nodes[first:len(nodes):len(nodes)]}, nodes
}

// add makes a container known. The caller holds mu.
func (r *Registry) add(c *container) {
	r.containers[c.id], r.all = c, append(r.all, c)
	if !c.closed {
		o := r.open[c.replication]
		if o == nil {
			o = &openContainers{}
			r.open[c.replication] = o
		}
		o.list = append(o.list, c)
	}
}

// end notes that containers are closed. The caller holds mu.
func (r *Registry) end(containers []*container) {
	of := map[muster.Replication]struct{}{}
	for _, c := range containers {
		c.closed, c.since = true, r.seq
		delete(r.lags, c.id)
		of[c.replication] = struct{}{}
	}
	for replication := range of {
		o := r.open[replication]
		closed := func(c *container) bool { return c.closed }
		o.list, o.full = slices.DeleteFunc(o.list, closed), slices.DeleteFunc(o.full, closed)
	}
}

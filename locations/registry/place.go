package registry

import (
	"cmp"
	"slices"

	"github.com/muster-fs/muster"
)

// drop orders a replica to be dropped, if that may be.
func (v *review) drop(n muster.NodeNumber) bool {
	s := &v.sites[n]
	if v.drops >= maxDrops || s.drops >= dropsPerNode || !v.mayOrder(n) {
		return false
	}
	v.drops++
	s.drops++
	v.decision.orders = append(v.decision.orders, &order{kind: muster.OrderDrop, container: v.container, target: n, progress: v.now})
	return true
}

// mayCopy says whether bounds allow a copy to a datanode that has nothing yet.
func (v *review) mayCopy() bool {
	if v.copies >= v.bounds.copies {
		return false
	}
	sources := v.sources(muster.NoNode)
	return len(sources) > 0 && v.sites[sources[0]].sources < v.bounds.copiesPerNode
}

// copyTo orders a copy to a datanode, if there is a source for it, and bounds allow it.
func (v *review) copyTo(n muster.NodeNumber) bool {
	target := &v.sites[n]
	if v.copies >= v.bounds.copies || target.targets >= v.bounds.copiesPerNode {
		return false
	}
	sources := v.sources(n)
	if len(sources) == 0 || v.sites[sources[0]].sources >= v.bounds.copiesPerNode {
		return false
	}
	v.copies++
	target.targets++
	v.sites[sources[0]].sources++
	v.decision.orders = append(v.decision.orders, &order{kind: muster.OrderCopy, container: v.container, target: n, sources: sources, progress: v.now})
	return true
}

// sources returns who has blocks for a datanode: complete replicas first, then those on healthy
// datanodes, then those that have the fewest orders.
func (v *review) sources(target muster.NodeNumber) (nodes []muster.NodeNumber) {
	var all []holding
	for _, h := range v.holdings {
		if v.readable(h) && h.node != target && v.under(h.node, muster.OrderDrop) == nil {
			all = append(all, h)
		}
	}
	rank := func(h holding) int {
		if v.whole(h) {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b holding) int {
		x, y := &v.sites[a.node], &v.sites[b.node]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.health, y.health), cmp.Compare(x.sources, y.sources), cmp.Compare(a.node, b.node))
	})
	for _, h := range all {
		nodes = append(nodes, h.node)
	}
	return nodes
}

// target returns the best datanode for one more replica: on a rack as it should be, then the one
// with the fewest orders, then the one with the most room.
func (v *review) target() (best muster.NodeNumber, ok bool) {
	racks := map[string]int{}
	for _, n := range v.there {
		racks[v.sites[n].rack]++
	}
	better := func(a, b *site) int {
		return cmp.Or(cmp.Compare(v.misplaced(a.rack, racks), v.misplaced(b.rack, racks)), cmp.Compare(a.targets, b.targets), cmp.Compare(b.free, a.free))
	}
	for i := range v.sites {
		s, n := &v.sites[i], muster.NodeNumber(i)
		if !s.serves() || !s.room || s.targets >= v.bounds.copiesPerNode || v.holds(n) || !v.mayOrder(n) || slices.Contains(v.there, n) {
			continue
		}
		if !ok || better(s, &v.sites[best]) < 0 {
			best, ok = n, true
		}
	}
	return best, ok
}

// misplaced says how wrong it is to put one more replica on a rack beside those on some racks. The
// rule is that of new containers: the second is on another rack than the first, the third on the
// rack of one of the two, and all others where the fewest are.
func (v *review) misplaced(rack string, racks map[string]int) int {
	here := racks[rack]
	if len(racks) == 2 && len(v.there) == 2 {
		return 1 - here
	}
	return here
}

// holds says whether a replica counts on a datanode.
func (v *review) holds(n muster.NodeNumber) bool {
	return slices.ContainsFunc(v.holdings, func(h holding) bool { return h.node == n && !v.gone(h) })
}

// gone says whether a replica was only presumed, and that for too long.
func (v *review) gone(h holding) bool {
	return h.presumed && v.sites[h.node].reported && v.now.Sub(v.memory.shortSince(h.node, v.now)) >= v.bounds.grace
}

// under returns the order of a kind that a datanode has for the container, if there is one.
func (v *review) under(n muster.NodeNumber, k muster.OrderKind) *order {
	for _, o := range v.subject.orders {
		if o.target == n && o.kind == k {
			return o
		}
	}
	return nil
}

// recent says whether a datanode has ended an order for the container not long ago.
func (v *review) recent(n muster.NodeNumber) bool {
	return slices.ContainsFunc(v.memory.ended, func(e ending) bool {
		return e.node == n && v.now.Sub(e.at) < v.bounds.pause(e.times)
	})
}

// mayOrder says whether a datanode may be given an order for the container.
func (v *review) mayOrder(n muster.NodeNumber) bool {
	return v.sites[n].serves() && !v.recent(n) && !slices.ContainsFunc(v.subject.orders, func(o *order) bool { return o.target == n })
}

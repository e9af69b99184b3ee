package topology

import (
	"slices"

	"github.com/muster-fs/muster"
)

// Reader is the costs from one reader to all nodes of one tree. The nil Reader knows of no
// distance: to it all nodes are alike.
type Reader struct {
	at    []int32             // the tree's
	costs []int32             // of a node, by its location; empty: the reader is not in the tree
	self  muster.NodeNumber   // NoNode: the reader is no node
	local []muster.NodeNumber // in order; if several nodes are on the reader's machine
}

// Reader returns the costs from a point; nil if it is none.
func (t *Tree) Reader(p Point) *Reader {
	if p.kind == noPoint {
		return nil
	}
	r := &Reader{at: t.at, self: muster.NoNode}
	if number, found := t.byID[p.name]; found && p.kind == nodePoint {
		r.self = number
	}
	if p.in(t) {
		r.costs = make([]int32, len(t.locations))
		for at := range r.costs {
			r.costs[at] = t.climb(p.place(), place{int32(at), true})
		}
	}
	return r
}

// Cost returns the distance to a node: 0 if it is the reader, or on the machine that
// Map.ReaderFor was asked for, and MaxCost if it is not in the tree. Of no reader all costs
// are 0. NoNode's is MaxCost.
func (r *Reader) Cost(n muster.NodeNumber) int32 {
	if n == muster.NoNode {
		return MaxCost
	}
	if r == nil || n == r.self {
		return 0
	}
	if len(r.local) > 0 {
		if _, found := slices.BinarySearch(r.local, n); found {
			return 0
		}
	}
	if int64(n) >= int64(len(r.at)) {
		return MaxCost
	}
	at := r.at[n]
	if at < 0 || int(at) >= len(r.costs) {
		return MaxCost
	}
	return r.costs[at]
}

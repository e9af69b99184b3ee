package topology

import "github.com/muster-fs/muster"

// Reader is the costs from one reader to all nodes of one tree. The nil Reader knows of no
// distance: to it all nodes are alike.
type Reader struct{}

// Reader returns the costs from a point; nil if it is none.
func (t *Tree) Reader(p Point) *Reader { panic("not yet") }

// Cost returns the distance to a node: MaxCost if it is not in the tree, or is NoNode.
func (r *Reader) Cost(n muster.NodeNumber) int32 { panic("not yet") }

// Sort appends nodes to dst in the order of their cost. Those of one cost come in a random
// order, which the seed decides: give each block another. Nodes that are not in the tree
// come last, and NoNode after them. Nodes are not changed, unless they lie in dst's spare
// room. Nothing is allocated if they fit there.
func (r *Reader) Sort(dst, nodes []muster.NodeNumber, seed uint64) []muster.NodeNumber {
	panic("not yet")
}

// Nearest is Sort, and appends the first n of it only. It is an error if there are fewer.
func (r *Reader) Nearest(dst, nodes []muster.NodeNumber, n int, seed uint64) ([]muster.NodeNumber, error) {
	panic("not yet")
}

// Order is Sort, and appends the positions in nodes instead: of an erasure-coded placement
// they are the replica indexes less one. Those of NoNode come last.
func (r *Reader) Order(dst []int, nodes []muster.NodeNumber, seed uint64) []int { panic("not yet") }

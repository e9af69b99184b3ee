package topology

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/muster-fs/muster"
)

// few is more than any placement has. Sorting more nodes takes memory for a time.
const few = 16

// Sort appends nodes to dst in the order of their cost. Those of one cost come in a random
// order, which the seed decides: give each block another. Nodes that are not in the tree
// come last, and NoNode after them. Nodes are not changed, unless they lie in dst's spare
// room. Nothing is allocated for up to 16 nodes, if dst has room for them.
func (r *Reader) Sort(dst, nodes []muster.NodeNumber, seed uint64) []muster.NodeNumber {
	var room [few]uint64
	keys := r.keys(room[:0], nodes)
	Arrange(keys, seed)
	for _, k := range keys {
		dst = append(dst, muster.NodeNumber(k))
	}
	return dst
}

// Order sorts by rank: it appends to dst the positions in nodes, which of an erasure-coded
// placement are the replica indexes less one. Otherwise it is as Sort. The state of NoNode is
// not asked for.
func (r *Reader) Order(dst []int, nodes []muster.NodeNumber, seed uint64, state func(muster.NodeNumber) muster.NodeState) []int {
	var room [few]uint64
	keys := room[:0]
	for i, n := range nodes {
		rank := uint32(math.MaxUint32)
		if n != muster.NoNode {
			rank = r.Rank(n, state(n))
		}
		keys = append(keys, uint64(rank)<<32|uint64(i))
	}
	Arrange(keys, seed)
	for _, k := range keys {
		dst = append(dst, int(uint32(k)))
	}
	return dst
}

// Rank returns what the replicas of a reader are arranged by: the cost, but a stale datanode
// comes after the others and a dead one last. One that drains or is in maintenance serves as
// well as any.
func (r *Reader) Rank(n muster.NodeNumber, s muster.NodeState) uint32 {
	const stale, dead = 1 << 31, math.MaxUint32 - 1
	switch {
	case s < muster.Stale:
		return uint32(r.Cost(n))
	case s < muster.Dead:
		return stale | uint32(min(r.Cost(n), MaxCost-2))
	}
	return dead
}

// keys appends to dst for each node its cost in the upper half and its number in the lower
// one. NoNode is dearer than what the tree does not have.
func (r *Reader) keys(dst []uint64, nodes []muster.NodeNumber) []uint64 {
	for _, n := range nodes {
		cost := uint32(math.MaxUint32)
		if n != muster.NoNode {
			cost = uint32(r.Cost(n))
		}
		dst = append(dst, uint64(cost)<<32|uint64(n))
	}
	return dst
}

// Arrange sorts keys by their upper half, as Sort does nodes by their cost: those alike in it
// come in a random order, which the seed decides. The lower half is the caller's. Nothing is
// allocated.
func Arrange(keys []uint64, seed uint64) {
	if len(keys) == 3 {
		arrangeThree((*[3]uint64)(keys), seed)
		return
	}
	shuffle(keys, seed) // and what follows is stable: of those alike, each order is as likely
	if len(keys) > few {
		slices.SortStableFunc(keys, func(a, b uint64) int { return cmp.Compare(a>>32, b>>32) })
		return
	}
	for i := 1; i < len(keys); i++ {
		k := keys[i]
		at := i
		for ; at > 0 && keys[at-1]>>32 > k>>32; at-- {
			keys[at] = keys[at-1]
		}
		keys[at] = k
	}
}

// arrangeThree is Arrange for the replicas that most files have. Which of them comes first is
// as good as random, so no jump depends on it.
func arrangeThree(keys *[3]uint64, seed uint64) {
	seed, r := next(seed)
	seed, s := next(seed)
	_, t := next(seed)
	a, b, c := keys[0]>>32<<32|r>>32, keys[1]>>32<<32|s>>32, keys[2]>>32<<32|t>>32
	_, ba := bits.Sub64(b, a, 0) // 1: b comes before a
	_, ca := bits.Sub64(c, a, 0)
	_, cb := bits.Sub64(c, b, 0)
	keys[ba+ca], keys[1-ba+cb], keys[2-ca-cb] = keys[0], keys[1], keys[2]
}

// shuffle puts the keys into a random order, each being as likely.
func shuffle(keys []uint64, seed uint64) {
	for i := len(keys) - 1; i > 0; i-- {
		var r uint64
		seed, r = next(seed)
		k, _ := bits.Mul64(r, uint64(i+1))
		keys[i], keys[k] = keys[k], keys[i]
	}
}

// next is a step of the generator splitmix64, for which neighbouring seeds are as good as
// any: blocks may have consecutive ones.
func next(state uint64) (after, random uint64) {
	state += 0x9e3779b97f4a7c15
	z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return state, z ^ z>>31
}

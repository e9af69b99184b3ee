package topology

import (
	"cmp"
	"fmt"
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
	for _, k := range sorted(r.keys(room[:0], nodes), seed) {
		dst = append(dst, muster.NodeNumber(k))
	}
	return dst
}

// Nearest is Sort, and appends the first n of it only. It is an error if there are fewer.
func (r *Reader) Nearest(dst, nodes []muster.NodeNumber, n int, seed uint64) ([]muster.NodeNumber, error) {
	if n < 0 || n > len(nodes) {
		return dst, fmt.Errorf("%w: the nearest %d of %d nodes", muster.ErrInvalid, n, len(nodes))
	}
	var room [few]uint64
	for _, k := range sorted(r.keys(room[:0], nodes), seed)[:n] {
		dst = append(dst, muster.NodeNumber(k))
	}
	return dst, nil
}

// Order is Sort, and appends the positions in nodes instead: of an erasure-coded placement
// they are the replica indexes less one. Those of NoNode come last.
func (r *Reader) Order(dst []int, nodes []muster.NodeNumber, seed uint64) []int {
	var room [few]uint64
	keys := r.keys(room[:0], nodes)
	for i, k := range keys {
		keys[i] = k>>32<<32 | uint64(i)
	}
	for _, k := range sorted(keys, seed) {
		dst = append(dst, int(uint32(k)))
	}
	return dst
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

// sorted shuffles the keys, and sorts them by cost so that those of one cost stay in the
// order that the shuffle left them in: of these, each is as likely.
func sorted(keys []uint64, seed uint64) []uint64 {
	shuffle(keys, seed)
	if len(keys) > few {
		slices.SortStableFunc(keys, func(a, b uint64) int { return cmp.Compare(a>>32, b>>32) })
		return keys
	}
	for i := 1; i < len(keys); i++ {
		k := keys[i]
		at := i
		for ; at > 0 && keys[at-1]>>32 > k>>32; at-- {
			keys[at] = keys[at-1]
		}
		keys[at] = k
	}
	return keys
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

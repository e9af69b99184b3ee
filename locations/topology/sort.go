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
	keys := r.keys(room[:0], nodes)
	Arrange(keys, seed)
	for _, k := range keys {
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
	keys := r.keys(room[:0], nodes)
	Arrange(keys, seed)
	for _, k := range keys[:n] {
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
	Arrange(keys, seed)
	for _, k := range keys {
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

// Arrange sorts keys by their upper half, as Sort does nodes by their cost: those alike in it
// come in a random order, which the seed decides. The lower half is the caller's. Nothing is
// allocated for up to 16 keys.
func Arrange(keys []uint64, seed uint64) {
	if len(keys) > few {
		arrangeMany(keys, seed)
		return
	}
	// Which of two comes first is as good as random, and so are jumps that depend on it: so
	// each key's place is counted instead.
	var order, room [few]uint64
	var places [few]uint8
	for i, k := range keys {
		var random, less uint64
		seed, random = next(seed)
		at, mine := uint8(i), k>>32<<32|random>>32
		for j, other := range order[:i] {
			_, less = bits.Sub64(mine, other, 0)
			places[j] += uint8(less)
			at -= uint8(less)
		}
		order[i], room[i], places[i] = mine, k, at
	}
	for i := range keys {
		keys[places[i]%few] = room[i]
	}
}

func arrangeMany(keys []uint64, seed uint64) {
	type key struct{ order, key uint64 }
	all := make([]key, len(keys))
	for i, k := range keys {
		var random uint64
		seed, random = next(seed)
		all[i] = key{k>>32<<32 | random>>32, k}
	}
	slices.SortStableFunc(all, func(a, b key) int { return cmp.Compare(a.order, b.order) })
	for i := range all {
		keys[i] = all[i].key
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

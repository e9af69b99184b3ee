package images

import "unsafe"

// ghost remembers keys of evicted items, by fingerprint: a mistake costs an item a
// place that it did not earn, no more. Cache.mu guards it.
type ghost struct {
	buckets [][ghostWays]uint32 // each newest first; 0: empty
}

const ghostWays = 8

// newGhost is a sixty-fourth of the budget: about as many keys as the cache has items
// if these take 256 bytes each.
func newGhost(budget int64) ghost {
	bucket := int64(unsafe.Sizeof([ghostWays]uint32{}))
	return ghost{buckets: make([][ghostWays]uint32, floorPow2(budget/64/bucket))}
}

func (g *ghost) fixed() int64 {
	return int64(len(g.buckets)) * int64(unsafe.Sizeof(g.buckets[0]))
}

// place is the bucket and the fingerprint of a key. Keys of a group have the hash in
// common: they get neighbouring buckets.
func (g *ghost) place(h, key uint64) (*[ghostWays]uint32, uint32) {
	in := key & (group - 1)
	return &g.buckets[(h+in)&uint64(len(g.buckets)-1)], max(uint32(h>>32)&^(group-1)|uint32(in), 1)
}

// add remembers a key in the place of the oldest.
func (g *ghost) add(h, key uint64) {
	b, print := g.place(h, key)
	copy(b[1:], b[:])
	b[0] = print
}

// take says whether a key is remembered, and forgets it.
func (g *ghost) take(h, key uint64) bool {
	b, print := g.place(h, key)
	for i := range b {
		if b[i] == print {
			copy(b[i:], b[i+1:])
			b[ghostWays-1] = 0
			return true
		}
	}
	return false
}

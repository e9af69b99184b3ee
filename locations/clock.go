package locations

import "time"

// clock holds all entries in a circle and chooses the one that makes room. Cache.mu
// guards it.
type clock struct {
	ring []*entry
	hand int
}

// farthest bounds how many entries the hand passes for one eviction, and so how long the
// lock is held for one.
const farthest = 32

func (k *clock) add(e *entry) {
	k.ring = append(k.ring, nil)
	k.put(e, uint32(len(k.ring)-1))
}

// put puts e in a slot, whatever was in it.
func (k *clock) put(e *entry, slot uint32) {
	e.slot = slot
	k.ring[slot] = e
}

// replace puts e in the place of old, with the readings noted of it.
func (k *clock) replace(old, e *entry) {
	e.used.Store(old.used.Load())
	k.put(e, old.slot)
}

func (k *clock) remove(e *entry) {
	last := len(k.ring) - 1
	k.put(k.ring[last], e.slot)
	k.ring[last] = nil
	k.ring = k.ring[:last]
}

// victim moves the hand to an entry that may go: one written at expired or before, or not read
// since the hand was there last, else the least read of those that it passes. There
// must be one.
func (k *clock) victim(expired time.Duration) *entry {
	var least *entry
	var leastUsed uint32
	for range min(farthest, len(k.ring)) {
		if k.hand >= len(k.ring) {
			k.hand = 0
		}
		e := k.ring[k.hand]
		k.hand++
		used := e.used.Load()
		if used == 0 || e.written <= expired {
			return e
		}
		e.used.Store(used - 1)
		if least == nil || used < leastUsed {
			least, leastUsed = e, used
		}
	}
	return least
}

package images

import (
	"sync/atomic"
	"unsafe"
)

// index finds a key's location. It is split into tables by the hash's upper bits, each
// replaced alone when it is full. Lookups need no lock; changes need Cache.mu.
type index struct {
	tables []atomic.Pointer[table]
	shift  uint  // of a hash to its table's number
	bytes  int64 // of all tables; Cache.mu
}

// table is an open-addressing hash table. Its length is a power of two.
type table struct {
	slots []slot
	used  int // slots with a key; Cache.mu
	alive int // of which have an item; Cache.mu
}

// slot: no location yet: free. A key is never changed, and a dead slot is used again
// for its own key only, until the table is replaced.
type slot struct {
	loc atomic.Uint64 // a location, or dead
	key atomic.Uint64
}

const (
	// Keys that differ in the last six bits only lie in one group of slots: ids that
	// were given out together are asked for together, and share cache lines.
	groupBits = 6
	group     = 1 << groupBits
	minSlots  = 16
	// The next slot to try is in the next group, so that a whole group that is in the
	// way costs one try and siblings move on together. Odd, so that a probe comes by
	// every slot.
	stride = group + 1

	slotBytes  = int64(unsafe.Sizeof(slot{}))
	tableBytes = int64(unsafe.Sizeof(table{}))
)

// hash is the same for all keys of a group. Its upper bits tell the table, its lower
// ones the group.
func hash(key uint64) uint64 {
	h := key >> groupBits
	h *= 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	h ^= h >> 32
	h *= 0xff51afd7ed558ccd // of MurmurHash3's finaliser
	return h ^ h>>32
}

func newIndex(tables int) index {
	x := index{tables: make([]atomic.Pointer[table], tables), shift: 64}
	for n := tables; n > 1; n /= 2 {
		x.shift--
	}
	for i := range x.tables {
		x.tables[i].Store(x.newTable(minSlots))
	}
	return x
}

func (x *index) fixed() int64 {
	return int64(len(x.tables)) * int64(unsafe.Sizeof(x.tables[0]))
}

func (x *index) newTable(slots int) *table {
	x.bytes += tableBytes + int64(slots)*slotBytes
	return &table{slots: make([]slot, slots)}
}

func (x *index) table(h uint64) *table { return x.tables[h>>x.shift].Load() }

// live returns the slot of a key that has an item, else nil. What it says can be
// outdated at once unless Cache.mu is held.
func (x *index) live(h, key uint64) (*slot, location) {
	e := x.table(h).find(h, key)
	if e == nil {
		return nil, 0
	}
	if w := location(e.loc.Load()); w != dead {
		return e, w
	}
	return nil, 0
}

// insert returns the slot of a key that has no item, for its location.
func (x *index) insert(h, key uint64) *slot {
	t := x.table(h)
	e := t.find(h, key)
	if e == nil {
		if t.used >= len(t.slots)/4*3 {
			t = x.replace(h, t)
		}
		e = t.take(h, key)
	}
	t.alive++
	return e
}

// died accounts for an item that is gone. A table that lost nearly all makes place for
// a smaller one.
func (x *index) died(h uint64) {
	t := x.table(h)
	t.alive--
	if len(t.slots) > minSlots && t.alive < len(t.slots)/8 {
		x.replace(h, t)
	}
}

// replace puts a table with the items of t, no dead slots, and room for more into its
// place.
func (x *index) replace(h uint64, t *table) *table {
	n := minSlots
	for n/8*5 <= t.alive {
		n *= 2
	}
	fresh := x.newTable(n)
	for i := range t.slots {
		e := &t.slots[i]
		if w := location(e.loc.Load()); w.live() {
			key := e.key.Load()
			fresh.take(hash(key), key).loc.Store(uint64(w))
		}
	}
	fresh.alive = fresh.used
	x.tables[h>>x.shift].Store(fresh)
	x.bytes -= tableBytes + int64(len(t.slots))*slotBytes
	return fresh
}

// find returns the slot of key, nil if it has none. There is always a free slot, at
// which the search ends.
func (t *table) find(h, key uint64) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := home(h, key); ; i += stride {
		e := &t.slots[i&mask]
		if e.loc.Load() == 0 {
			return nil
		}
		if e.key.Load() == key {
			return e
		}
	}
}

// take gives key, which has none, a slot; dead as yet.
func (t *table) take(h, key uint64) *slot {
	mask := uint64(len(t.slots) - 1)
	i := home(h, key)
	for t.slots[i&mask].loc.Load() != 0 {
		i += stride
	}
	e := &t.slots[i&mask]
	e.key.Store(key)
	e.loc.Store(uint64(dead))
	t.used++
	return e
}

// home is the number, before the mask, of the first slot to try. The place within the
// group is shifted about by the hash, else keys that are all even would have to share
// half of the slots.
func home(h, key uint64) uint64 { return h<<groupBits | (key+h>>48)&(group-1) }

// keys returns those that have an item and are chosen.
func (t *table) keys(pick func(key uint64) bool) []uint64 {
	var keys []uint64
	for i := range t.slots {
		e := &t.slots[i]
		if w := location(e.loc.Load()); w.live() {
			if key := e.key.Load(); pick(key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

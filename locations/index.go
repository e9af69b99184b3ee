package locations

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
)

// entry is a placement in the cache. Only next, used and slot change once it is shared.
// What a reader looks at comes first, in one cache line as a rule.
type entry struct {
	next      atomic.Pointer[entry] // in its chain; changed under Cache.mu
	written   time.Duration         // Cache.now when it was kept
	sequence  uint64                // of its load
	used      atomic.Uint32         // readings that the clock has not yet seen
	slot      uint32                // in the clock; under Cache.mu
	placement muster.Placement
	room      [4]muster.NodeNumber // of its nodes, unless there are more
}

// mostUsed is where an entry stops to count, so that what is read all the time is not
// written all the time.
const mostUsed = 3

// touch notes a reading. Two at once may count as one.
func (e *entry) touch() {
	if n := e.used.Load(); n < mostUsed {
		e.used.Store(n + 1)
	}
}

// index finds entries by container. Readers take no lock; changes are under Cache.mu.
type index struct {
	chains []atomic.Pointer[entry] // first of each chain; a power of two
	shift  uint
}

// newIndex makes an index with a chain or more for each of size entries.
func newIndex(size int) index {
	log := bits.Len(uint(size - 1))
	return index{chains: make([]atomic.Pointer[entry], 1<<log), shift: 64 - uint(log)}
}

// chain spreads ids that follow each other over all chains. Go shifts by 64 to zero.
func (x *index) chain(id uint64) *atomic.Pointer[entry] {
	return &x.chains[id*0x9e3779b97f4a7c15>>x.shift]
}

// find returns the entry of a container, nil if there is none.
func (x *index) find(id uint64) *entry { return x.chain(id).Load().find(id) }

// find looks from e on.
func (e *entry) find(id uint64) *entry {
	for e != nil && e.placement.Container != id {
		e = e.next.Load()
	}
	return e
}

// stage is how many look-ups run side by side: more than a core has in flight, and few
// enough that what they fetched is still in its nearest cache.
const stage = 32

// fetch reads the first entries of the chains of at most stage containers. A look-up is
// two waits for memory, one after the other; so the waits of different containers
// overlap. Atomic reads are made though nobody wants what they bring.
func (x *index) fetch(ids []uint64, firsts *[stage]*entry) {
	for i, id := range ids {
		firsts[i] = x.chain(id).Load()
	}
	for i := range ids {
		if e := firsts[i]; e != nil {
			e.used.Load()
		}
	}
}

// insert adds the entry of a container that has none.
func (x *index) insert(e *entry) {
	first := x.chain(e.placement.Container)
	e.next.Store(first.Load())
	first.Store(e)
}

// replace puts e in the place of old, of the same container.
func (x *index) replace(old, e *entry) {
	e.next.Store(old.next.Load())
	x.link(old).Store(e)
}

// remove takes e out. Its own link stays, for readers that stand on it.
func (x *index) remove(e *entry) { x.link(e).Store(e.next.Load()) }

// link returns what points to e, which is in the index.
func (x *index) link(e *entry) *atomic.Pointer[entry] {
	p := x.chain(e.placement.Container)
	for p.Load() != e {
		p = &p.Load().next
	}
	return p
}

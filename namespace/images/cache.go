package images

import (
	"math/bits"
	"sync"
)

const (
	minBudget = 4 << 10
	maxBudget = 64 << 30 // the slabs of which a location can number
	maxItem   = 1 << 30

	minSlab = 1 << 10
	maxSlab = 256 << 10 // whose offsets a location can hold

	tablePerBytes = 64 << 10 // one table of the index per so many bytes of budget,
	maxTables     = 1 << 10  // so that replacing one takes microseconds
)

// Options of a cache. The zero value keeps nothing.
type Options struct {
	// Bytes bounds all memory of the cache: items, index and the rest. A budget too
	// small to hold anything (under 4 KiB, or negative) keeps nothing; more than
	// 64 GiB counts as 64 GiB.
	Bytes int64
}

// Cache keeps items under keys. Everything on it is safe for concurrent use.
type Cache struct {
	// Set by New. Readers use these without a lock.
	budget  int64 // 0: keeps nothing
	largest int   // size of an item
	index   index
	slabs   slabs

	_ [64]byte // what follows is written often: not in a cache line of the above

	mu        sync.Mutex // guards all below but lookups, and all changes to index and slabs
	fixed     int64      // bytes of what New made
	probation queue
	main      queue
	victim    *slab // being swept: in neither queue; nil: none
	hand      int   // offset in victim of the next item to look at
	ghost     ghost
	count     counters

	lookups lookups
}

// New makes an empty cache.
func New(o Options) *Cache {
	c := &Cache{}
	if o.Bytes < minBudget {
		return c
	}
	c.budget = min(o.Bytes, maxBudget)
	c.largest = int(min(c.budget/4, maxItem))
	c.index = newIndex(floorPow2(min(c.budget/tablePerBytes, maxTables)))
	c.slabs = newSlabs(c.budget)
	c.ghost = newGhost(c.budget)
	c.fixed = c.index.fixed() + c.slabs.fixed() + c.ghost.fixed()
	return c
}

func floorPow2(n int64) int { return 1 << (bits.Len64(uint64(max(n, 1))) - 1) }

// Get returns the item under key if it is there and was current at txid or before:
// since <= txid. The item is valid for ever and must not be changed. Get takes no
// lock and allocates nothing.
func (c *Cache) Get(key, txid uint64) (item []byte, since uint64, ok bool) {
	if c.budget == 0 {
		return nil, 0, false
	}
	h := hash(key)
	for range 3 { // again only if the item moved between two steps
		e, w := c.index.live(h, key)
		if e == nil {
			break
		}
		if s := c.slabs.at(w); s != nil {
			return s.open(place{e, w}, key, txid)
		}
	}
	return nil, 0, false
}

// open gives a reader at txid the item that s has at p, and notes that it was read.
func (s *slab) open(p place, key, txid uint64) (item []byte, since uint64, ok bool) {
	found, since, item := s.item(p.w.offset())
	// The rules of the package make sure of the key. It is compared all the same, since
	// it costs nothing: a foreign item might show what may not be seen.
	if found != key || since > txid {
		return nil, 0, false
	}
	if p.w&referenced == 0 {
		p.e.loc.CompareAndSwap(uint64(p.w), uint64(p.w|referenced)) // fails if it moves, which is fine
	}
	return item, since, true
}

// Put keeps a copy of item under key. It replaces what is there, unless that has a
// greater since: then Put does nothing. An item over a quarter of the budget (or 1 GiB)
// is not kept, and neither is what it would have replaced.
func (c *Cache) Put(key, since uint64, item []byte) {
	if c.budget == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := hash(key)
	wanted, newer := c.replaced(h, key, since)
	if newer || itemSize(len(item)) > c.largest {
		c.count.refused++
		return
	}
	to := &c.probation
	if c.ghost.take(h, key) {
		to = &c.main
	}
	w, ok := c.append(to, key, since, item)
	if !ok {
		c.count.refused++
		return
	}
	if wanted {
		w |= referenced
	}
	c.index.insert(h, key).loc.Store(uint64(w))
	c.count.puts++
	c.trim(itemSize(len(item)))
}

// replaced makes place for an item as of since. Newer: there is one that must stay.
// Else what there is goes, and wanted says that it had been read, or had proved its
// worth before: its successor starts in probation, where what changes often leaves
// the least waste, but as one that was read.
func (c *Cache) replaced(h, key, since uint64) (wanted, newer bool) {
	e, w := c.index.live(h, key)
	if e == nil {
		return false, false
	}
	s := c.slabs.at(w)
	if _, present, _ := s.item(w.offset()); present > since {
		return false, true
	}
	wanted = w&referenced != 0 || s.queue == &c.main
	c.kill(h, e)
	return wanted, false
}

// Drop removes the item under key, if any: no Get that begins after Drop returned
// sees it.
func (c *Cache) Drop(key uint64) {
	if c.budget == 0 {
		return
	}
	h := hash(key)
	if e, _ := c.index.live(h, key); e == nil {
		return // the usual case of a writer: no lock for what is not here
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, _ := c.index.live(h, key); e != nil {
		c.kill(h, e)
		c.count.drops++
	}
}

// Evict drops every item whose key pick chooses, as if the budget had run out, and
// returns their number. Tests of the cache's users choose at random, so that whatever
// can be missing is missing at some time.
func (c *Cache) Evict(pick func(key uint64) bool) int {
	n := 0
	for i := range c.index.tables {
		for _, key := range c.index.tables[i].Load().keys(pick) {
			n += c.evictKey(key)
		}
	}
	return n
}

func (c *Cache) evictKey(key uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := hash(key)
	e, w := c.index.live(h, key)
	if e == nil {
		return 0
	}
	c.evict(h, key, e, w)
	return 1
}

// bytes is all memory that the cache refers to. mu is held.
func (c *Cache) bytes() int64 { return c.fixed + c.index.bytes + c.slabs.bytes }

// kill takes an item out of the index and its slab's account. mu is held.
func (c *Cache) kill(h uint64, e *slot) {
	w := location(e.loc.Swap(uint64(dead)))
	c.index.died(h) // e is no more of the index after this
	s := c.slabs.at(w)
	c.left(s, s.sizeAt(w.offset()))
}

// left accounts for an item that is no longer in s, and frees s if it was the last,
// unless more will be put there. mu is held.
func (c *Cache) left(s *slab, size int) {
	s.live -= size
	c.count.items--
	c.count.live -= int64(size)
	if s.live == 0 && s != s.queue.open {
		c.free(s)
	}
}

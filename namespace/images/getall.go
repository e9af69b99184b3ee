package images

// Item is what GetAll found under a key: Bytes is nil if nothing, else as Get gives it.
type Item struct {
	Bytes []byte
	Since uint64
}

// stage is how many look-ups run side by side: more than a core has in flight, and few
// enough that what they fetched is still in its nearest cache.
const stage = 64

// place is where a key's item was when it was looked for; e is nil if nowhere.
type place struct {
	e *slot
	w location
}

// GetAll is Get for many keys: items[i] becomes what is under keys[i], for as many as
// there are keys. A look-up among many items is two waits for memory, one after the
// other; GetAll lets the waits of different keys overlap. For keys in the order in
// which they were put Get is as fast.
func (c *Cache) GetAll(keys []uint64, txid uint64, items []Item) {
	items = items[:len(keys)]
	if c.budget == 0 {
		clear(items)
		return
	}
	var places [stage]place
	for len(keys) > 0 {
		n := min(stage, len(keys))
		c.fetch(keys[:n], &places)
		for i, key := range keys[:n] {
			items[i] = c.fetched(places[i], key, txid)
		}
		keys, items = keys[n:], items[n:]
	}
}

// fetch finds the places of at most stage keys, and reads what the next step needs of
// each before it takes that step with any. The sum makes the reads happen.
//
//go:noinline
func (c *Cache) fetch(keys []uint64, places *[stage]place) (sum uint64) {
	var h uint64
	var t *table
	for i, key := range keys {
		if i == 0 || key>>groupBits != keys[i-1]>>groupBits {
			h = hash(key)
			t = c.index.table(h)
		}
		e := &t.slots[home(h, key)&uint64(len(t.slots)-1)]
		places[i].e = e
		sum += e.loc.Load()
	}
	for i, key := range keys {
		p := &places[i]
		p.w = location(p.e.loc.Load())
		if p.w == 0 || p.e.key.Load() != key {
			p.e, p.w = c.index.live(hash(key), key)
		}
		if !p.w.live() {
			continue
		}
		if s := c.slabs.at(p.w); s != nil {
			// Not more than the item's head: what follows the item may be being written.
			sum += uint64(s.buf[p.w.offset()])
		}
	}
	return sum
}

func (c *Cache) fetched(p place, key, txid uint64) Item {
	var item Item
	if !p.w.live() {
		return item
	}
	if s := c.slabs.at(p.w); s != nil {
		item.Bytes, item.Since, _ = s.open(p, key, txid)
	} else { // it moved meanwhile
		item.Bytes, item.Since, _ = c.Get(key, txid)
	}
	return item
}

package images

import (
	"testing"
)

// checkAccounts recounts all that the cache believes of itself.
func checkAccounts(t testing.TB, c *Cache) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	listed, inQueues := map[*slab]bool{}, 0
	var slabs int64
	for i := range c.slabs.list {
		if s := c.slabs.list[i].Load(); s != nil {
			listed[s] = true
			slabs += slabBytes + int64(len(s.buf))
		}
	}
	if slabs != c.slabs.bytes || len(listed)+len(c.slabs.unused) != len(c.slabs.list) {
		t.Fatalf("%d slabs of %d bytes and %d unused numbers of %d; counted %d bytes",
			len(listed), slabs, len(c.slabs.unused), len(c.slabs.list), c.slabs.bytes)
	}
	for _, q := range []*queue{&c.probation, &c.main} {
		var n int64
		for s := q.head; s != nil; s = s.next {
			inQueues++
			n += int64(len(s.buf))
			if s.queue != q || !listed[s] || s.live == 0 && s != q.open {
				t.Fatalf("a slab of a queue: in this %v, listed %v, live %d", s.queue == q, listed[s], s.live)
			}
		}
		if n != q.bytes {
			t.Fatalf("a queue of %d bytes is counted as %d", n, q.bytes)
		}
	}
	if c.victim != nil {
		inQueues++
	}
	if inQueues != len(listed) {
		t.Fatalf("%d slabs in queues, %d listed", inQueues, len(listed))
	}
	checkIndex(t, c, listed)
}

func checkIndex(t testing.TB, c *Cache, listed map[*slab]bool) {
	t.Helper()
	live := map[*slab]int{}
	var items, tables int64
	for i := range c.index.tables {
		tab := c.index.tables[i].Load()
		tables += tableBytes + int64(len(tab.slots))*slotBytes
		used, alive := 0, 0
		for j := range tab.slots {
			w := location(tab.slots[j].loc.Load())
			if w != 0 {
				used++
			}
			if !w.live() {
				continue
			}
			alive++
			s := c.slabs.at(w)
			if s == nil || !listed[s] {
				t.Fatalf("location %#x of key %d leads nowhere", w, tab.slots[j].key.Load())
			}
			live[s] += s.sizeAt(w.offset())
		}
		if used != tab.used || alive != tab.alive || used > len(tab.slots)*3/4 {
			t.Fatalf("table %d of %d slots: used %d, alive %d; counted %d, %d", i, len(tab.slots), used, alive, tab.used, tab.alive)
		}
		items += int64(alive)
	}
	if items != c.count.items || tables != c.index.bytes {
		t.Fatalf("%d items, %d bytes of tables; counted %d, %d", items, tables, c.count.items, c.index.bytes)
	}
	var all int64
	for s := range listed {
		all += int64(s.live)
		if live[s] != s.live {
			t.Fatalf("slab %d: %d bytes live, counted %d", s.number, live[s], s.live)
		}
	}
	if all != c.count.live {
		t.Fatalf("%d bytes live, counted %d", all, c.count.live)
	}
}

package images

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
)

func TestOneScanDoesNotRuinTheHotSet(t *testing.T) {
	long(t)
	for _, budget := range []int64{64 << 10, 1 << 20, 8 << 20} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			const length = 100
			c := New(Options{Bytes: budget})
			each := int64(itemSize(length)) + 3*slotBytes // with its share of a table, at worst
			hot := uint64(budget / 2 / each)
			for key := range hot {
				c.Put(key, 1, content(key, 1, length))
				c.Get(key, newest)
			}
			hits, lookups := 0, 0
			next := uint64(0)
			for i := range uint64(20 * budget / int64(itemSize(length))) {
				c.Put(1<<40+i, 1, content(0, 1, length))
				// The hot ones are read about as often as the scanned, one after the other.
				key := next % hot
				next++
				lookups++
				if _, _, ok := c.Get(key, newest); ok {
					hits++
				} else {
					c.Put(key, 1, content(key, 1, length))
				}
			}
			if rate := float64(hits) / float64(lookups); rate < .99 {
				t.Errorf("hit rate of the hot set during a scan: %.3f", rate)
			}
			t.Logf("hits %d of %d; %+v", hits, lookups, c.Stats())
		})
	}
}

func TestEvictedButWantedItemsEnterTheMainQueue(t *testing.T) {
	c := New(Options{Bytes: 256 << 10})
	const length = 100
	for key := range uint64(3000) { // evicts the first of them, unread
		c.Put(key, 1, content(key, 1, length))
	}
	var back uint64
	for key := range uint64(3000) {
		if e, _ := c.index.live(hash(key), key); e == nil { // a Get would count as a use
			back = key // the last that was evicted, and not yet forgotten
		}
	}
	c.Put(back, 1, content(back, 1, length))
	if _, w := c.index.live(hash(back), back); c.slabs.at(w).queue != &c.main {
		t.Error("an item that came back soon must prove itself again")
	}
	for key := range uint64(20_000) {
		c.Put(1<<40+key, 1, content(key, 1, length))
	}
	if _, _, ok := c.Get(back, newest); !ok {
		t.Error("a scan evicted an item of the main queue")
	}
}

// TestSiblingsStaySideBySide: items that were put one after the other are so still
// when they have moved to the main queue, and round it.
func TestSiblingsStaySideBySide(t *testing.T) {
	const siblings, length = 500, 40
	c := New(Options{Bytes: 256 << 10})
	for key := range uint64(siblings) {
		c.Put(key, 1, content(key, 1, length))
	}
	for i := range uint64(30_000) {
		for key := range uint64(siblings) {
			if i%50 == 0 {
				c.Get(key, newest)
			}
		}
		c.Put(1<<40+i, 1, content(i, 1, length))
	}
	if s := c.Stats(); s.Promotions < siblings {
		t.Fatalf("the siblings did not move: %+v", s)
	}
	beside, last := 0, location(0)
	for key := range uint64(siblings) {
		_, w := c.index.live(hash(key), key)
		if w == 0 {
			t.Fatalf("sibling %d was evicted", key)
		}
		if w.slab() == last.slab() && w.offset() == last.offset()+itemSize(length) {
			beside++
		}
		last = w
	}
	if beside < siblings*9/10 {
		t.Errorf("only %d of %d siblings lie behind their elder", beside, siblings)
	}
}

// TestRegularKeysAreFoundInFewTries: ids come in runs, with gaps, and with bits that
// tell kinds apart.
func TestRegularKeysAreFoundInFewTries(t *testing.T) {
	long(t)
	for _, step := range []uint64{1, 2, 3, 16, 63, 64, 65, 1000, 1 << 20, 1 << 32, 1<<62 + 1} {
		c := New(Options{Bytes: 64 << 20})
		const keys = 100_000
		for i := range uint64(keys) {
			c.Put(i*step, 1, nil)
		}
		tries := 0
		for i := range uint64(keys) {
			key := i * step
			h := hash(key)
			slots := c.index.table(h).slots
			tries++
			for j := home(h, key); slots[j&uint64(len(slots)-1)].key.Load() != key; j += stride {
				tries++
			}
		}
		if mean := float64(tries) / keys; mean > 3 {
			t.Errorf("keys %d apart: %.1f tries", step, mean)
		}
	}
}

func TestMillionItemsAreFewObjectsAndLittleMemory(t *testing.T) {
	long(t)
	const items, length = 1_000_000, 150
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := New(Options{Bytes: 512 << 20})
	item := content(1, 1, length)
	for key := range uint64(items) {
		binary.LittleEndian.PutUint64(item, key)
		c.Put(key, 1, item)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	s := c.Stats()
	if s.Items != items {
		t.Fatalf("%+v", s)
	}
	if objects := after.HeapObjects - before.HeapObjects; objects > 10_000 {
		t.Errorf("%d objects for %d items", objects, items)
	}
	real := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%.1f bytes an item as counted, %.1f on the heap; %d are its own", float64(s.Bytes)/items, float64(real)/items, length)
	if s.Bytes/items > length+80 || real > s.Bytes*11/10 {
		t.Errorf("%d bytes of memory, %d counted", real, s.Bytes)
	}
	runtime.KeepAlive(c)
}

func TestReplacedItemKeepsItsStanding(t *testing.T) {
	c := New(Options{Bytes: 256 << 10})
	scan := uint64(1 << 40)
	pass := func() {
		for range 5000 {
			scan++
			c.Put(scan, 1, content(scan, 1, 100))
		}
	}
	for since := range uint64(5) {
		c.Put(7, since, content(7, since, 100))
		if since == 0 {
			c.Get(7, newest) // once: its successors come into its estate
		}
		pass()
		if _, got, ok := c.Get(7, since); !ok || got != since {
			t.Fatalf("the successor of %d is gone", since)
		}
	}
}

// TestWhatChangesLeavesNoWaste: a slab in which nothing is alive is given back at once,
// and so is an index for items that are no more.
func TestWhatChangesLeavesNoWaste(t *testing.T) {
	c := New(Options{Bytes: 64 << 20})
	empty := c.Stats().Bytes
	bound := empty + 3*int64(c.slabs.size)
	for i := range uint64(100_000) {
		key := i % 10
		c.Put(key, i, content(key, i, 1000))
		if i < 50_000 || i%3 == 0 {
			c.Drop(key)
		}
		if s := c.Stats(); s.Bytes > bound {
			t.Fatalf("after %d puts under ten keys: %+v", i, s)
		}
	}
	for key := range uint64(200_000) {
		c.Put(key, 1<<40, nil)
	}
	for key := range uint64(200_000) {
		c.Drop(key)
	}
	if s := c.Stats(); s.Bytes > bound {
		t.Errorf("after all were dropped: %+v, and %d at first", s, empty)
	}
	checkAccounts(t, c)
}

// long leaves out, of short runs, what has many keys and one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many keys and one goroutine")
	}
}

package images

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// newest is a txid that sees every item.
const newest = 1<<64 - 1

// content makes bytes that prove their key, their since and their own completeness.
func content(key, since uint64, length int) []byte {
	b := make([]byte, length)
	x := key*0x9e3779b97f4a7c15 ^ since
	for i := range b {
		b[i] = byte(x >> (i % 8 * 8) * uint64(i|1))
	}
	return b
}

func lengthOf(key, since uint64, most int) int { return int(hash(key<<groupBits^since) % uint64(most)) }

func source(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestOlderItemIsNotPutOverNewer(t *testing.T) {
	c := New(Options{Bytes: 1 << 20})
	c.Put(7, 5, []byte("five"))
	c.Put(7, 4, []byte("four"))
	if item, since, ok := c.Get(7, 5); !ok || since != 5 || string(item) != "five" {
		t.Errorf("got %q of %d, %v", item, since, ok)
	}
	if _, _, ok := c.Get(7, 4); ok {
		t.Error("an item of 5 was given to a reader at 4")
	}
	c.Put(7, 5, []byte("FIVE"))
	if item, _, _ := c.Get(7, newest); string(item) != "FIVE" {
		t.Errorf("an item as new as the present one did not replace it: %q", item)
	}
	if s := c.Stats(); s.Items != 1 || s.Refused != 1 || s.Puts != 2 {
		t.Errorf("%+v", s)
	}
}

func TestTooLargeItemTakesItsPredecessorAlong(t *testing.T) {
	c := New(Options{Bytes: 64 << 10})
	c.Put(1, 1, []byte("small"))
	c.Put(1, 2, make([]byte, 17<<10))
	if item, since, ok := c.Get(1, newest); ok {
		t.Errorf("%q of %d is still there", item, since)
	}
	c.Put(2, 2, make([]byte, 15<<10))
	if item, _, ok := c.Get(2, newest); !ok || len(item) != 15<<10 {
		t.Errorf("an item within bounds was not kept: %d bytes, %v", len(item), ok)
	}
}

func TestHopelessBudgetKeepsNothing(t *testing.T) {
	for _, budget := range []int64{-1, 0, 1, minBudget - 1} {
		c := New(Options{Bytes: budget})
		c.Put(1, 1, []byte("x"))
		if _, _, ok := c.Get(1, newest); ok {
			t.Errorf("%d bytes: something is kept", budget)
		}
		c.Drop(1)
		items := []Item{{[]byte("from before"), 1}}
		if c.GetAll([]uint64{1}, newest, items); items[0].Bytes != nil {
			t.Errorf("%d bytes: GetAll leaves what was there", budget)
		}
		if n := c.Evict(func(uint64) bool { return true }); n != 0 {
			t.Errorf("%d bytes: %d items evicted", budget, n)
		}
		if s := c.Stats(); s.Bytes != 0 || s.Budget != 0 {
			t.Errorf("%d bytes: %+v", budget, s)
		}
		if n := testing.AllocsPerRun(100, func() { c.Put(2, 2, []byte("y")) }); n != 0 {
			t.Errorf("%d bytes: a Put allocates %v times", budget, n)
		}
	}
}

func TestDroppedItemIsGoneForGood(t *testing.T) {
	r := source(t)
	c := New(Options{Bytes: 256 << 10})
	for range 20_000 {
		key := r.Uint64N(3000)
		c.Put(key, 1, content(key, 1, 60))
		for range r.IntN(3) {
			c.Get(r.Uint64N(3000), newest)
		}
		if gone := r.Uint64N(3000); gone%2 == 0 {
			c.Drop(gone)
			if _, _, ok := c.Get(gone, newest); ok {
				t.Fatalf("key %d is there after it was dropped", gone)
			}
		}
	}
	for key := range uint64(3000) {
		c.Drop(key)
	}
	if s := c.Stats(); s.Items != 0 || s.Live != 0 || s.Drops == 0 {
		t.Errorf("after all were dropped: %+v", s)
	}
	checkAccounts(t, c)
}

// TestHeldItemsStayAsTheyAre: what a reader got is not touched when it is moved,
// replaced, dropped or evicted.
func TestHeldItemsStayAsTheyAre(t *testing.T) {
	c := New(Options{Bytes: 32 << 10})
	held := map[uint64][]byte{}
	for key := range uint64(5000) {
		c.Put(key, key, content(key, key, 50))
		if item, _, ok := c.Get(key, newest); ok {
			held[key] = item
		}
		c.Drop(key - key%3)
	}
	for key, item := range held {
		if !bytes.Equal(item, content(key, key, 50)) {
			t.Fatalf("the held item %d has changed", key)
		}
		if cap(item) != len(item) {
			t.Fatalf("appending to item %d would write into its neighbour", key)
		}
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	c := New(Options{Bytes: 1 << 20})
	keys, items := make([]uint64, 1000), make([]Item, 1000)
	for key := range uint64(1000) {
		c.Put(key, 1, content(key, 1, 100))
		keys[key] = key
	}
	if n := testing.AllocsPerRun(1000, func() {
		c.Get(500, newest)
		c.Get(5000, newest)
		c.GetAll(keys, newest, items)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

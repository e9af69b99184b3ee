package images

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadersSeeWholeAndCurrentItems: while items are put, dropped and evicted all the
// time, each Get gives an item that proves its key and its since, and no Get that
// begins after a Drop returned gives an item from before it.
func TestReadersSeeWholeAndCurrentItems(t *testing.T) {
	const keys, calls, length = 600, 30_000, 150
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := New(Options{Bytes: 48 << 10}) // a third of the keys: items come, move and go
	var (
		state [keys]struct {
			sync.Mutex               // writers of a key exclude each other, as users do
			version    uint64        // of the newest item
			floor      atomic.Uint64 // no older one may be seen
		}
		work sync.WaitGroup
		hits atomic.Uint64
	)
	write := func(r *rand.Rand) {
		for i := range calls {
			key := r.Uint64N(keys)
			s := &state[key]
			s.Lock()
			switch r.IntN(4) {
			case 0:
				s.version++
				c.Drop(key)
				s.floor.Store(s.version)
			case 1: // newer without a Drop
				s.version++
			}
			c.Put(key, s.version, content(key, s.version, lengthOf(key, s.version, length)))
			s.Unlock()
			if i%2000 == 0 {
				some := r.Uint64N(16)
				c.Evict(func(key uint64) bool { return key%16 == some })
			}
		}
	}
	check := func(key, floor uint64, item Item) {
		hits.Add(1)
		if item.Since < floor || !bytes.Equal(item.Bytes, content(key, item.Since, lengthOf(key, item.Since, length))) {
			t.Errorf("key %d of %d, dropped at %d: %x", key, item.Since, floor, item.Bytes)
		}
	}
	read := func(r *rand.Rand) {
		for range calls {
			key := r.Uint64N(keys)
			floor := state[key].floor.Load()
			if item, since, ok := c.Get(key, newest); ok {
				check(key, floor, Item{item, since})
			}
		}
	}
	readAll := func(r *rand.Rand) {
		batch, floors, items := make([]uint64, 20), make([]uint64, 20), make([]Item, 20)
		for range calls / len(batch) {
			for i := range batch {
				batch[i] = r.Uint64N(keys)
				floors[i] = state[batch[i]].floor.Load()
			}
			c.GetAll(batch, newest, items)
			for i, item := range items {
				if item.Bytes != nil {
					check(batch[i], floors[i], item)
				}
			}
		}
	}
	for i := range uint64(2) {
		work.Go(func() { write(rand.New(rand.NewPCG(seed, i))) })
		work.Go(func() { read(rand.New(rand.NewPCG(seed, 10+i))) })
		work.Go(func() { readAll(rand.New(rand.NewPCG(seed, 20+i))) })
	}
	work.Wait()
	checkAccounts(t, c)
	if s := c.Stats(); hits.Load() == 0 || s.Evictions == 0 || s.Promotions == 0 || s.Drops == 0 || s.Bytes > s.Budget {
		t.Errorf("the run did not get everywhere: %d hits, %+v", hits.Load(), s)
	}
}

// TestReaderOfAnOldTableFindsNothingWrong: a reader may stop between any two steps,
// here with a table in hand that has been replaced since.
func TestReaderOfAnOldTableFindsNothingWrong(t *testing.T) {
	c := New(Options{Bytes: 64 << 10})
	c.Put(1, 1, content(1, 1, 100))
	old := c.index.table(hash(1))
	e := old.find(hash(1), 1)
	for i := range uint64(100_000) {
		c.Put(2+i, 1, content(2+i, 1, 100))
		if w := location(e.loc.Load()); w.live() {
			s := c.slabs.at(w)
			if s == nil {
				continue // recognised as gone
			}
			if key, _, item := s.item(w.offset()); key != 1 || !bytes.Equal(item, content(1, 1, 100)) {
				t.Fatalf("after %d puts the old location leads to key %d", i, key)
			}
		}
	}
	if c.index.table(hash(1)) == old {
		t.Fatal("the table was not replaced")
	}
}

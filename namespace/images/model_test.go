package images

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestCacheIsASubsetOfAMap runs random calls on a cache and on a map that forgets
// nothing: what the cache has is what the map has, it is never over its budget, and
// with room enough it forgets nothing either.
func TestCacheIsASubsetOfAMap(t *testing.T) {
	for _, size := range []struct {
		budget int64
		keys   uint64
		length int
	}{
		{4 << 10, 50, 200},
		{16 << 10, 40, 5000},
		{64 << 10, 2000, 100},
		{256 << 10, 300, 70_000},
		{1 << 20, 20_000, 300},
		{64 << 20, 2000, 1000}, // all fits
	} {
		t.Run(fmt.Sprintf("%d bytes, %d keys, %d long", size.budget, size.keys, size.length), func(t *testing.T) {
			r := source(t)
			c := New(Options{Bytes: size.budget})
			m := modelRun{Cache: c, r: r, keys: size.keys, length: size.length, all: map[uint64]uint64{}, roomy: size.budget > 32<<20}
			for i := range 30_000 {
				m.step(t)
				if s := c.Stats(); s.Bytes > size.budget || s.Budget != size.budget {
					t.Fatalf("after %d calls: %d bytes of %d", i, s.Bytes, size.budget)
				}
				if i%3000 == 0 {
					checkAccounts(t, c)
				}
			}
			checkAccounts(t, c)
			if s := c.Stats(); !m.roomy && (s.Evictions == 0 || s.Promotions == 0 || s.Items == 0) {
				t.Errorf("the run did not get everywhere: %+v", s)
			}
			c.Evict(func(uint64) bool { return true })
			checkAccounts(t, c)
			if s := c.Stats(); s.Items != 0 || s.Live != 0 {
				t.Errorf("after everything was evicted: %+v", s)
			}
		})
	}
}

type modelRun struct {
	*Cache
	r      *rand.Rand
	keys   uint64
	length int
	all    map[uint64]uint64 // key to since
	roomy  bool
}

func (m *modelRun) step(t *testing.T) {
	key := m.r.Uint64N(m.keys)
	if m.r.IntN(4) == 0 {
		key = m.r.Uint64N(m.keys/10 + 1) // some are asked for more often
	}
	if key%3 == 0 {
		key |= 1 << 62
	}
	switch n := m.r.IntN(1000); {
	case n < 400:
		m.put(key, m.r.Uint64N(20))
	case n < 450:
		m.Drop(key)
		delete(m.all, key)
	case n < 451:
		some := m.r.Uint64N(64)
		m.Evict(func(key uint64) bool { return key%64 == some })
		if m.roomy {
			for key := range m.all {
				if key%64 == some {
					delete(m.all, key)
				}
			}
		}
	case n < 500:
		m.getAll(t, m.r.Uint64N(20))
	default:
		m.get(t, key, m.r.Uint64N(20))
	}
}

// getAll gives for each key what Get does.
func (m *modelRun) getAll(t *testing.T, txid uint64) {
	keys := make([]uint64, m.r.IntN(3*stage))
	for i := range keys {
		keys[i] = m.r.Uint64N(m.keys + 10)
	}
	items := make([]Item, len(keys)+1)
	for i := range items {
		items[i] = Item{[]byte("from before"), 77}
	}
	m.GetAll(keys, txid, items)
	for i, key := range keys {
		item, since, _ := m.Get(key, txid)
		if since != items[i].Since || !bytes.Equal(item, items[i].Bytes) || (item == nil) != (items[i].Bytes == nil) {
			t.Fatalf("key %d at %d: GetAll gives %d bytes of %d, Get %d of %d",
				key, txid, len(items[i].Bytes), items[i].Since, len(item), since)
		}
	}
	if items[len(keys)].Since != 77 {
		t.Fatal("GetAll wrote behind the last of its keys")
	}
}

func (m *modelRun) put(key, since uint64) {
	// An older item is ignored if the newer is there; if that was evicted, the cache
	// cannot know, and its callers do not do it.
	if was, ok := m.all[key]; ok && was > since {
		if _, _, there := m.Get(key, newest); !there {
			return
		}
	} else {
		m.all[key] = since
	}
	m.Put(key, since, content(key, since, lengthOf(key, since, m.length)))
}

func (m *modelRun) get(t *testing.T, key, txid uint64) {
	t.Helper()
	item, since, ok := m.Get(key, txid)
	want, has := m.all[key]
	if !ok {
		if m.roomy && has && want <= txid {
			t.Fatalf("key %d of %d is gone", key, want)
		}
		return
	}
	if !has || since != want || since > txid {
		t.Fatalf("key %d at %d: got the one of %d; there is %v, of %d", key, txid, since, has, want)
	}
	if !bytes.Equal(item, content(key, since, lengthOf(key, since, m.length))) {
		t.Fatalf("key %d of %d: wrong bytes", key, since)
	}
}

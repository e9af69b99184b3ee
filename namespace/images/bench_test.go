package images

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

const benchItems, benchLength = 1_000_000, 150

var million = sync.OnceValue(func() *Cache {
	c := New(Options{Bytes: 512 << 20})
	item := make([]byte, benchLength)
	for key := range uint64(benchItems) {
		c.Put(key, 1, item)
	}
	return c
})

func benchKeys(order string) []uint64 {
	keys := make([]uint64, benchItems)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if order == "random" {
		r := rand.New(rand.NewPCG(1, 1))
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	return keys
}

var sink uint64

// BenchmarkGet is a hit among a million items.
func BenchmarkGet(b *testing.B) {
	for _, order := range []string{"sequential", "random"} {
		b.Run("order="+order, func(b *testing.B) {
			c, keys := million(), benchKeys(order)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				item, since, ok := c.Get(keys[i%benchItems], newest)
				if !ok {
					b.Fatal("a miss")
				}
				sink += since + uint64(len(item))
			}
		})
	}
}

func BenchmarkGetMiss(b *testing.B) {
	c, keys := million(), benchKeys("random")
	for i := 0; b.Loop(); i++ {
		if _, _, ok := c.Get(keys[i%benchItems]|1<<62, newest); ok {
			b.Fatal("a hit")
		}
	}
}

// BenchmarkPut is a new item in a full cache, which evicts as many; none of them read,
// or all.
func BenchmarkPut(b *testing.B) {
	for _, read := range []bool{false, true} {
		b.Run(fmt.Sprintf("read=%v", read), func(b *testing.B) {
			c := New(Options{Bytes: 64 << 20})
			item := make([]byte, benchLength)
			key := uint64(0)
			put := func() {
				c.Put(key, 1, item)
				if read {
					c.Get(key, newest)
				}
				key++
			}
			for range benchItems {
				put()
			}
			b.ReportAllocs()
			for b.Loop() {
				put()
			}
		})
	}
}

// BenchmarkDrop is a writer's: of something that is not there.
func BenchmarkDrop(b *testing.B) {
	c, keys := million(), benchKeys("random")
	for i := 0; b.Loop(); i++ {
		c.Drop(keys[i%benchItems] | 1<<62)
	}
}

// BenchmarkGetAll is BenchmarkGet by the page; the figures are per item.
func BenchmarkGetAll(b *testing.B) {
	for _, order := range []string{"sequential", "random"} {
		b.Run("order="+order, func(b *testing.B) {
			c, keys := million(), benchKeys(order)
			items := make([]Item, stage)
			b.ReportAllocs()
			for i, n := 0, 0; b.Loop(); n++ {
				if n%stage != 0 {
					continue
				}
				if i += stage; i+stage > benchItems {
					i = 0
				}
				c.GetAll(keys[i:i+stage], newest, items)
				for j := range items {
					sink += uint64(len(items[j].Bytes))
				}
			}
		})
	}
}

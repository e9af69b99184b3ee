package locations_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/muster-fs/muster/locations"
)

// BenchmarkGet is an answer from memory: of one container, or of those of a page, in
// random order; among the default number and a million.
func BenchmarkGet(b *testing.B) {
	for _, kept := range []int{100_000, 1_000_000} {
		c := fill(b, kept)
		ids := numbers(0, uint64(kept))
		rand.New(rand.NewPCG(1, 1)).Shuffle(kept, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, n := range []int{1, 4096} {
			b.Run(fmt.Sprintf("kept=%d/ids=%d", kept, n), func(b *testing.B) {
				b.ReportAllocs()
				g := getter{c: c, ids: ids, out: make([]Located, n)}
				for b.Loop() {
					g.get(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/id")
			})
			b.Run(fmt.Sprintf("kept=%d/ids=%d/parallel", kept, n), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					g := getter{c: c, ids: ids, out: make([]Located, n), at: rand.IntN(kept)}
					for pb.Next() {
						g.get(b)
					}
				})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/id")
			})
		}
	}
}

// getter goes round ids.
type getter struct {
	c   *Cache
	ids []uint64
	out []Located
	at  int
}

func (g *getter) get(b *testing.B) {
	if g.at+len(g.out) > len(g.ids) {
		g.at = 0
	}
	if err := g.c.Get(context.Background(), g.ids[g.at:g.at+len(g.out)], g.out); err != nil || g.out[0].Err != nil {
		b.Fatal(err, g.out[0].Err)
	}
	g.at += len(g.out)
}

// BenchmarkGetOne is the hit that all readers of one file share.
func BenchmarkGetOne(b *testing.B) {
	c := fill(b, 1000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var out [1]Located
		ids := [1]uint64{500}
		for pb.Next() {
			if err := c.Get(context.Background(), ids[:], out[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMiss loads what is not there into a full cache; the service takes no time.
func BenchmarkMiss(b *testing.B) {
	for _, n := range []int{1, 1000, MaxBatch} {
		b.Run(fmt.Sprintf("ids=%d", n), func(b *testing.B) {
			c, out := fill(b, 100_000), make([]Located, n)
			b.ReportAllocs()
			first := uint64(100_000)
			for b.Loop() {
				if err := c.Get(context.Background(), numbers(first, uint64(n)), out); err != nil {
					b.Fatal(err)
				}
				first += uint64(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/id")
		})
	}
}

// BenchmarkRefreshKnown is the second reader's of a dead node: the new value is there.
func BenchmarkRefreshKnown(b *testing.B) {
	c := fill(b, 1000)
	stale, out := []Stale{{Container: 5}}, make([]Located, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Refresh(context.Background(), stale, out); err != nil {
			b.Fatal(err)
		}
	}
}

package server

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/muster-fs/muster"
)

// BenchmarkDescribe is what a located answer takes beside the wire: reading the file, asking
// the cache for what it has, and describing it, sorted.
func BenchmarkDescribe(b *testing.B) {
	l := startLocated(b)
	for _, c := range []struct{ blocks, containers int }{{1, 1}, {12, 4}, {12, 12}, {10_000, 100}, {10_000, 10_000}} {
		path := fmt.Sprintf("/f-%d-%d", c.blocks, c.containers)
		in := make([]uint64, c.blocks)
		for i := range in {
			in[i] = uint64(1 + i%c.containers)
		}
		l.replicated(in...)
		l.file(path, in...)
		root := muster.Identity{User: "root"}
		b.Run(fmt.Sprintf("blocks=%d/containers=%d", c.blocks, c.containers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := readFile(l.tree, &root, wanted{path: []byte(path), to: math.MaxInt64})
				if err != nil {
					b.Fatal(err)
				}
				places, err := asking(l.cache.Get).places(context.Background(), f)
				if err != nil {
					b.Fatal(err)
				}
				l.describe(context.Background(), f, places, order{true, "/r1"}, nil)
			}
		})
	}
}

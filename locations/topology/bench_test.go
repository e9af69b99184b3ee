package topology

import (
	"fmt"
	"testing"

	"github.com/muster-fs/muster"
)

func BenchmarkSort(b *testing.B) {
	tree := mustNew(b, Schema{}, cluster(32, 4), Rule{"10.9.1.0/24", "/r1"})
	var m Map
	m.Swap(tree)
	for _, client := range []struct{ name, host string }{{"datanode", "dn-5"}, {"edge", "10.9.1.7"}, {"unknown", "elsewhere"}} {
		r := m.ReaderFor(client.host)
		for _, replicas := range []int{3, 14} {
			nodes := make([]muster.NodeNumber, replicas)
			for i := range nodes {
				nodes[i] = muster.NodeNumber(i * 5 % 32)
			}
			b.Run(fmt.Sprintf("client=%s/replicas=%d", client.name, replicas), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(p *testing.PB) {
					dst, seed := make([]muster.NodeNumber, 0, 16), uint64(0)
					for p.Next() {
						seed++
						dst = r.Sort(dst[:0], nodes, seed)
					}
				})
			})
		}
	}
}

func BenchmarkReaderFor(b *testing.B) {
	var m Map
	m.Swap(mustNew(b, Schema{}, cluster(32, 4), Rule{"10.9.1.0/24", "/r1"}))
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m.ReaderFor("10.9.1.7")
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{32, 1000, 10_000} {
		nodes := cluster(n, max(4, n/40))
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(Schema{}, nodes, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

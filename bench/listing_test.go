package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/server"
)

// benchmarked are the shapes of the benchmarks.
func benchmarked() []Shape {
	all := Shapes()
	if testing.Short() {
		for i := range all {
			all[i].Partitions = min(all[i].Partitions, 300)
			all[i].Entries = min(all[i].Entries, 300)
		}
	}
	return all
}

// BenchmarkList measures every arm over a real loopback connection, server and client
// in one process: allocations are those of both. muster bench listing has them apart.
//
//	go test -run '^$' -bench List/ -benchtime 3x -count 5 ./bench
func BenchmarkList(b *testing.B) {
	c := startServer(b)
	benchmarkArms(b, Place{Name: loopback}, func(t Table) error {
		return Fill(b.Context(), c, t, nil)
	}, func(s Shape) source { return wire{client: c, columns: s.columns()} })
}

// BenchmarkListInProcess measures the listing alone, with no wire and no client: the
// setting of HDFS-13616's own figure. Frames are made, but not decoded.
func BenchmarkListInProcess(b *testing.B) {
	tree, lister := openTree(b)
	benchmarkArms(b, Place{Name: inProcess}, func(t Table) error {
		return FillTree(b.Context(), tree, admin(), t, nil)
	}, func(s Shape) source { return direct{lister: lister, caller: admin(), columns: s.columns()} })
}

func benchmarkArms(b *testing.B, place Place, fill func(Table) error, at func(Shape) source) {
	filled := map[string]bool{}
	for _, shape := range benchmarked() {
		table := shape.table(tableRoot)
		if !filled[table.Root] {
			if err := fill(table); err != nil {
				b.Fatal(err)
			}
			filled[table.Root] = true
		}
		from, paths := at(shape), slices.Collect(table.Paths())
		expected := seen(b, from, paths, iterator(1))
		for _, arm := range Arms() {
			if !shape.suits(arm) {
				continue
			}
			b.Run(fmt.Sprintf("place=%v/shape=%v/arm=%v", place, shape, arm), func(b *testing.B) {
				if got := seen(b, from, paths, arm); got != expected {
					b.Fatalf("%d rows that differ from the iterator's %d", got.rows, expected.rows)
				}
				measure(b, expected.rows, func() error {
					_, err := arm.list(b.Context(), from, paths, func(p part) { p.read() })
					return err
				})
			})
		}
	}
}

// measure runs list and reports its figures by row.
func measure(b *testing.B, rows int, list func() error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for b.Loop() {
		if err := list(); err != nil {
			b.Fatal(err)
		}
	}
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	all := float64(rows) * float64(b.N)
	b.ReportMetric(all/elapsed.Seconds(), "rows/s")
	b.ReportMetric(float64(elapsed.Microseconds())/all, "us/row")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "allocB/row")
	b.ReportMetric(0, "ns/op")
}

// seen returns what an arm sees.
func seen(tb testing.TB, from source, paths []string, a Arm) digest {
	var c census
	if _, err := a.list(tb.Context(), from, paths, c.take); err != nil || c.err != nil {
		tb.Fatal(err, c.err)
	}
	return c.digest
}

// admin is a superuser.
func admin() muster.Identity {
	return muster.Identity{User: "root", Groups: []string{muster.Supergroup}}
}

func startServer(tb testing.TB) *client.Client {
	c, _ := startServerOn(tb, tb.TempDir())
	return c
}

func startServerOn(tb testing.TB, dir string) (c *client.Client, addr string) {
	s, err := server.Start(context.Background(), server.Options{Dir: dir, Version: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	if c, err = client.Dial(context.Background(), s.Addr().String(), client.Options{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c, s.Addr().String()
}

func fill(tb testing.TB, c *client.Client, table Table) {
	if err := Fill(context.Background(), c, table, nil); err != nil {
		tb.Fatal(err)
	}
}

func openTree(tb testing.TB) (*namespace.Tree, *listing.Lister) {
	tree, err := namespace.Open(tb.TempDir(), namespace.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tree.Close() })
	lister, err := listing.New(tree, listing.Config{Key: make([]byte, 32)})
	if err != nil {
		tb.Fatal(err)
	}
	return tree, lister
}

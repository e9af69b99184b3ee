package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/server"
)

// BenchmarkCreateBatch measures durable batches of 1,000 commands, a directory and its file in
// turn; an operation is a batch. Place in-process applies them to the tree, loopback sends
// them through a client.
//
//	go test -run '^$' -bench CreateBatch -benchtime 300x ./bench
func BenchmarkCreateBatch(b *testing.B) {
	root := muster.Identity{User: "root", Groups: []string{muster.Supergroup}}
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("place=in-process/callers=%d", callers), func(b *testing.B) {
			tree, _ := openTree(b)
			applyBatches(b, callers, func(ctx context.Context, commands []muster.Command) error {
				_, err := tree.Apply(ctx, namespace.Request{Caller: root, Commands: commands})
				return err
			})
		})
		b.Run(fmt.Sprintf("place=loopback/callers=%d", callers), func(b *testing.B) {
			c := startServer(b)
			applyBatches(b, callers, func(ctx context.Context, commands []muster.Command) error {
				_, err := c.Apply(ctx, commands...)
				return err
			})
		})
	}
}

// applyBatches applies b.N batches by a number of callers.
func applyBatches(b *testing.B, callers int, apply func(context.Context, []muster.Command) error) {
	const commands = 1000
	table := Table{Root: "/t", Partitions: b.N * commands / 2, Files: 1}
	batches := slices.Collect(slices.Chunk(slices.Collect(table.Commands()), commands))
	b.ReportAllocs()
	b.ResetTimer()
	var last atomic.Int64
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for n := last.Add(1); n <= int64(len(batches)); n = last.Add(1) {
				if err := apply(context.Background(), batches[n-1]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(b.N)*commands/b.Elapsed().Seconds(), "inodes/s")
}

// BenchmarkCreate measures durable creations over loopback, each a call of its own, from
// one client and from sixteen.
//
//	go test -run '^$' -bench Create -benchtime 3s ./bench
func BenchmarkCreate(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			c := startServer(b)
			if err := c.MkdirAll(b.Context(), "/d", 0o755); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var last atomic.Int64
			var running sync.WaitGroup
			for range clients {
				running.Go(func() {
					for n := last.Add(1); n <= int64(b.N); n = last.Add(1) {
						name := fmt.Sprintf("/d/file-%09d", n)
						if _, err := c.CreateEntry(context.Background(), name, client.CreateOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			running.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}

// BenchmarkOpen measures the start of a server on a store that holds many inodes already.
//
//	go test -run '^$' -bench Open -benchtime 5x ./bench
func BenchmarkOpen(b *testing.B) {
	table := Table{Root: "/t", Partitions: 100_000, Files: 9}
	if testing.Short() {
		table.Partitions = 1000
	}
	dir := b.TempDir()
	s, err := server.Start(b.Context(), server.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	c, err := client.Dial(b.Context(), s.Addr().String(), client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, c, table)
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	if err := s.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("inodes=%d", table.Partitions*(table.Files+1)), func(b *testing.B) {
		for b.Loop() {
			s, err := server.Start(context.Background(), server.Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Shutdown(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

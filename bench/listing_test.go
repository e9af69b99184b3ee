package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/server"
)

// shapes are the tables that listings are measured on. Root tells them apart.
func shapes(tb testing.TB) []Table {
	all := []Table{
		{Root: "/t30000x1", Partitions: 30_000, Files: 1},
		{Root: "/t1000x30", Partitions: 1_000, Files: 30},
		{Root: "/t1x30000", Partitions: 1, Files: 30_000},
	}
	if testing.Short() {
		for i := range all {
			all[i].Partitions = min(all[i].Partitions, 300)
			all[i].Files = min(all[i].Files, 300)
		}
	}
	return all
}

// BenchmarkList measures every arm over a real loopback connection, server and client
// in one process: allocations are those of both sides.
//
//	go test -run '^$' -bench List/ -benchtime 3x -count 5 ./bench
func BenchmarkList(b *testing.B) {
	ctx := b.Context()
	c := startServer(b)
	for _, table := range shapes(b) {
		fill(b, c, table)
		paths := slices.Collect(table.Paths())
		expected := seen(b, c, paths, Iterator)
		for _, arm := range Arms() {
			b.Run(fmt.Sprintf("place=loopback/shape=%v/arm=%s", table, arm.Name), func(b *testing.B) {
				if got := seen(b, c, paths, arm.List); !got.Equal(&expected) {
					b.Fatalf("%d rows that differ from the iterator's %d", got.Rows, expected.Rows)
				}
				measure(b, expected.Rows, func() {
					if err := arm.List(ctx, c, paths, func(*client.Batch) {}); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkListInProcess measures the listing alone, with no wire and no client: the
// setting of HDFS-13616's own figure. Frames are made, but not decoded.
func BenchmarkListInProcess(b *testing.B) {
	tree, lister := openTree(b)
	root := muster.Identity{User: "root", Groups: []string{muster.Supergroup}}
	options := listing.Options{Columns: rows.DefaultColumns}
	pages := func(n int) func([]string, func(*listing.Message)) error {
		return func(paths []string, each func(*listing.Message)) error {
			o := options
			o.Limit = n
			for chunk := range slices.Chunk(paths, max(1, n)) {
				for cursor, done := []byte(nil), false; !done; {
					err := lister.Page(b.Context(), &root, chunk, o, cursor, func(m *listing.Message) error {
						each(m)
						cursor, done = append(cursor[:0], m.Cursor...), m.Done
						return nil
					})
					if err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	arms := []struct {
		name string
		list func([]string, func(*listing.Message)) error
	}{
		{"iterator", func(paths []string, each func(*listing.Message)) error {
			for i := range paths {
				if err := pages(0)(paths[i:i+1], each); err != nil {
					return err
				}
			}
			return nil
		}},
		{"pages-100", pages(100)},
		{"stream", func(paths []string, each func(*listing.Message)) error {
			chunks := slices.Collect(slices.Chunk(paths, 500))
			next := func(context.Context) ([]string, error) {
				if len(chunks) == 0 {
					return nil, io.EOF
				}
				chunk := chunks[0]
				chunks = chunks[1:]
				return chunk, nil
			}
			return lister.Stream(b.Context(), &root, options, nil, next, func(m *listing.Message) error {
				each(m)
				return nil
			})
		}},
	}
	for _, table := range shapes(b) {
		load(b, tree, table, root)
		paths := slices.Collect(table.Paths())
		for _, arm := range arms {
			b.Run(fmt.Sprintf("place=in-process/shape=%v/arm=%s", table, arm.name), func(b *testing.B) {
				count, bytes := 0, 0
				err := arm.list(paths, func(m *listing.Message) {
					bytes += len(m.Frame)
					count += rowsOf(b, m)
				})
				if err != nil || count != table.Partitions*table.Files {
					b.Fatalf("%d rows, %v", count, err)
				}
				measure(b, count, func() {
					if err := arm.list(paths, func(*listing.Message) {}); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(float64(bytes)/float64(count), "frameB/row")
			})
		}
	}
}

// measure runs list and reports its figures by row.
func measure(b *testing.B, rows int, list func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for b.Loop() {
		list()
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
func seen(tb testing.TB, c *client.Client, paths []string, list ListFunc) Digest {
	var d Digest
	var failed error
	err := list(tb.Context(), c, paths, func(batch *client.Batch) {
		if err := d.Add(batch); err != nil && failed == nil {
			failed = err
		}
	})
	if err != nil || failed != nil {
		tb.Fatal(err, failed)
	}
	return d
}

func rowsOf(b *testing.B, m *listing.Message) int {
	if len(m.Frame) == 0 {
		return 0
	}
	batch, err := rows.Decode(slices.Clone(m.Frame), rows.DefaultColumns)
	if err != nil {
		b.Fatal(err)
	}
	return batch.Len()
}

func startServer(tb testing.TB) *client.Client {
	s, err := server.Start(context.Background(), server.Options{Dir: tb.TempDir(), Version: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	c, err := client.Dial(context.Background(), s.Addr().String(), client.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
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

// load fills a tree with no server before it.
func load(tb testing.TB, tree *namespace.Tree, table Table, who muster.Identity) {
	for chunk := range slices.Chunk(slices.Collect(table.Commands()), batchCommands) {
		if _, err := tree.Apply(context.Background(), namespace.Request{Caller: who, Commands: chunk}); err != nil {
			tb.Fatal(err)
		}
	}
}

package listing_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// shapes are directories times files of each.
var shapes = []struct{ dirs, files int }{{30000, 1}, {1000, 30}, {1, 30000}}

// shaped makes the tree of a shape, each file of one block, and gives its directories.
func shaped(b *testing.B, dirs, files int) (*world, []string) {
	b.Helper()
	w := openTree(b, namespace.Options{FS: vfs.NewMem(), Superuser: root.User})
	paths := make([]string, dirs)
	for d := range paths {
		paths[d] = fmt.Sprintf("/warehouse/table/ds=%05d", d)
		commands := []muster.Command{muster.Mkdir{Path: paths[d], Mode: 0o755, Parents: true}}
		for f := range files {
			commands = append(commands, muster.Create{
				Path: fmt.Sprintf("%s/part-%05d.parquet", paths[d], f), Mode: 0o644, Length: 1 << 20,
				Replication: muster.Replicated(3), BlockSize: 128 << 20,
				Blocks: []muster.Block{{Container: uint64(d), LocalID: uint64(f), Length: 1 << 20}},
			})
		}
		w.do(commands...)
	}
	return w, paths
}

// measure runs list, which lists the whole shape, and reports per status.
func measure(b *testing.B, statuses int, list func() error) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if err := list(); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	n := float64(b.N * statuses)
	b.ReportMetric(n/b.Elapsed().Seconds(), "statuses/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/status")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/status")
}

// BenchmarkPage lists a shape by page calls of 100 paths.
func BenchmarkPage(b *testing.B) {
	for _, shape := range shapes {
		b.Run(fmt.Sprintf("%dx%d", shape.dirs, shape.files), func(b *testing.B) {
			w, dirs := shaped(b, shape.dirs, shape.files)
			l := w.lister(listing.Config{})
			o := listing.Options{Columns: rows.AllColumns}
			measure(b, shape.dirs*shape.files, func() error {
				for paths := range slices.Chunk(dirs, 100) {
					for cursor, done := []byte(nil), false; !done; {
						err := l.Page(b.Context(), root, paths, o, cursor, func(m *listing.Message) error {
							cursor, done = append(cursor[:0], m.Cursor...), m.Done
							return nil
						})
						if err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkStream lists a shape by one stream, fed in chunks of 1,000 paths.
func BenchmarkStream(b *testing.B) {
	for _, shape := range shapes {
		b.Run(fmt.Sprintf("%dx%d", shape.dirs, shape.files), func(b *testing.B) {
			w, dirs := shaped(b, shape.dirs, shape.files)
			l := w.lister(listing.Config{})
			o := listing.Options{Columns: rows.AllColumns}
			measure(b, shape.dirs*shape.files, func() error {
				return l.Stream(context.Background(), root, o, nil, feedOf(dirs, 1000), func(*listing.Message) error { return nil })
			})
		})
	}
}

package listing_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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
var shapes = []struct{ dirs, files int }{{30000, 1}, {1000, 30}, {100, 300}, {1, 30000}}

// containers are dealt out to the files in turn, so that those of a page share none.
const containers = 1000

// shaped makes the tree of a shape, each file of one block, and gives its directories.
func shaped(b *testing.B, dirs, files int) (*world, []string) {
	b.Helper()
	w := openTree(b, namespace.Options{FS: vfs.NewMem(), Superuser: root.User})
	paths := make([]string, dirs)
	var commands []muster.Command
	for d := range paths {
		paths[d] = fmt.Sprintf("/warehouse/sales.db/orders/ds=2026-01-%02d/bucket=%05d", d*30/dirs+1, d)
		commands = append(commands, muster.Mkdir{Path: paths[d], Mode: 0o755, Parents: true})
		for f := range files {
			commands = append(commands, muster.Create{
				Path: fmt.Sprintf("%s/part-%05d-c000.snappy.parquet", paths[d], f), Mode: 0o644, Length: 1 << 20,
				Replication: muster.Replicated(3), BlockSize: 128 << 20,
				Blocks: []muster.Block{{Container: uint64((d*files + f) % containers), LocalID: uint64(f), Length: 1 << 20}},
			})
		}
	}
	w.do(commands...)
	return w, paths
}

// measure runs list, which lists the whole shape, and reports per status. The first time,
// which brings directories into memory, does not count.
func measure(b *testing.B, statuses int, list func() error) {
	b.Helper()
	if err := list(); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if err := list(); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	n := float64(b.N * statuses)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/status")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/status")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/status")
	b.ReportMetric(0, "ns/op")
}

// benchmarkShapes runs list for every shape, its paths in order and, if there are many,
// shuffled.
func benchmarkShapes(b *testing.B, list func(l *listing.Lister, paths []string, o listing.Options) error) {
	for _, shape := range shapes {
		w, dirs := shaped(b, shape.dirs, shape.files)
		l, o := w.lister(listing.Config{}), listing.Options{Columns: rows.AllColumns}
		run := func(name string, paths []string) {
			b.Run(fmt.Sprintf("shape=%dx%d/paths=%s", shape.dirs, shape.files, name), func(b *testing.B) {
				measure(b, shape.dirs*shape.files, func() error { return list(l, paths, o) })
			})
		}
		run("sorted", dirs)
		if shape.dirs > 1000 {
			shuffled := slices.Clone(dirs)
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			run("shuffled", shuffled)
		}
	}
}

// BenchmarkCollect gathers the rows into buffers and frames, in one goroutine.
func BenchmarkCollect(b *testing.B) {
	benchmarkShapes(b, func(l *listing.Lister, paths []string, o listing.Options) error {
		_, err := l.Collect(context.Background(), root, paths, o)
		return err
	})
}

// BenchmarkPage lists by page calls of 100 paths.
func BenchmarkPage(b *testing.B) {
	benchmarkShapes(b, func(l *listing.Lister, paths []string, o listing.Options) error {
		for paths := range slices.Chunk(paths, 100) {
			for cursor, done := []byte(nil), false; !done; {
				err := l.Page(context.Background(), root, paths, o, cursor, func(m *listing.Message) error {
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
}

// BenchmarkStream lists by one stream, fed in chunks of 1,000 paths.
func BenchmarkStream(b *testing.B) {
	benchmarkShapes(b, func(l *listing.Lister, paths []string, o listing.Options) error {
		return l.Stream(context.Background(), root, o, nil, feedOf(paths, 1000), func(*listing.Message) error { return nil })
	})
}

// BenchmarkLocated is BenchmarkCollect of a shape without blocks, with them, with where they
// are, and with this in order.
func BenchmarkLocated(b *testing.B) {
	arms := []struct {
		name string
		o    listing.Options
	}{
		{"none", listing.Options{Columns: rows.DefaultColumns}},
		{"blocks", listing.Options{Columns: rows.AllColumns}},
		{"hint", listing.Options{Columns: rows.AllColumns, Locations: muster.LocationsHint}},
		{"sorted", listing.Options{Columns: rows.AllColumns, Locations: muster.LocationsHint, Sorted: true, Reader: "/r1"}},
	}
	for _, shape := range shapes {
		w, dirs := shaped(b, shape.dirs, shape.files)
		in := newLocatedWorld(b)
		in.world = w
		for c := range uint64(containers) {
			n := muster.NodeNumber(c % 4)
			in.place(muster.Replicated(3), []muster.NodeNumber{n, n + 4, n + 8}, c)
		}
		l := in.lister(listing.Config{})
		for _, arm := range arms {
			b.Run(fmt.Sprintf("shape=%dx%d/locations=%s", shape.dirs, shape.files, arm.name), func(b *testing.B) {
				measure(b, shape.dirs*shape.files, func() error {
					_, err := l.Collect(context.Background(), root, dirs, arm.o)
					return err
				})
			})
		}
	}
}

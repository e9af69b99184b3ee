package namespace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
)

// benchTree opens a tree on disk with dirs directories /b/dNNNNNN of files files each.
func benchTree(b *testing.B, dirs, files int) *Tree {
	b.Helper()
	t, err := Open(b.TempDir(), Options{Superuser: "root"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { t.Close() })
	b.StopTimer()
	defer b.StartTimer()
	fillBench(b, t, dirs, files)
	return t
}

func fillBench(b *testing.B, t *Tree, dirs, files int) {
	mustApply(b, t, muster.Mkdir{Path: "/b", Mode: 0o755})
	var batch []muster.Command
	flush := func(most int) {
		if len(batch) > most {
			mustApply(b, t, batch...)
			batch = batch[:0]
		}
	}
	for d := range dirs {
		batch = append(batch, muster.Mkdir{Path: benchDir(d), Mode: 0o755})
		for f := range files {
			batch = append(batch, muster.Create{Path: fmt.Sprintf("%s/part-%05d", benchDir(d), f), Mode: 0o644, Length: 1 << 20, Replication: muster.Replicated(3), BlockSize: 128 << 20, Blocks: []muster.Block{{Container: 1, LocalID: 2, Length: 1 << 20}}})
			flush(5000)
		}
	}
	flush(0)
}

func benchDir(d int) string { return fmt.Sprintf("/b/d%06d", d) }

// BenchmarkResolve resolves siblings in sorted order.
func BenchmarkResolve(b *testing.B) {
	const dirs = 10_000
	t := benchTree(b, dirs, 1)
	paths := make([]string, dirs)
	for d := range paths {
		paths[d] = benchDir(d)
	}
	benchPages(b, t, func(b *testing.B, r *Reader, i int) {
		if _, err := r.Resolve(paths[i%dirs], true); err != nil {
			b.Fatal(err)
		}
	})
}

// benchPages calls visit b.N times, with a view and a reader for each 1,000 calls.
func benchPages(b *testing.B, t *Tree, visit func(b *testing.B, r *Reader, i int)) {
	b.ReportAllocs()
	for i := 0; i < b.N; {
		v, err := t.View()
		if err != nil {
			b.Fatal(err)
		}
		r := v.NewReader(&muster.Identity{User: "root"})
		for range 1000 {
			if i < b.N {
				visit(b, r, i)
			}
			i++
		}
		r.Close()
		v.Release()
	}
}

// BenchmarkScan resolves and lists directories of 1 and of 1,000 files in sorted order; an operation is
// a row.
func BenchmarkScan(b *testing.B) {
	for _, files := range []int{1, 1000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			dirs := 10_000 / files
			t := benchTree(b, dirs, files)
			paths := make([]string, dirs)
			for d := range paths {
				paths[d] = benchDir(d)
			}
			var row muster.Row
			dir, open := 0, false
			benchPages(b, t, func(b *testing.B, r *Reader, i int) {
				for i%1000 == 0 || !open || !r.Next(&row) {
					res, err := r.Resolve(paths[dir%dirs], true)
					if err == nil {
						err = r.Scan(&res, "", false)
					}
					if err != nil {
						b.Fatal(err)
					}
					dir++
					if open = true; r.Next(&row) {
						return
					}
				}
			})
		})
	}
}

// BenchmarkHeads reads the records of 1,000 directories in one pass; an operation is a record.
func BenchmarkHeads(b *testing.B) {
	const dirs = 1000
	t := benchTree(b, dirs, 1)
	ids, heads := make([]uint64, dirs), make([]Head, dirs)
	for d := range ids {
		ids[d] = 3 + 2*uint64(d)
	}
	benchPages(b, t, func(b *testing.B, r *Reader, i int) {
		if i%dirs == 0 {
			if err := r.Heads(ids, heads); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCreate creates files, each durable before the next of its goroutine.
func BenchmarkCreate(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			t := benchTree(b, clients, 0)
			before := t.Stats()
			var next atomic.Int64
			b.SetParallelism(clients)
			b.ReportAllocs()
			done := make(chan error, clients)
			for c := range clients {
				go func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							done <- nil
							return
						}
						if _, err := tryApply(b, t, muster.Create{Path: fmt.Sprintf("%s/f%d", benchDir(c), n), Mode: 0o644}); err != nil {
							done <- err
							return
						}
					}
				}()
			}
			for range clients {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			s := t.Stats()
			b.ReportMetric(float64(s.Commits-before.Commits)/float64(s.Syncs-before.Syncs), "creates/sync")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}

// BenchmarkImport creates 60,000 files by batches of 10,000 commands.
func BenchmarkImport(b *testing.B) {
	for b.Loop() {
		t, err := Open(b.TempDir(), Options{Superuser: "root"})
		if err != nil {
			b.Fatal(err)
		}
		for batch := range 6 {
			commands := []muster.Command{muster.Mkdir{Path: benchDir(batch), Mode: 0o755, Parents: true}}
			for f := range 9999 {
				commands = append(commands, muster.Create{Path: fmt.Sprintf("%s/part-%05d", benchDir(batch), f), Mode: 0o644, Length: 100, Replication: muster.Replicated(3)})
			}
			mustApply(b, t, commands...)
		}
		t.Close()
	}
}

// BenchmarkOpen opens a tree of 1,000,000 inodes.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	t, err := Open(dir, Options{Superuser: "root"})
	if err != nil {
		b.Fatal(err)
	}
	load(b, t, "/big", 1000, 1000)
	t.Close()
	for b.Loop() {
		t, err := Open(dir, Options{Superuser: "root"})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		t.Close()
		b.StartTimer()
	}
}

// BenchmarkPage lists directories of one file in order, as a page does: 64 paths are resolved, then
// loaded, then scanned; an operation is a directory.
func BenchmarkPage(b *testing.B) {
	const dirs = 30_000
	t := benchTree(b, dirs, 1)
	paths := make([]string, dirs)
	for d := range paths {
		paths[d] = benchDir(d)
	}
	b.Run("hot", func(b *testing.B) {
		benchStages(b, t, paths, dirs)
		b.ResetTimer()
		benchStages(b, t, paths, b.N)
		s := t.Stats().Images
		b.ReportMetric(float64(s.Bytes)/dirs, "bytes/dir")
	})
	shuffled := slices.Clone(paths)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	b.Run("shuffled", func(b *testing.B) {
		benchStages(b, t, shuffled, dirs)
		b.ResetTimer()
		benchStages(b, t, shuffled, b.N)
	})
}

// BenchmarkColdPage lists directories of one file that are not in memory, because none is kept there
// or because all have left it. The store's blocks are in its cache.
func BenchmarkColdPage(b *testing.B) {
	const dirs = 30_000
	folder := b.TempDir()
	t, err := Open(folder, Options{Superuser: "root"})
	if err != nil {
		b.Fatal(err)
	}
	fillBench(b, t, dirs, 1)
	t.Close()
	paths := make([]string, dirs)
	for d := range paths {
		paths[d] = benchDir(d)
	}
	for name, bytes := range map[string]int64{"none": 1, "emptied": 0} {
		b.Run(name, func(b *testing.B) {
			t, err := Open(folder, Options{Superuser: "root", ImageBytes: bytes})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			benchStages(b, t, paths, dirs)
			b.ResetTimer()
			for n := b.N; n > 0; n -= dirs {
				b.StopTimer()
				t.loads.cache.Evict(func(uint64) bool { return true })
				b.StartTimer()
				benchStages(b, t, paths, min(n, dirs))
			}
		})
	}
}

func benchStages(b *testing.B, t *Tree, paths []string, n int) {
	var res [64]Resolved
	var ids []uint64
	heads := make([]Head, 1024)
	var row muster.Row
	caller := &muster.Identity{User: "root"}
	for next := 0; n > 0; {
		v, err := t.View()
		if err != nil {
			b.Fatal(err)
		}
		r := v.NewReader(caller)
		for at := 0; at < 1000 && n > 0; at += len(res) {
			page := res[:min(len(res), n)]
			for i := range page {
				if page[i], err = r.Resolve(paths[next%len(paths)], true); err != nil {
					b.Fatal(err)
				}
				next++
			}
			r.Load(page)
			for i := range page {
				if err := r.Scan(&page[i], "", true); err != nil || !r.Next(&row) || r.Next(&row) {
					b.Fatal(err, r.Err())
				}
				if _, known := r.ChangedAt(&page[i]); !known {
					ids = append(ids, page[i].ID())
				}
			}
			n -= len(page)
		}
		if err := r.Heads(ids, heads); err != nil {
			b.Fatal(err)
		}
		ids = ids[:0]
		r.Close()
		v.Release()
	}
}

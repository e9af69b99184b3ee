package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// BenchmarkRead is a hot read of 64 KiB, beside the system's own.
func BenchmarkRead(b *testing.B) {
	const block, n = 16 << 20, 64 << 10
	dir := b.TempDir()
	s := open(b, store.Options{}, dir)
	put(b, s, id(1, 1), random(newRand(1), block))
	f, err := os.Open(filepath.Join(dir, "blocks", "1", "1"))
	must(b, err)
	defer f.Close()
	b.Run("pread", func(b *testing.B) {
		dst, at := make([]byte, n), int64(0)
		b.SetBytes(n)
		for b.Loop() {
			if _, err := f.ReadAt(dst, at); err != nil {
				b.Fatal(err)
			}
			at = (at + n) % block
		}
	})
	b.Run("store", func(b *testing.B) {
		dst, sums, at := make([]byte, n), []byte(nil), int64(0)
		b.SetBytes(n)
		b.ReportAllocs()
		for b.Loop() {
			if _, sums, err = s.Read(id(1, 1), at, dst, sums[:0]); err != nil {
				b.Fatal(err)
			}
			at = (at + n) % block
		}
	})
	b.Run("store/no-data", func(b *testing.B) {
		sums := []byte(nil)
		for b.Loop() {
			if _, sums, err = s.Read(id(1, 1), 0, nil, sums[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWrite writes a block of 256 MiB, beside a file of the same size.
func BenchmarkWrite(b *testing.B) {
	const block = 256 << 20
	part := random(newRand(1), muster.MaxTransfer)
	sums := sumsOf(part)
	b.Run("file", func(b *testing.B) {
		name := filepath.Join(b.TempDir(), "f")
		b.SetBytes(block)
		for b.Loop() {
			f, err := os.Create(name)
			must(b, err)
			for at := 0; at < block; at += len(part) {
				_, err := f.Write(part[:min(len(part), block-at)])
				must(b, err)
			}
			must(b, f.Sync())
			must(b, f.Close())
		}
	})
	b.Run("store", func(b *testing.B) {
		s := open(b, store.Options{}, b.TempDir())
		local := uint64(0)
		b.SetBytes(block)
		for b.Loop() {
			local++
			w, err := s.Create(id(1, local), 1)
			must(b, err)
			for at := 0; at < block; at += len(part) {
				n := min(len(part), block-at)
				must(b, w.Write(int64(at), part[:n], sums[:(n+piece-1)/piece*4]))
			}
			must(b, w.Commit())
			b.StopTimer()
			must(b, s.Delete(id(1, local)))
			b.StartTimer()
		}
	})
}

// TestHotReadAllocatesNothing, nor does it count as a miss.
func TestHotReadAllocatesNothing(t *testing.T) {
	s := open(t, store.Options{}, t.TempDir())
	put(t, s, id(1, 1), random(newRand(1), 1<<20))
	dst, sums := make([]byte, 64<<10), make([]byte, 0, 64)
	at := int64(0)
	_, _, err := s.Read(id(1, 1), at, dst, sums)
	must(t, err)
	before := s.Stats()
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := s.Read(id(1, 1), at, dst, sums); err != nil {
			t.Fatal(err)
		}
		at = (at + 64<<10) % (1 << 20)
	}); n != 0 {
		t.Fatalf("a hot read allocates %v times", n)
	}
	if after := s.Stats(); after.Misses != before.Misses || after.Handles != 1 {
		t.Fatalf("before %+v, after %+v", before, after)
	}
}

package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	kv "github.com/muster-fs/muster/store"
)

const piece = muster.ChecksumBytes

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func id(container, local uint64) muster.BlockID {
	return muster.BlockID{Container: container, LocalID: local}
}

// sumsOf returns the checksums of data.
func sumsOf(data []byte) (sums []byte) {
	for len(data) > 0 {
		n := min(piece, len(data))
		sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(data[:n], castagnoli))
		data = data[n:]
	}
	return sums
}

// chunksOf returns the checksums of the chunks of data.
func chunksOf(data []byte) (sums []uint32) {
	for len(data) > 0 {
		n := min(muster.ChunkBytes, len(data))
		sums = append(sums, crc32.Checksum(data[:n], castagnoli))
		data = data[n:]
	}
	return sums
}

// random returns n random bytes.
func random(rng *rand.Rand, n int) []byte {
	data := make([]byte, (n+7)/8*8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], rng.Uint64())
	}
	return data[:n]
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// overSeeds runs a test with some seeds, or, in short mode, some fewer.
func overSeeds(t *testing.T, n int, test func(t *testing.T, rng *rand.Rand)) {
	if testing.Short() {
		n = max(1, n/8)
	}
	first := rand.Uint64N(1 << 32)
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { test(t, newRand(seed)) })
	}
}

// clock is a time that tests set.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_700_000_000_000)
	return c
}

func (c *clock) Now() time.Time      { return time.UnixMilli(c.ms.Load()) }
func (c *clock) Add(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails the test unless err has a code and says something about the block or container.
func wantCode(t testing.TB, err error, want muster.Code) {
	t.Helper()
	if got := muster.CodeOf(err); got != want {
		t.Fatalf("got %v (%v); want %v", got.Name(), err, want.Name())
	}
}

func open(t testing.TB, o store.Options, dirs ...string) *store.Store {
	t.Helper()
	s, err := store.Open(dirs, o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// newStore opens a store in memory.
func newStore(t testing.TB) *store.Store {
	t.Helper()
	return open(t, store.Options{FS: vfs.NewMem()}, "a")
}

// write writes data in messages of up to n bytes.
func write(w *store.Writer, at int64, data []byte, n int) error {
	for len(data) > 0 {
		part := data[:min(n, len(data))]
		if err := w.Write(at, part, sumsOf(part)); err != nil {
			return err
		}
		at, data = at+int64(len(part)), data[len(part):]
	}
	return nil
}

// put writes and commits a block.
func put(t testing.TB, s *store.Store, b muster.BlockID, data []byte) {
	t.Helper()
	w, err := s.Create(b, 9)
	must(t, err)
	must(t, write(w, 0, data, muster.MaxTransfer))
	must(t, w.Commit())
}

// read reads a whole block and compares its data and checksums.
func read(t testing.TB, s *store.Store, b muster.BlockID, want []byte) {
	t.Helper()
	dst := make([]byte, len(want)+5*piece)
	n, sums, err := s.Read(b, 0, dst, nil)
	must(t, err)
	if !bytes.Equal(dst[:n], want) {
		t.Fatalf("block %v: other bytes than written: %d, want %d", b, n, len(want))
	}
	if !bytes.Equal(sums, sumsOf(want)) {
		t.Fatalf("block %v: other checksums than of its data", b)
	}
}

// faults is what goes wrong with some files.
type faults struct {
	where  atomic.Pointer[string] // only with paths that have this in them; nil is nothing
	reads  atomic.Bool
	writes atomic.Pointer[error] // how writing, syncing and removing fails; nil is not
}

func (f *faults) MaybeError(op errorfs.Op, path string) error {
	where := f.where.Load()
	if where == nil || !strings.Contains(path, *where) || op == errorfs.OpFileClose {
		return nil
	}
	var err error
	if op.OpKind() == errorfs.OpKindRead {
		if f.reads.Load() {
			err = syscall.EIO
		}
	} else if e := f.writes.Load(); e != nil {
		err = *e
	}
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "test", Path: path, Err: err}
}

// hit makes files fail. A nil error leaves writing well.
func (f *faults) hit(where string, reads bool, writes error) {
	f.reads.Store(reads)
	if f.writes.Store(nil); writes != nil {
		f.writes.Store(&writes)
	}
	f.where.Store(&where)
}

func (f *faults) heal() { f.where.Store(nil) }

// openMetadata opens what a closed store has in folder a.
func openMetadata(mem vfs.FS) (*kv.Store, error) {
	return kv.Open("a", kv.Options{Format: kv.Format{Name: "blocks", Version: 1}, FS: mem, CacheBytes: 1 << 20, MemTableBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
}

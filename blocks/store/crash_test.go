package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// dyingDisk lets so many writing operations pass; then one fails, or all do.
type dyingDisk struct {
	left   atomic.Int64
	broken atomic.Bool
	errno  atomic.Uint32
}

const never = 1 << 60

func (d *dyingDisk) failAfter(n int64, forGood bool, errno syscall.Errno) {
	d.broken.Store(forGood)
	d.errno.Store(uint32(errno))
	d.left.Store(n)
}

func (d *dyingDisk) failing() bool { return d.left.Load() < 0 }

func (d *dyingDisk) MaybeError(op errorfs.Op, path string) error {
	if op.OpKind() != errorfs.OpKindWrite || op == errorfs.OpFileClose {
		return nil
	}
	if left := d.left.Add(-1); left == -1 || left < -1 && d.broken.Load() {
		return &fs.PathError{Op: "write", Path: path, Err: syscall.Errno(d.errno.Load())}
	}
	return nil
}

// mortal is a block, and what may be found of it after a crash.
type mortal struct {
	id       muster.BlockID
	data     []byte // all that is ever written
	written  int
	durable  int // acknowledged
	w        *store.Writer
	lengths  []int // that it may be committed with: one if that was acknowledged
	commited bool  // acknowledged
	gone     bool  // may be deleted, or dropped
	deleted  bool  // acknowledged
}

// worker does random work on containers of its own.
type worker struct {
	t      *testing.T
	rng    *rand.Rand
	disk   *dyingDisk
	s      *store.Store
	first  uint64 // of its containers
	local  uint64
	blocks []*mortal
}

var pool = sync.OnceValue(func() []byte { return random(newRand(99), 2*muster.ChunkBytes) })

// TestCrashesLoseNothingAcknowledged does random work until a write fails or the machine stops, which
// may happen while the store is opened too, and checks after each recovery: what was committed is
// readable and right, every acknowledged byte is there, and there is nothing else.
func TestCrashesLoseNothingAcknowledged(t *testing.T) {
	overSeeds(t, 25, func(t *testing.T, rng *rand.Rand) {
		mem, disk := vfs.NewStrictMem(), &dyingDisk{}
		o := store.Options{FS: errorfs.Wrap(mem, disk), Handles: 4}
		s := recoverStore(t, mem, disk, o, rng)
		workers := make([]*worker, 1+rng.IntN(4))
		for i := range workers {
			workers[i] = &worker{t: t, rng: newRand(rng.Uint64()), disk: disk, first: 1 + 10*uint64(i)}
		}
		for range 5 {
			disk.failAfter(rng.Int64N(300), rng.IntN(2) == 0, []syscall.Errno{syscall.EIO, syscall.ENOSPC}[rng.IntN(2)])
			var working sync.WaitGroup
			for _, w := range workers {
				w.s = s
				working.Go(func() {
					for range 10 + w.rng.IntN(60) {
						w.work()
					}
				})
			}
			working.Wait()
			crash(mem, s, rng.IntN(3) > 0)
			s = recoverStore(t, mem, disk, o, rng)
			known := map[muster.BlockID]bool{}
			for _, w := range workers {
				w.s = s
				w.check(known)
			}
			nothingElse(t, s, mem, known)
			if t.Failed() {
				break
			}
		}
		must(t, s.Close())
	})
}

// crash ends a store as if the machine lost its power, or as if the process was killed.
func crash(mem *vfs.MemFS, s *store.Store, power bool) {
	if power {
		mem.SetIgnoreSyncs(true)
	}
	s.Close() // of a disk that may have failed
	if power {
		mem.ResetToSyncedState()
		mem.SetIgnoreSyncs(false)
	}
}

// recoverStore opens the store again, which crashes at times.
func recoverStore(t *testing.T, mem *vfs.MemFS, disk *dyingDisk, o store.Options, rng *rand.Rand) *store.Store {
	for range rng.IntN(3) {
		disk.failAfter(rng.Int64N(40), rng.IntN(2) == 0, syscall.EIO)
		if s, err := store.Open([]string{"a"}, o); err == nil {
			crash(mem, s, rng.IntN(2) == 0)
		}
	}
	disk.failAfter(never, false, 0)
	s, err := store.Open([]string{"a"}, o)
	must(t, err)
	return s
}

// work does something. What fails may have happened, unless it cannot have.
func (w *worker) work() {
	var b *mortal
	if len(w.blocks) > 0 {
		b = w.blocks[w.rng.IntN(len(w.blocks))]
	}
	if open := w.writing(); len(open) > 0 && w.rng.IntN(2) == 0 {
		b = open[w.rng.IntN(len(open))]
	}
	switch op := w.rng.IntN(100); {
	case b == nil || op < 15:
		w.create()
	case b.w != nil && op < 50:
		w.write(b)
	case b.w != nil && op < 65:
		n, err := b.w.Sync()
		if w.ok(err) && int(n) != b.written {
			w.t.Errorf("block %v: %d bytes durable of %d", b.id, n, b.written)
		}
		b.durable = max(b.durable, int(n))
	case b.w != nil && op < 75:
		w.commit(b)
	case b.w != nil && op < 78:
		w.ok(b.w.Close())
		b.w = nil
	case op < 82:
		w.recover(b)
	case op < 87:
		b.gone = true
		if w.ok(w.s.Delete(b.id)) && w.s.Disks()[0].State != store.DiskFailed {
			b.deleted = true
		}
	case op < 88:
		w.drop(b.id.Container)
	case op < 89:
		w.ok(w.s.CloseContainer(b.id.Container))
	default:
		w.read(b)
	}
}

func (w *worker) writing() (out []*mortal) {
	for _, b := range w.blocks {
		if b.w != nil {
			out = append(out, b)
		}
	}
	return out
}

// ok says whether something worked. It must, unless the disk fails; or the block or container is
// not in a state for it.
func (w *worker) ok(err error) bool {
	switch muster.CodeOf(err) {
	case muster.OK:
		return true
	case muster.ErrNotFound, muster.ErrNoData, muster.ErrExists, muster.ErrChanged:
	default:
		if !w.disk.failing() {
			w.t.Errorf("on a disk that is well: %v", err)
		}
	}
	return false
}

func (w *worker) create() {
	w.local++
	size := 1 + w.rng.IntN(12*piece)
	if w.rng.IntN(15) == 0 {
		size = muster.ChunkBytes - piece + w.rng.IntN(3*piece)
	}
	at := w.rng.IntN(len(pool()) - size)
	b := &mortal{id: id(w.first+w.rng.Uint64N(3), w.local), data: pool()[at : at+size]}
	var err error
	if b.w, err = w.s.Create(b.id, 5); w.ok(err) {
		w.blocks = append(w.blocks, b)
	}
}

func (w *worker) write(b *mortal) {
	n := min(len(b.data)-b.written, piece*(1+w.rng.IntN(5)))
	if len(b.data) > muster.ChunkBytes/2 {
		n = min(len(b.data)-b.written, muster.MaxTransfer)
	}
	part := b.data[b.written : b.written+n]
	if w.ok(b.w.Write(int64(b.written), part, sumsOf(part))) {
		b.written += n
	}
}

func (w *worker) commit(b *mortal) {
	if !b.commited {
		b.lengths = append(b.lengths, b.written)
	}
	if w.ok(b.w.Commit()) {
		b.w, b.commited, b.durable, b.lengths = nil, true, b.written, []int{b.written}
	}
}

func (w *worker) recover(b *mortal) {
	length := w.rng.IntN(b.durable + 1)
	if !b.commited {
		b.lengths = append(b.lengths, length)
	}
	if w.ok(w.s.Commit(b.id, int64(length))) {
		b.commited, b.lengths = true, []int{length}
	}
}

func (w *worker) drop(container uint64) {
	for _, b := range w.blocks {
		if b.id.Container == container {
			b.gone = true
		}
	}
	w.ok(w.s.Drop(container))
}

// read reads a block: it fails, or is right.
func (w *worker) read(b *mortal) {
	dst := make([]byte, len(b.data)+piece)
	n, sums, err := w.s.Read(b.id, 0, dst, nil)
	switch {
	case !w.ok(err):
		if b.commited && !b.gone && !w.disk.failing() {
			w.t.Errorf("read of a committed block: %v", err)
		}
	case !slices.Contains(b.lengths, n) || b.deleted:
		w.t.Errorf("block %v: %d bytes were read, which were never committed, or deleted", b.id, n)
	case !bytes.Equal(dst[:n], b.data[:n]) || !bytes.Equal(sums, sumsOf(dst[:n])):
		w.t.Errorf("block %v: other bytes than written", b.id)
	}
}

// check compares what there is with what there may be, which then is what there is.
func (w *worker) check(known map[muster.BlockID]bool) {
	kept := w.blocks[:0]
	for _, b := range w.blocks {
		b.w = nil
		if w.checkBlock(b) {
			known[b.id] = true
			kept = append(kept, b)
		}
	}
	w.blocks = kept
}

func (w *worker) checkBlock(b *mortal) (exists bool) {
	info, err := w.s.Stat(b.id)
	if errors.Is(err, muster.ErrNotFound) || errors.Is(err, muster.ErrNoData) {
		if !b.gone && (b.commited || b.durable > 0) {
			w.t.Errorf("block %v with %d bytes acknowledged is lost: %v", b.id, b.durable, err)
		}
		return false
	}
	if err != nil {
		w.t.Errorf("block %v: %v", b.id, err)
		return false
	}
	n := int(info.Length)
	switch {
	case b.deleted:
		w.t.Errorf("block %v came back", b.id)
	case info.Committed && !slices.Contains(b.lengths, n):
		w.t.Errorf("block %v is committed with %d bytes; it may be with %v", b.id, n, b.lengths)
	case !info.Committed && b.commited:
		w.t.Errorf("block %v is not committed any more", b.id)
	case !info.Committed && (n < b.durable || n > len(b.data)):
		w.t.Errorf("block %v has %d bytes; %d were acknowledged, of %d", b.id, n, b.durable, len(b.data))
	case info.Damaged || info.File != 5 || !slices.Equal(info.Chunks, chunksOf(b.data[:n])):
		w.t.Errorf("block %v: %+v", b.id, info)
	}
	b.durable, b.written, b.gone = n, n, false
	if info.Committed || w.rng.IntN(2) == 0 {
		must(w.t, w.s.Commit(b.id, info.Length))
		b.commited, b.lengths = true, []int{n}
		w.read(b)
	} else {
		b.lengths = nil
	}
	return true
}

// nothingElse checks that there is no block, and no file, but those that are known, and that the
// counts are right.
func nothingElse(t *testing.T, s *store.Store, mem *vfs.MemFS, known map[muster.BlockID]bool) {
	used := uint64(0)
	for _, c := range s.Containers() {
		list, err := s.List(c.ID, 0, 1<<20)
		must(t, err)
		want := store.Container{ID: c.ID, Closed: c.Closed}
		names, err := mem.List("a/blocks/" + strconv.FormatUint(c.ID, 10))
		must(t, err)
		for _, b := range list {
			if !known[id(c.ID, b.LocalID)] || !slices.Contains(names, strconv.FormatUint(b.LocalID, 10)) {
				t.Errorf("block %d/%d: unknown, or without a file", c.ID, b.LocalID)
			}
			if b.Committed {
				want.Blocks++
				want.Bytes += uint64(b.Length)
			}
			used += uint64(b.Length)
		}
		if c != want || len(names) != len(list) {
			t.Errorf("container %+v; want %+v; files %v", c, want, names)
		}
	}
	if d := s.Disks()[0]; d.Used != used || d.State != store.DiskOK {
		t.Errorf("disk %+v; blocks have %d bytes", d, used)
	}
}

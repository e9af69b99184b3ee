package store_test

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// shared is blocks that writers made, for readers.
type shared struct {
	mu     sync.Mutex
	blocks []muster.BlockID
	data   map[muster.BlockID][]byte
	gone   map[muster.BlockID]bool // or going
}

func (k *shared) put(b muster.BlockID, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blocks, k.data[b] = append(k.blocks, b), data
}

// pick returns a block that was committed.
func (k *shared) pick(n uint64) (b muster.BlockID, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.blocks) > 0 {
		b = k.blocks[n%uint64(len(k.blocks))]
	}
	return b, k.data[b]
}

func (k *shared) isGone(b muster.BlockID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone[b]
}

func (k *shared) delete(b muster.BlockID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone[b] = true
}

// TestEverythingAtOnce writes, syncs, reads, deletes, drops, scrubs and asks at the same time,
// with fewer open files than blocks, and closes the store in the middle of it.
func TestEverythingAtOnce(t *testing.T) {
	s := open(t, store.Options{FS: vfs.NewMem(), Handles: 5, ScrubRate: 1 << 40}, "a", "b")
	k := &shared{data: map[muster.BlockID][]byte{}, gone: map[muster.BlockID]bool{}}
	rounds := 120
	if testing.Short() {
		rounds = 15
	}
	var writing, rest sync.WaitGroup
	var done atomic.Bool
	for g := range uint64(4) {
		writing.Go(func() { writeBlocks(t, s, k, g, rounds) })
	}
	for g := range uint64(4) {
		rest.Go(func() { readBlocks(t, s, k, g, &done) })
	}
	rest.Go(func() { deleteBlocks(t, s, k, &done) })
	rest.Go(func() {
		for !done.Load() {
			s.Scrub()
			s.ScrubState()
			s.Stats()
			s.Disks()
			s.TakeChanges()
			s.Unfinished(0, 5)
			for _, c := range s.Containers() {
				_, _ = s.List(c.ID, 0, 3) // may be dropped
			}
		}
	})
	writing.Wait()
	must(t, s.Close()) // readers, deleters and the rest go on
	done.Store(true)
	rest.Wait()
	if n := s.Stats().Handles; n != 0 {
		t.Fatalf("%d files are open", n)
	}
}

func writeBlocks(t *testing.T, s *store.Store, k *shared, g uint64, rounds int) {
	rng := newRand(g)
	for i := range rounds {
		b := id(1+uint64(i)%3, 1+g*1000+uint64(i))
		data := random(rng, 1+rng.IntN(8*piece))
		w, err := s.Create(b, 5)
		if err != nil {
			t.Errorf("create: %v", err)
			return
		}
		var syncing sync.WaitGroup
		syncing.Go(func() {
			last := int64(0)
			for range 3 {
				n, err := w.Sync()
				if err != nil || n < last {
					t.Errorf("block %v: %d bytes durable after %d: %v", b, n, last, err)
				}
				last = n
			}
		})
		if err := write(w, 0, data, piece); err != nil {
			t.Errorf("write: %v", err)
		}
		syncing.Wait()
		if err := w.Commit(); err != nil {
			t.Errorf("commit: %v", err)
		}
		k.put(b, data)
		if i%10 == 0 { // a container that comes and goes
			b := id(100+g, uint64(i)+1)
			w, err := s.Create(b, 5)
			if err == nil {
				err = write(w, 0, data, piece)
			}
			if err == nil {
				err = w.Commit()
			}
			if err == nil {
				err = s.Drop(b.Container)
			}
			if err != nil {
				t.Errorf("a container that goes: %v", err)
			}
			if _, _, err := s.Read(b, 0, make([]byte, piece), nil); muster.CodeOf(err) != muster.ErrNotFound {
				t.Errorf("a dropped block: %v", err)
			}
		}
	}
}

func readBlocks(t *testing.T, s *store.Store, k *shared, g uint64, done *atomic.Bool) {
	rng := newRand(100 + g)
	dst, sums := make([]byte, 9*piece), []byte(nil)
	for !done.Load() {
		b, want := k.pick(rng.Uint64())
		if b.LocalID == 0 {
			runtime.Gosched()
			continue
		}
		gone := k.isGone(b)
		n, got, err := s.Read(b, 0, dst, sums[:0])
		switch code := muster.CodeOf(err); {
		case code == muster.ErrUnavailable: // closed
		case err != nil && (code != muster.ErrNoData || !k.isGone(b)):
			t.Errorf("read of block %v: %v", b, err)
			return
		case err == nil && (!bytes.Equal(dst[:n], want) || !bytes.Equal(got, sumsOf(want))):
			t.Errorf("block %v: other bytes than written, deleted %v", b, gone)
			return
		}
		sums = got
	}
}

// deleteBlocks deletes blocks, which must not be read after.
func deleteBlocks(t *testing.T, s *store.Store, k *shared, done *atomic.Bool) {
	rng := newRand(200)
	for !done.Load() {
		b, _ := k.pick(rng.Uint64())
		if b.LocalID == 0 || rng.IntN(3) > 0 {
			runtime.Gosched()
			continue
		}
		k.delete(b)
		if err := s.Delete(b); muster.CodeOf(err) == muster.ErrUnavailable {
			continue
		} else if err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, _, err := s.Read(b, 0, make([]byte, piece), nil); muster.CodeOf(err) != muster.ErrNoData && muster.CodeOf(err) != muster.ErrUnavailable {
			t.Errorf("block %v was read after it was deleted: %v", b, err)
		}
	}
}

// TestConcurrentCommitsShareSyncs commits blocks of many writers at once, with a disk whose log
// is slow to sync: it takes fewer syncs than blocks.
func TestConcurrentCommitsShareSyncs(t *testing.T) {
	const writers = 32
	slow := &heldSync{FS: vfs.NewMem(), held: make(chan struct{}), release: make(chan struct{})}
	s := open(t, store.Options{FS: slow}, "a")
	data := random(newRand(40), 100)
	var ws []*store.Writer
	for i := range uint64(writers) {
		w, err := s.Create(id(1, i+1), 1)
		must(t, err)
		must(t, w.Write(0, data, sumsOf(data)))
		ws = append(ws, w)
	}
	before := s.Stats().MetadataSyncs
	slow.armed.Store(true)
	var first, others sync.WaitGroup
	first.Go(func() { mustNot(t, ws[0].Commit()) })
	<-slow.held // the first one's sync
	for _, w := range ws[1:] {
		others.Go(func() { mustNot(t, w.Commit()) })
	}
	for waiting() < writers-1 {
		runtime.Gosched()
	}
	close(slow.release)
	first.Wait()
	others.Wait()
	if got := s.Stats().MetadataSyncs - before; got != 2 {
		t.Fatalf("%d blocks took %d syncs of the metadata; want 2", writers, got)
	}
}

func mustNot(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// waiting returns how many goroutines wait to hand a change to the committer.
func waiting() (n int) {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	for g := range strings.SplitSeq(b.String(), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, "[select") && strings.Contains(g, "store.(*disk).change(") {
			n++
		}
	}
	return n
}

// heldSync holds the first sync of a log once it is armed.
type heldSync struct {
	vfs.FS
	armed         atomic.Bool
	held, release chan struct{}
}

func (h *heldSync) Create(name string) (vfs.File, error) {
	f, err := h.FS.Create(name)
	if strings.HasSuffix(name, ".log") {
		f = &heldFile{f, h}
	}
	return f, err
}

type heldFile struct {
	vfs.File
	h *heldSync
}

func (f *heldFile) Sync() error     { f.hold(); return f.File.Sync() }
func (f *heldFile) SyncData() error { f.hold(); return f.File.SyncData() }
func (f *heldFile) hold() {
	if f.h.armed.CompareAndSwap(true, false) {
		close(f.h.held)
		<-f.h.release
	}
}

package store_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// flip changes a bit of a file.
func flip(t *testing.T, mem *vfs.MemFS, path string, at int64) {
	t.Helper()
	f, err := mem.OpenReadWrite(path)
	must(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], at)
	must(t, errors.Join(err, f.Close()))
}

// scrub waits for a run of scrubbing.
func scrub(t *testing.T, s *store.Store) store.ScrubState {
	t.Helper()
	if !s.Scrub() {
		t.Fatal("scrubbing goes on already")
	}
	for s.ScrubState().Running {
		time.Sleep(time.Second) // of a bubble
	}
	return s.ScrubState()
}

// A run that waits for its rate goes on until time passes, so no other can begin.
func TestOneScrubAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open([]string{"a"}, store.Options{FS: vfs.NewMem(), ScrubRate: piece})
		must(t, err)
		defer s.Close()
		put(t, s, id(1, 1), random(newRand(31), 2<<20)) // more than is read at once
		if !s.Scrub() {
			t.Fatal("scrubbing did not begin")
		}
		synctest.Wait()
		if !s.ScrubState().Running || s.Scrub() {
			t.Fatal("a second run began beside the first")
		}
		for s.ScrubState().Running {
			time.Sleep(time.Second)
		}
		if got := scrub(t, s); got.Blocks != 1 {
			t.Fatalf("%+v", got)
		}
	})
}

func TestScrubberFindsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s, err := store.Open([]string{"a"}, store.Options{FS: mem})
		must(t, err)
		defer s.Close()
		data := random(newRand(30), muster.ChunkBytes+2*piece+9)
		put(t, s, id(1, 1), data)
		put(t, s, id(1, 2), data[:piece])
		put(t, s, id(2, 1), nil)
		w, err := s.Create(id(2, 2), 1) // not committed, so not read
		must(t, err)
		must(t, write(w, 0, data[:piece], piece))
		_, err = w.Sync()
		must(t, err)
		total := uint64(len(data) + piece)
		if got := scrub(t, s); got.Blocks != 3 || got.Bytes != total || got.Damaged != 0 || got.Finished.IsZero() {
			t.Fatalf("%+v", got)
		}
		s.TakeChanges()

		at := int64(muster.ChunkBytes + piece + 3)
		flip(t, mem, "a/blocks/1/1", at)
		got := scrub(t, s)
		if got.Damaged != 1 || got.Blocks != 3 {
			t.Fatalf("%+v", got)
		}
		if c := s.TakeChanges(); len(c) != 1 || c[0].Damaged != 1 || c[0].Blocks != 2 {
			t.Fatalf("changes %+v", c)
		}
		info, err := s.Stat(id(1, 1))
		must(t, err)
		list, err := s.List(1, 0, 5)
		must(t, err)
		if !info.Damaged || !list[0].Damaged || list[1].Damaged {
			t.Fatalf("%+v, %+v", info, list)
		}
		dst := make([]byte, len(data)) // it is read all the same, and its reader sees the damage
		_, sums, err := s.Read(id(1, 1), 0, dst, nil)
		must(t, err)
		if bytes.Equal(dst, data) || bytes.Equal(sums, sumsOf(dst)) || !bytes.Equal(dst[:muster.ChunkBytes], data[:muster.ChunkBytes]) {
			t.Fatal("damaged data is not what it was, or seems to match")
		}

		flip(t, mem, "a/blocks/1/1", at) // as it was
		must(t, mem.Remove("a/blocks/1/2"))
		if got := scrub(t, s); got.Damaged != 1 {
			t.Fatalf("%+v", got)
		}
		info, err = s.Stat(id(1, 1))
		must(t, err)
		if info.Damaged {
			t.Fatal("a block that matches again is still damaged")
		}
		if got := s.Stats(); got.DamageFound != 2 || got.ScrubbedBytes < 2*total {
			t.Fatalf("%+v", got)
		}
	})
}

// TestScrubbingIsSlowAndRegular, also over restarts.
func TestScrubbingIsSlowAndRegular(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, every, day = 256 << 10, 14 * 24 * time.Hour, 24 * time.Hour
		o := store.Options{FS: vfs.NewMem(), ScrubRate: rate, ScrubEvery: every}
		s, err := store.Open([]string{"a"}, o)
		must(t, err)
		data := random(newRand(31), muster.ChunkBytes)
		put(t, s, id(1, 1), data)
		for range 2 {
			for range 13 { // restarts do not put it off
				time.Sleep(day)
				must(t, s.Close())
				s, err = store.Open([]string{"a"}, o)
				must(t, err)
			}
			before := s.ScrubState()
			time.Sleep(day + time.Second)
			synctest.Wait()
			if got := s.ScrubState(); !got.Running || got.Finished != before.Finished {
				t.Fatalf("%+v is not running when it is due", got)
			}
			began := time.Now()
			for s.ScrubState().Running {
				time.Sleep(time.Second)
			}
			// The first 1 MiB is read at once.
			if took, want := time.Since(began), time.Second*(3<<20/rate); took < want-2*time.Second || took > want+2*time.Second {
				t.Fatalf("%d bytes took %v, want %v", len(data), took, want)
			}
		}
		if !s.Scrub() {
			t.Fatal("no run")
		}
		time.Sleep(time.Second)
		must(t, s.Close()) // does not wait for the run
	})
}

func TestTombstonesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		o := store.Options{FS: vfs.NewMem()}
		s, err := store.Open([]string{"a"}, o)
		must(t, err)
		put(t, s, id(1, 1), random(newRand(32), 5))
		for local := range uint64(600) {
			must(t, s.Delete(id(1, local+1)))
		}
		time.Sleep(store.TombstoneLife - 2*time.Hour)
		for local := range uint64(5) {
			must(t, s.Delete(id(1, 1000+local)))
		}
		time.Sleep(4 * time.Hour)
		must(t, s.Close())
		o.Now = func() time.Time { return began } // when all of them would hold
		s, err = store.Open([]string{"a"}, o)
		must(t, err)
		for local := range uint64(600) {
			if s.Deleted(id(1, local+1)) {
				t.Fatalf("tombstone of block %d is kept for ever", local+1)
			}
		}
		if !s.Deleted(id(1, 1000)) {
			t.Fatal("a tombstone ended too early")
		}
		must(t, s.Close())
	})
}

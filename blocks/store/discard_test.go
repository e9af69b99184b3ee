package store_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// TestADiscardedBlockMayBeCopied, through restarts, and in a closed container.
func TestADiscardedBlockMayBeCopied(t *testing.T) {
	o := store.Options{FS: vfs.NewMem()}
	s := open(t, o, "a")
	data := random(newRand(1), muster.ChunkBytes+3*piece)
	put(t, s, id(1, 9), nil)
	for _, local := range []uint64{1, 2} {
		w, err := s.Create(id(1, local), 9)
		must(t, err)
		must(t, write(w, 0, data[:5*piece], 2*piece))
		_, err = w.Sync()
		must(t, err)
		wantCode(t, s.Discard(id(1, local)), muster.ErrExists) // it is being written
		must(t, w.Close())
	}
	must(t, s.CloseContainer(1))
	must(t, s.Discard(id(1, 1)))
	must(t, s.Discard(id(1, 1)))
	if s.Deleted(id(1, 1)) {
		t.Fatal("it counts as deleted")
	}
	must(t, s.Close())
	s = open(t, o, "a")
	must(t, s.Discard(id(1, 2)))
	if n := len(s.Unfinished(0, 10)); n != 0 {
		t.Fatalf("%d blocks are unfinished", n)
	}
	for _, local := range []uint64{1, 2} {
		w, err := s.CreateCopy(id(1, local), 9)
		must(t, err)
		must(t, write(w, 0, data, muster.MaxTransfer))
		must(t, w.Commit())
		read(t, s, id(1, local), data)
		wantCode(t, s.Discard(id(1, local)), muster.ErrExists) // it is committed
		read(t, s, id(1, local), data)
	}
	for _, bad := range []muster.BlockID{id(0, 1), id(1, 0)} {
		wantCode(t, s.Discard(bad), muster.ErrInvalid)
	}
	for _, nowhere := range []muster.BlockID{id(7, 1), id(1, 7)} {
		must(t, s.Discard(nowhere))
	}
	must(t, s.Delete(id(1, 1)))
	must(t, s.Discard(id(1, 1)))
	if !s.Deleted(id(1, 1)) {
		t.Fatal("what was deleted does not count as that any more")
	}
}

// TestDiscardsBesideAllElse is the model test with blocks that are discarded.
func TestDiscardsBesideAllElse(t *testing.T) {
	overSeeds(t, 10, func(t *testing.T, rng *rand.Rand) {
		m := newModel(t, rng, []string{"a", "b"}[:1+rng.IntN(2)]...)
		m.open()
		for range 400 {
			if m.step(); rng.IntN(8) == 0 {
				m.discard(m.randomID())
			}
		}
		m.compare()
		must(t, m.s.Close())
	})
}

func (m *model) discard(id muster.BlockID) {
	b, err := m.blocks[id], m.s.Discard(id)
	if b != nil && (b.committed || b.w != nil) {
		m.want(err, muster.ErrExists)
		return
	}
	m.want(err, 0)
	delete(m.blocks, id)
}

// TestWhoDiscardsTakesNoOthersFile: a copy that begins at the same time is whole, or is refused.
func TestWhoDiscardsTakesNoOthersFile(t *testing.T) {
	s := newStore(t)
	data := random(newRand(3), 2*piece)
	for local := uint64(1); local <= 100; local++ {
		b := id(1, local)
		w, err := s.Create(b, 9)
		must(t, err)
		must(t, write(w, 0, data[:piece], piece))
		_, err = w.Sync()
		must(t, err)
		must(t, w.Close())
		var both sync.WaitGroup
		both.Go(func() {
			for !t.Failed() { // the other may be looking
				err := s.Discard(b)
				if info, missing := s.Stat(b); err == nil || missing == nil && info.Committed {
					return
				}
				if wantCode(t, err, muster.ErrExists); t.Failed() {
					return
				}
			}
		})
		both.Go(func() {
			for !t.Failed() { // until it was discarded
				w, err := s.CreateCopy(b, 9)
				if err == nil {
					must(t, write(w, 0, data, piece))
					must(t, w.Commit())
					return
				}
				if muster.CodeOf(err) != muster.ErrExists {
					t.Error(err)
					return
				}
				if info, err := s.Stat(b); err == nil && info.Committed {
					return
				}
			}
		})
		both.Wait()
		read(t, s, b, data)
	}
}

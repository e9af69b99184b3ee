package store_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// What is deleted before its container is here, or after it was dropped or lost with its disk, does not
// come by a copy, not even after a restart.
func TestTombstonesOfContainersThatAreNotHere(t *testing.T) {
	mem, f := vfs.NewMem(), &faults{}
	o := store.Options{FS: errorfs.Wrap(mem, f)}
	s := open(t, o, "a", "b")
	data := random(newRand(70), piece)
	put(t, s, id(2, 1), data)
	must(t, s.Drop(2))
	for c := uint64(1); c < 3; c++ {
		must(t, s.Delete(id(c, 7)))
	}
	for range 2 {
		for c := uint64(1); c < 3; c++ {
			_, err := s.CreateCopy(id(c, 7), 9)
			wantCode(t, err, muster.ErrExists)
			if !s.Deleted(id(c, 7)) || len(s.Containers()) != 0 {
				t.Fatalf("no tombstone, or a container: %+v", s.Containers())
			}
		}
		must(t, s.Close())
		s = open(t, o, "a", "b")
	}
}

// A copy that makes a container beside a deletion loses, whichever comes first.
func TestDeletionBesideTheCopyThatMakesTheContainer(t *testing.T) {
	s := newStore(t)
	data := random(newRand(71), piece)
	rounds := uint64(200)
	if testing.Short() {
		rounds = 40
	}
	for c := uint64(1); c <= rounds; c++ {
		var both sync.WaitGroup
		both.Go(func() {
			if w, err := s.CreateCopy(id(c, 1), 9); err == nil {
				_ = write(w, 0, data, piece)
				_ = w.Commit()
				_ = w.Close()
			}
		})
		both.Go(func() {
			if err := s.Delete(id(c, 1)); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if info, err := s.Stat(id(c, 1)); err == nil || !s.Deleted(id(c, 1)) {
			t.Fatalf("block %d is there: %+v", c, info)
		}
	}
}

// What is deleted while its disk is out is gone when the disk comes back.
func TestDeletionWhileTheDiskIsOut(t *testing.T) {
	o := store.Options{FS: vfs.NewMem()}
	s := open(t, o, "a", "b")
	data := random(newRand(72), piece)
	for local := uint64(1); local < 3; local++ {
		put(t, s, id(1, local), data)
	}
	on := "a"
	if s.Disks()[1].Used > 0 {
		on = "b"
	}
	must(t, s.Close())
	out := o
	out.Admit = func(dir string) error {
		if dir == on {
			return errors.New("not mounted")
		}
		return nil
	}
	s = open(t, out, "a", "b")
	if len(s.Containers()) != 0 {
		t.Fatalf("the disk is in use: %+v", s.Disks())
	}
	must(t, s.Delete(id(1, 1)))
	must(t, s.Close())
	for range 2 {
		s = open(t, o, "a", "b")
		if info, err := s.Stat(id(1, 1)); !errors.Is(err, muster.ErrNoData) {
			t.Fatalf("it came back: %+v, %v", info, err)
		}
		read(t, s, id(1, 2), data)
		if c := s.Containers(); len(c) != 1 || c[0].Blocks != 1 {
			t.Fatalf("%+v", c)
		}
		must(t, s.Close())
	}
}

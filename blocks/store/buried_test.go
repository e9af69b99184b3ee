package store_test

import (
	"sync"
	"testing"

	"github.com/muster-fs/muster"
)

// TestWhatIsDeletedWhileItIsBegunIsGone, whoever comes first: the block is written and then deleted, or is
// refused.
func TestWhatIsDeletedWhileItIsBegunIsGone(t *testing.T) {
	s := newStore(t)
	put(t, s, id(1, 1_000_000), nil)
	data := random(newRand(3), piece)
	rounds := uint64(500)
	if testing.Short() {
		rounds = 100
	}
	for local := uint64(1); local <= rounds; local++ {
		var all sync.WaitGroup
		for _, b := range []muster.BlockID{id(1, local), id(1+local, 1)} { // the container is there, and is not
			all.Go(func() {
				if err := s.Delete(b); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				w, err := s.CreateCopy(b, 9)
				if err != nil {
					return
				}
				if write(w, 0, data, piece) == nil {
					_ = w.Commit() // refused, if it comes second
				}
				_ = w.Close()
			})
		}
		all.Wait()
		for _, b := range []muster.BlockID{id(1, local), id(1+local, 1)} {
			if _, err := s.Stat(b); err == nil || !s.Deleted(b) {
				t.Fatalf("block %v is there, or may come: %v, deleted %v", b, err, s.Deleted(b))
			}
		}
	}
}

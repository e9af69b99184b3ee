package store_test

import (
	"testing"

	"github.com/muster-fs/muster"
)

// TestTheFileOfABlockIsKnown before and after its commit, in the cache and not.
func TestTheFileOfABlockIsKnown(t *testing.T) {
	s := newStore(t)
	w, err := s.Create(id(1, 1), 77)
	must(t, err)
	_, err = s.FileOf(id(1, 1))
	wantCode(t, err, muster.ErrNotFound)
	data := random(newRand(1), piece)
	must(t, write(w, 0, data, piece))
	_, err = w.Sync()
	must(t, err)
	is := func(when string) {
		t.Helper()
		if file, err := s.FileOf(id(1, 1)); err != nil || file != 77 {
			t.Fatalf("%s: %d, %v", when, file, err)
		}
	}
	is("unfinished")
	must(t, w.Commit())
	is("committed")
	read(t, s, id(1, 1), data)
	is("read")
	if n := testing.AllocsPerRun(100, func() { is("often") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	_, err = s.FileOf(id(1, 2))
	wantCode(t, err, muster.ErrNoData)
	must(t, s.Delete(id(1, 1)))
	_, err = s.FileOf(id(1, 1))
	wantCode(t, err, muster.ErrNoData)
}

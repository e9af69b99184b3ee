package locations_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/muster-fs/muster/locations"
)

// numbers returns n ids from first on.
func numbers(first, n uint64) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = first + uint64(i)
	}
	return ids
}

func TestNoMoreThanSizeAreKept(t *testing.T) {
	for _, size := range []int{1, 2, 3, 64, 100} {
		s := newService(numbers(0, 300)...)
		c := newCache(t, s, Options{Size: size})
		get(t, c, numbers(0, uint64(size))...)
		s.taken()
		get(t, c, numbers(0, uint64(size))...)
		wantCalls(t, s) // all of Size find room
		for id := range uint64(300) {
			get(t, c, id)
			if err := c.Check(false); err != nil {
				t.Fatalf("size %d: %v", size, err)
			}
		}
		if n := c.Stats(); n.Size != size || n.Evictions != uint64(300-size) {
			t.Fatalf("size %d: %+v", size, n)
		}
	}
}

// TestWhatIsReadSurvivesAPassOverEverything: a hundred containers that are read now and
// then stay, while ten thousand others go through a cache of a thousand.
func TestWhatIsReadSurvivesAPassOverEverything(t *testing.T) {
	const hot, others = 100, 10_000
	s := newService(numbers(0, hot+others)...)
	c := newCache(t, s, Options{Size: 1000})
	get(t, c, numbers(0, hot)...)
	for first := uint64(hot); first < hot+others; first += 500 {
		get(t, c, numbers(0, hot)...)
		get(t, c, numbers(first, 500)...)
	}
	s.taken()
	get(t, c, numbers(0, hot)...)
	wantCalls(t, s)
}

// TestWhatIsNotReadGoesFirst, and forcing does not change what was read.
func TestWhatIsNotReadGoesFirst(t *testing.T) {
	s := newService(numbers(0, 20)...)
	c := newCache(t, s, Options{Size: 10})
	get(t, c, numbers(0, 10)...)
	get(t, c, numbers(0, 5)...)
	reload(t, c, numbers(0, 5)...)
	get(t, c, numbers(10, 5)...)
	s.taken()
	get(t, c, numbers(0, 5)...)
	wantCalls(t, s)
	get(t, c, numbers(5, 5)...)
	wantCalls(t, s, numbers(5, 5))
}

func TestWhatIsReadNoLongerGoes(t *testing.T) {
	s := newService(numbers(0, 200)...)
	c := newCache(t, s, Options{Size: 10})
	get(t, c, numbers(0, 5)...)
	for range 10 {
		get(t, c, numbers(0, 5)...)
	}
	for id := uint64(5); id < 200; id++ {
		get(t, c, id)
	}
	s.taken()
	get(t, c, numbers(0, 5)...)
	wantCalls(t, s, numbers(0, 5))
}

// TestWhatHasExpiredGoesFirst, however often it was read.
func TestWhatHasExpiredGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(numbers(0, 20)...)
		c := newCache(t, s, Options{Size: 10, TTL: time.Minute})
		get(t, c, numbers(0, 5)...)
		for range 5 {
			get(t, c, numbers(0, 5)...)
		}
		time.Sleep(time.Minute)
		get(t, c, numbers(5, 10)...) // five more than there is room for
		s.taken()
		get(t, c, numbers(5, 10)...)
		wantCalls(t, s)
	})
}

// TestFullOfWhatIsReadStillAdmits what is new, and finds room for it in few steps.
func TestFullOfWhatIsReadStillAdmits(t *testing.T) {
	s := newService(numbers(0, 2000)...)
	c := newCache(t, s, Options{Size: 1000})
	for range 5 {
		get(t, c, numbers(0, 1000)...)
	}
	if passed := c.Passed(); passed != 0 {
		t.Fatalf("%d entries of which not all readings are noted", passed)
	}
	get(t, c, 1000)
	if passed := c.Passed(); passed > 32 {
		t.Fatalf("the hand passed %d entries for one eviction", passed)
	}
	s.taken()
	get(t, c, 1000)
	wantCalls(t, s)
}

// TestIdsInARowFillTheChainsEvenly, as containers are numbered.
func TestIdsInARowFillTheChainsEvenly(t *testing.T) {
	for _, step := range []uint64{1, 2, 1000, 1 << 32} {
		ids := numbers(0, 10_000)
		for i := range ids {
			ids[i] *= step
		}
		c := newCache(t, newService(ids...), Options{Size: len(ids)})
		get(t, c, ids...)
		if n := c.Longest(); n > 8 {
			t.Errorf("every %dth id: a chain of %d", step, n)
		}
	}
}

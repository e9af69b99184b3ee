package locations_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// TestCachedAnswersUpToTheFirstThatIsMissing: what it gives is what Get gives, no call is made,
// and what is past its time is missing.
func TestCachedAnswersUpToTheFirstThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := numbers(0, 100) // more than are looked up side by side
		s := newService(ids...)
		c := newCache(t, s, Options{TTL: time.Minute})
		out := make([]*muster.Placement, len(ids))
		for have := range len(ids) + 1 {
			if have > 0 {
				get(t, c, ids[have-1])
			}
			s.taken()
			before := c.Stats()
			if n := c.Cached(ids, out); n != have {
				t.Fatalf("with %d containers in memory it gives %d", have, n)
			}
			if after := c.Stats(); after.Hits-before.Hits != uint64(have) || after.Misses != before.Misses {
				t.Errorf("%d given: counted as %d hits, %d misses", have, after.Hits-before.Hits, after.Misses-before.Misses)
			}
			wantCalls(t, s)
			for i, l := range get(t, c, ids[:have]...) {
				if out[i] != l.Placement {
					t.Fatalf("container %d: %v, and %v by Get", ids[i], out[i], l.Placement)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		if n := c.Cached(ids, out); n != 0 {
			t.Errorf("%d are given though all are past their time", n)
		}
		if n := c.Cached(nil, nil); n != 0 {
			t.Errorf("%d of none", n)
		}
	})
}

func TestCachedAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ids := numbers(0, 300)
	c := newCache(t, newService(ids...), Options{})
	get(t, c, ids...)
	out := make([]*muster.Placement, len(ids))
	if n := testing.AllocsPerRun(100, func() { c.Cached(ids, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package locations_test

import (
	"context"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// TestRefreshStorm: a datanode dies under a thousand openers of files that share a
// hundred containers. The location service gets no more calls than the node had
// containers, whether they come at once or one after another, and whether what they saw
// is of this boot or the one before.
func TestRefreshStorm(t *testing.T) {
	const openers, containers = 1000, 100
	ids := make([]uint64, containers)
	for i := range ids {
		ids[i] = uint64(i)
	}
	for _, when := range []string{"at once", "one after another"} {
		for _, boot := range []string{"this boot", "the one before"} {
			t.Run(when+", "+boot, func(t *testing.T) {
				s := newService(ids...)
				c := newCache(t, s, Options{})
				opened := get(t, c, ids...)
				if boot == "the one before" {
					c = newCache(t, s, Options{})
				}
				s.taken()
				for _, id := range ids {
					s.move(id, 4)
				}
				open := func(file uint64) {
					stale := make([]Stale, 3) // of a file's containers
					for i := range stale {
						id := (7*file + uint64(i)) % containers
						stale[i] = Stale{Container: id, Seen: opened[id].Seen}
					}
					out := make([]Located, len(stale))
					if err := c.Refresh(context.Background(), stale, out); err != nil {
						t.Error(err)
					}
					for _, l := range out {
						if l.Err != nil || l.Placement.Nodes[0] != 4 {
							t.Errorf("still on the dead node: %+v", l)
						}
					}
				}
				var wg sync.WaitGroup
				for file := range uint64(openers) {
					if when == "at once" {
						wg.Go(func() { open(file) })
					} else {
						open(file)
					}
				}
				wg.Wait()
				calls, loaded := s.taken(), 0
				for _, call := range calls {
					loaded += len(call)
				}
				if len(calls) > containers || loaded != containers {
					t.Fatalf("%d calls for %d containers; the node had %d", len(calls), loaded, containers)
				}
			})
		}
	}
}

// TestRacingGetsLoadOnce: a thousand first readers at once, of overlapping ids, have each
// container loaded once.
func TestRacingGetsLoadOnce(t *testing.T) {
	ids := make([]uint64, 500)
	for i := range ids {
		ids[i] = uint64(i)
	}
	s := newService(ids...)
	c := newCache(t, s, Options{Loads: 4})
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			mine := ids[i%400 : i%400+100]
			out := make([]Located, len(mine))
			if err := c.Get(context.Background(), mine, out); err != nil {
				t.Error(err)
			}
			for k, l := range out {
				if l.Err != nil || l.Placement.Container != mine[k] || l.Placement.Nodes[0] != muster.NodeNumber(mine[k]%5) {
					t.Errorf("container %d: %+v", mine[k], l)
				}
			}
		})
	}
	wg.Wait()
	times := map[uint64]int{}
	for _, call := range s.taken() {
		for _, id := range call {
			times[id]++
		}
	}
	for _, id := range ids[:499] {
		if times[id] != 1 {
			t.Errorf("container %d was loaded %d times", id, times[id])
		}
	}
	if n := c.Stats(); n.Hits+n.Misses != 100_000 || n.Loaded != 499 {
		t.Errorf("%+v", n)
	}
}

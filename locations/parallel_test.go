package locations_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// TestAnswersFromMemoryTakeNoLock: they would wait for ever here.
func TestAnswersFromMemoryTakeNoLock(t *testing.T) {
	c := newCache(t, newService(1), Options{})
	get(t, c, 1)
	c.Locked(func() {
		l := get(t, c, 1)[0]
		wantOn(t, l, 1, 2, 3)
		if c.Node(l.Placement.Nodes[0]) == nil {
			t.Fatal("no record of a node")
		}
	})
}

// TestReadersBesideWriters has readers of entries that are replaced and evicted all the
// time: each is told of the container that it asked for, and never less than before.
func TestReadersBesideWriters(t *testing.T) {
	const containers = 200
	s := newService(numbers(0, containers)...)
	c := newCache(t, s, Options{Size: 64})
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			var newest [containers]Seen
			ids, out := make([]uint64, 8), make([]Located, 8)
			stale := make([]Stale, len(ids))
			for i := range 2000 {
				for k := range ids {
					ids[k] = rand.Uint64N(containers)
					stale[k] = Stale{Container: ids[k], Seen: newest[ids[k]]}
				}
				before := newest
				call := func() error { return c.Get(context.Background(), ids, out) }
				if i%10 == reader {
					call = func() error { return c.Refresh(context.Background(), stale, out) }
				}
				if err := call(); err != nil {
					t.Error(err)
				}
				for k, id := range ids {
					l := out[k]
					if l.Err != nil || l.Placement.Container != id || l.Placement.Nodes[0] != muster.NodeNumber(id%5) || c.Node(l.Placement.Nodes[2]) == nil {
						t.Errorf("container %d: %+v", id, l)
					}
					if bytes.Compare(l.Seen[:], before[id][:]) < 0 {
						t.Errorf("container %d: less new than before", id)
					}
					newest[id] = l.Seen
				}
			}
		})
	}
	wg.Wait()
	if err := c.Check(false); err != nil {
		t.Error(err)
	}
	if n := c.Stats(); n.Evictions == 0 || n.Forced == 0 || n.Hits == 0 {
		t.Errorf("nothing happened: %+v", n)
	}
}

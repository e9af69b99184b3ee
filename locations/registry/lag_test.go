package registry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// TestAnOpenContainerThatLacksBlocksIsClosed, and completed: a writer had too few datanodes for a
// block, and went on without one of them.
func TestAnOpenContainerThatLacksBlocksIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 3, "/r0", "/r1")
		member(t, r, false, []muster.NodeNumber{0, 1, 2}, 1, 2)
		has(t, r, dn[0], true, 10, 1, 2)
		has(t, r, dn[1], true, 10, 1) // of the other it has nothing
		has(t, r, dn[2], true, 10, 1, 2)
		if all := ordersOf(t, r, 4*time.Minute, dn...); len(all) > 0 {
			t.Fatalf("ordered at once: %+v", all)
		}
		all := ordersOf(t, r, 8*time.Minute, dn...)
		if len(all) != 1 || all[0].Kind != muster.OrderCopy || all[0].Container != 2 {
			t.Errorf("ordered: %+v", all)
		}
		for id, closed := range map[uint64]bool{1: false, 2: true} {
			if k, err := r.Container(id); err != nil || k.Closed != closed {
				t.Errorf("container %d is closed: %v, %v", id, k.Closed, err)
			}
		}
	})
}

// TestAnOpenContainerThatIsWrittenStaysOpen, although at no time do all have reported the same.
func TestAnOpenContainerThatIsWrittenStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 3, "/r0", "/r1")
		member(t, r, false, []muster.NodeNumber{0, 1, 2}, 1)
		for _, n := range dn {
			has(t, r, n, true, 1, 1)
		}
		for i := range uint64(200) {
			has(t, r, dn[i%3], false, 10+i, 1) // the others are behind
			beat(t, r, 6*time.Second, dn...)
		}
		if k, err := r.Container(1); err != nil || k.Closed {
			t.Fatalf("it is closed: %v, %v", k, err)
		}
		for i := range uint64(60) { // blocks are deleted, here and there
			has(t, r, dn[i%3], false, 200-i, 1)
			beat(t, r, 6*time.Second, dn...)
		}
		if k, err := r.Container(1); err != nil || k.Closed {
			t.Fatalf("it is closed: %v, %v", k, err)
		}
	})
}

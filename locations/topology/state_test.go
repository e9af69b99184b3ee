package topology_test

import (
	"slices"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

func TestSilentNodesComeLastAndTheOrderStays(t *testing.T) {
	states := []muster.NodeState{muster.Dead, muster.Maintenance, muster.Stale, muster.InService, muster.Dead, muster.Draining, muster.Stale, muster.InService}
	state := func(i int) muster.NodeState { return states[i] }
	order := []int{4, 0, 7, 6, 5, 2, 3, 1, 1}
	topology.SilentLast(order, state)
	if want := []int{7, 5, 3, 1, 1, 6, 2, 4, 0}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	good := []int{5, 1, 3, 7}
	topology.SilentLast(good, state)
	if !slices.Equal(good, []int{5, 1, 3, 7}) {
		t.Errorf("without silent ones: %v", good)
	}
	topology.SilentLast(nil, state)
	if n := testing.AllocsPerRun(100, func() { topology.SilentLast(order, state); slices.Reverse(order) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package topology

import (
	"cmp"
	"slices"

	"github.com/muster-fs/muster"
)

// SilentLast moves what is on datanodes that are stale behind the rest, and what is on dead ones
// behind that; apart from this, the order stays. Datanodes that drain or are in maintenance
// serve as long as they are heard of. Nothing is allocated.
func SilentLast[E any](order []E, state func(E) muster.NodeState) {
	for _, e := range order {
		if state(e) >= muster.Stale {
			slices.SortStableFunc(order, func(a, b E) int {
				return cmp.Compare(max(state(a), muster.Maintenance), max(state(b), muster.Maintenance))
			})
			return
		}
	}
}

package server

import (
	"context"

	"github.com/muster-fs/muster/locations"
)

// get is how calls that need no fresh answer ask where containers are: the cache, unless the
// server is to ask the service each time.
func (h *handlers) get(ctx context.Context, containers []uint64, out []locations.Located) error {
	if h.direct == nil {
		return h.cache.Get(ctx, containers, out)
	}
	answer, err := h.direct.Lookup(ctx, containers)
	if err != nil {
		return err
	}
	for i := range answer.Nodes {
		if h.cache.Node(answer.Nodes[i].Number) == nil { // it has joined since the topology in use
			h.cache.Learn(answer.Nodes)
			break
		}
	}
	for i := range answer.Outcomes {
		if o := &answer.Outcomes[i]; o.Err != nil {
			out[i].Err = o.Err
		} else {
			out[i].Placement = &o.Placement
		}
	}
	return nil
}

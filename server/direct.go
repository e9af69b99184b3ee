package server

import (
	"context"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
)

// direct asks the location service each time where containers are, and the cache for nodes
// alone. It is there to hold the cache against.
type direct struct {
	cache  *locations.Cache
	source locations.Source
}

// Cached has nothing.
func (d direct) Cached([]uint64, []*muster.Placement) int { return 0 }

// Get asks for all of the containers.
func (d direct) Get(ctx context.Context, containers []uint64, out []locations.Located) error {
	answer, err := d.source.Lookup(ctx, containers)
	if err != nil {
		for i := range containers {
			out[i] = locations.Located{Err: err}
		}
		return context.Cause(ctx)
	}
	for i := range answer.Nodes {
		if d.cache.Node(answer.Nodes[i].Number) == nil { // it has joined since the topology in use
			d.cache.Learn(answer.Nodes)
			break
		}
	}
	for i := range answer.Outcomes {
		o := &answer.Outcomes[i]
		out[i] = locations.Located{Err: o.Err}
		if o.Err == nil {
			out[i].Placement = &o.Placement
		}
	}
	return nil
}

// Node is the cache's.
func (d direct) Node(n muster.NodeNumber) *muster.Node { return d.cache.Node(n) }

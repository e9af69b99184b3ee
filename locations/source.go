package locations

import (
	"context"

	"github.com/muster-fs/muster"
)

// Source is the location service, in this process or another.
type Source interface {
	// Lookup says where containers are. It returns soon after ctx ends, and an error only
	// if it knows nothing of any of them; what is wrong with one container is in that
	// one's outcome. It must not keep or change containers, and the cache keeps nothing
	// of the answer but the nodes' strings. Calls are concurrent.
	Lookup(ctx context.Context, containers []uint64) (Answer, error)
}

// Answer is what the location service knows of some containers.
type Answer struct {
	Outcomes []Outcome     // one for each container, in the order asked
	Nodes    []muster.Node // those that the placements name, each once
}

// Outcome is what the location service says of one container. With an error, the
// placement is of no meaning: ErrNotFound is a container that does not exist (and what
// the cache has of it goes), anything else one of which nothing is known now.
type Outcome struct {
	Placement muster.Placement
	Err       error
}

package server

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Operators ask the namespace server, which passes their calls on to the location service:
// that knows no users.

// Datanodes lists the datanodes.
func (h *handlers) Datanodes(ctx context.Context, r *pb.DatanodesRequest) (*pb.DatanodesReply, error) {
	return h.locations.Datanodes(ctx, r)
}

// Topology returns the nodes and racks, at once: the connections to the location service are not
// for users to wait on.
func (h *handlers) Topology(ctx context.Context, r *pb.TopologyRequest) (*pb.TopologyReply, error) {
	return h.locations.Topology(ctx, &pb.TopologyRequest{Boot: r.GetBoot(), Version: r.GetVersion()})
}

// Container says all that is known of one container.
func (h *handlers) Container(ctx context.Context, r *pb.ContainerRequest) (*pb.ContainerReply, error) {
	return h.locations.Container(ctx, r)
}

// SetNodeState is the operator's will for a datanode.
func (h *handlers) SetNodeState(ctx context.Context, r *pb.SetNodeStateRequest) (*pb.SetNodeStateReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	if !h.tree.Superuser(&caller) {
		return nil, fmt.Errorf("%w: user %q is no superuser, who alone may set the state of a datanode", muster.ErrPermission, caller.User)
	}
	reply, err := h.locations.SetNodeState(ctx, r)
	if err != nil {
		return nil, err
	}
	h.log.Info("the state of a datanode was set", "node", r.GetNode(), "wanted", muster.NodeState(r.GetWanted()).String(), "user", caller.User)
	return reply, nil
}

// statusWait is how long a status waits for the location service.
const statusWait = time.Second

// locationCounters are the counters of the cache and of the location service, as far as
// that can be reached.
func (h *handlers) locationCounters(ctx context.Context) []*pb.Counter {
	cache := h.cache.Stats()
	counters := []*pb.Counter{
		counter("location_cache_evictions", cache.Evictions),
		counter("location_cache_forced", cache.Forced),
		counter("location_cache_hits", cache.Hits),
		counter("location_cache_load_errors", cache.LoadErrors),
		counter("location_cache_load_seconds", cache.LoadTime.Seconds()),
		counter("location_cache_loaded", cache.Loaded),
		counter("location_cache_loading", cache.Loading),
		counter("location_cache_loads", cache.Loads),
		counter("location_cache_misses", cache.Misses),
		counter("location_cache_nodes", cache.Nodes),
		counter("location_cache_size", cache.Size),
		counter("location_cache_unkept", cache.Unkept),
		counter("location_cache_waiting", cache.Waiting),
		counter("topology_nodes", h.topology.Load().Len()),
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	reply, err := h.locations.LocationsStatus(ctx, &pb.LocationsStatusRequest{})
	counters = append(counters, counter("location_service_reachable", truth(err == nil)))
	for _, g := range reply.GetCounters() {
		counters = append(counters, counter("location_service_"+g.Name, g.Value))
	}
	return counters
}

package server

import (
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// service is what a namespace server asks of the location service besides where
// containers are. locationCalls is it in this process, remote in another.
type service interface {
	Topology(context.Context, *pb.TopologyRequest) (*pb.TopologyReply, error)
	Datanodes(context.Context, *pb.DatanodesRequest) (*pb.DatanodesReply, error)
	Container(context.Context, *pb.ContainerRequest) (*pb.ContainerReply, error)
	SetNodeState(context.Context, *pb.SetNodeStateRequest) (*pb.SetNodeStateReply, error)
	LocationsStatus(context.Context, *pb.LocationsStatusRequest) (*pb.LocationsStatusReply, error)
	Allocate(context.Context, *pb.AllocateRequest) (*pb.AllocateReply, error)
	CloseContainer(context.Context, *pb.CloseContainerRequest) (*pb.CloseContainerReply, error)
	Unfinished(context.Context, *pb.UnfinishedRequest) (*pb.UnfinishedReply, error)
	BlockKeys(context.Context, *pb.BlockKeysRequest) (*pb.BlockKeysReply, error)
}

// locationCalls are the calls of the location service. They keep no state of their own.
type locationCalls struct {
	pb.DRPCLocationsUnimplementedServer // the calls that are not here yet
	registry                            *registry.Registry
	serving                             context.Context // ends when calls are to finish
	tokens                              bool            // blocks are read and written with tokens alone
	rpc                                 *rpc.Server     // of a process of their own, else nil
}

var (
	_ pb.DRPCLocationsServer = (*locationCalls)(nil)
	_ service                = (*locationCalls)(nil)
)

// Register makes a datanode known, or known again.
func (c *locationCalls) Register(ctx context.Context, r *pb.RegisterRequest) (*pb.RegisterReply, error) {
	if r.GetPort() > math.MaxUint16 || r.GetHttpPort() > math.MaxUint16 {
		return nil, fmt.Errorf("%w: ports %d and %d of a datanode; at most %d", muster.ErrInvalid, r.GetPort(), r.GetHttpPort(), math.MaxUint16)
	}
	address := r.GetAddress()
	if tcp, ok := rpc.RemoteAddr(ctx).(*net.TCPAddr); ok && address == "" {
		address = tcp.AddrPort().Addr().Unmap().WithZone("").String()
	}
	known, err := c.registry.Register(ctx, registry.Registration{
		ID: r.GetId(), Host: r.GetHost(), Address: address, Port: uint16(r.GetPort()), HTTPPort: uint16(r.GetHttpPort()), Rack: r.GetRack(),
	})
	if err != nil {
		return nil, err
	}
	return &pb.RegisterReply{Number: uint32(known.Number), Rack: known.Rack, HeartbeatMs: known.Heartbeat.Milliseconds(), Session: known.Session}, nil
}

// maxReported bounds the replicas of one report.
const maxReported = 4_000_000

// Report says which containers a datanode has.
func (c *locationCalls) Report(stream pb.DRPCLocations_ReportStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	var replicas []registry.Replica
	for m := first; ; {
		if replicas, err = appendReplicas(replicas, m.GetReplicas()); err != nil {
			return err
		}
		if m.GetLast() {
			break
		}
		if m, err = stream.Recv(); err != nil {
			return fmt.Errorf("a report without an end: %w", err)
		}
	}
	unknown, err := c.registry.Report(muster.NodeNumber(first.GetNumber()), first.GetSession(), first.GetFull(), replicas)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&pb.ReportReply{Unknown: unknown})
}

func appendReplicas(replicas []registry.Replica, list []*pb.Replica) ([]registry.Replica, error) {
	if len(replicas)+len(list) > maxReported {
		return nil, fmt.Errorf("%w: more than %d replicas in one report", muster.ErrLimit, maxReported)
	}
	for _, m := range list {
		if m.GetIndex() > math.MaxUint8 {
			return nil, fmt.Errorf("%w: replica index %d of container %d", muster.ErrInvalid, m.GetIndex(), m.GetContainer())
		}
		replicas = append(replicas, registry.Replica{
			Container: m.GetContainer(), Index: uint8(m.GetIndex()), Closed: m.GetClosed(), Gone: m.GetGone(),
			Blocks: m.GetBlocks(), Bytes: m.GetBytes(), Damaged: m.GetDamaged(),
		})
	}
	return replicas, nil
}

// Allocate gives blocks in open containers.
func (c *locationCalls) Allocate(ctx context.Context, r *pb.AllocateRequest) (*pb.AllocateReply, error) {
	if r.GetReplication() > math.MaxUint16 || r.GetCount() > muster.MaxBlocks {
		return nil, fmt.Errorf("%w: %d blocks of replication %#x; at most %d of a file", muster.ErrInvalid, r.GetCount(), r.GetReplication(), muster.MaxBlocks)
	}
	q := registry.AllocateRequest{Replication: muster.Replication(r.GetReplication()), Count: int(r.GetCount())}
	for _, n := range r.GetExclude() {
		q.Exclude = append(q.Exclude, muster.NodeNumber(n))
	}
	given, err := c.registry.Allocate(ctx, q)
	if err != nil {
		return nil, err
	}
	reply, at := &pb.AllocateReply{Nodes: rpc.NodesToPB(given.Nodes)}, rpc.PositionsOf(given.Nodes)
	for _, b := range given.Blocks {
		reply.Blocks = append(reply.Blocks, &pb.BlockID{Container: b.Container, LocalId: b.LocalID})
	}
	for i := range given.Placements {
		reply.Placements = append(reply.Placements, at.Placement(&given.Placements[i], nil))
	}
	return reply, nil
}

// Lookup says where containers are, each with an outcome of its own.
func (c *locationCalls) Lookup(ctx context.Context, r *pb.LookupRequest) (*pb.LookupReply, error) {
	if n := len(r.GetContainers()); n > locations.MaxBatch {
		return nil, fmt.Errorf("%w: %d containers in a call, at most %d", muster.ErrLimit, n, locations.MaxBatch)
	}
	answer, err := c.registry.Lookup(ctx, r.GetContainers())
	if err != nil {
		return nil, err
	}
	reply, at := &pb.LookupReply{Nodes: rpc.NodesToPB(answer.Nodes)}, rpc.PositionsOf(answer.Nodes)
	replicas := 0
	for i := range answer.Outcomes {
		replicas += len(answer.Outcomes[i].Placement.Nodes)
	}
	messages, room := make([]pb.Placement, len(answer.Outcomes)), make([]uint32, 0, replicas)
	reply.Placements = make([]*pb.Placement, len(messages))
	for i := range messages {
		o := &answer.Outcomes[i]
		room = at.Place(&messages[i], room, &o.Placement, o.Err)
		messages[i].Container = r.Containers[i]
		reply.Placements[i] = &messages[i]
	}
	return reply, nil
}

// maxWait bounds how long a call waits for a new topology.
const maxWait = time.Minute

// Topology returns the nodes and racks.
func (c *locationCalls) Topology(ctx context.Context, r *pb.TopologyRequest) (*pb.TopologyReply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.serving, cancel)()
	wait := min(max(0, time.Duration(min(r.GetWaitMs(), maxWait.Milliseconds()))*time.Millisecond), maxWait)
	s, err := c.registry.Topology(ctx, r.GetBoot(), r.GetVersion(), wait)
	switch {
	case c.serving.Err() != nil:
		return nil, fmt.Errorf("%w: the location service is stopping", muster.ErrUnavailable)
	case err != nil:
		return nil, err
	case s.Boot == r.GetBoot() && s.Version == r.GetVersion():
		return &pb.TopologyReply{Boot: s.Boot, Version: s.Version, Unchanged: true}, nil
	}
	reply := &pb.TopologyReply{Boot: s.Boot, Version: s.Version, Nodes: rpc.NodesToPB(s.Nodes), Warning: c.registry.Stats().Warning}
	for _, l := range s.Schema.Levels {
		reply.Levels = append(reply.Levels, &pb.Level{Name: l.Name, Cost: uint32(l.Cost), Prefix: l.Prefix, DefaultName: l.Default})
	}
	for _, rule := range s.Rules {
		reply.Rules = append(reply.Rules, &pb.RackRule{Match: rule.Match, Rack: rule.Rack})
	}
	return reply, nil
}

// CloseContainer ends adding blocks to a container.
func (c *locationCalls) CloseContainer(ctx context.Context, r *pb.CloseContainerRequest) (*pb.CloseContainerReply, error) {
	if err := c.registry.CloseContainer(ctx, r.GetContainer()); err != nil {
		return nil, err
	}
	return &pb.CloseContainerReply{}, nil
}

// Datanodes lists the datanodes.
func (c *locationCalls) Datanodes(context.Context, *pb.DatanodesRequest) (*pb.DatanodesReply, error) {
	nodes := c.registry.Datanodes()
	reply := &pb.DatanodesReply{Datanodes: make([]*pb.Datanode, len(nodes))}
	for i := range nodes {
		reply.Datanodes[i] = datanodeToPB(&nodes[i])
	}
	return reply, nil
}

func datanodeToPB(d *registry.Datanode) *pb.Datanode {
	age := int64(-1)
	if d.HeartbeatAge >= 0 {
		age = d.HeartbeatAge.Milliseconds()
	}
	return &pb.Datanode{
		Node: rpc.NodeToPB(&d.Node), Wanted: uint32(d.Wanted), Health: uint32(d.Health), Containers: uint64(d.Containers),
		HeartbeatAgeMs: age, Reported: d.Reported, Disks: rpc.DisksToPB(d.Disks),
	}
}

// Container says all that is known of one container.
func (c *locationCalls) Container(_ context.Context, r *pb.ContainerRequest) (*pb.ContainerReply, error) {
	k, err := c.registry.Container(r.GetContainer())
	if err != nil {
		return nil, err
	}
	at := rpc.PositionsOf(k.Nodes)
	reply := &pb.ContainerReply{
		Placement: at.Placement(&k.Outcome.Placement, k.Outcome.Err), Nodes: rpc.NodesToPB(k.Nodes),
		NextLocalId: k.NextLocalID, Members: at.List(k.Members), Targets: at.List(k.Targets),
	}
	reply.Placement.Container = r.GetContainer()
	reply.Placement.Replication, reply.Placement.Closed = uint32(k.Replication), k.Closed // whatever the outcome is
	for _, p := range k.Replicas {
		reply.Replicas = append(reply.Replicas, &pb.ReportedReplica{
			Node: at[p.Node], Index: uint32(p.Index), Closed: p.Closed, Blocks: p.Blocks, Bytes: p.Bytes, Damaged: p.Damaged,
		})
	}
	return reply, nil
}

// SetNodeState is the operator's will for a datanode.
func (c *locationCalls) SetNodeState(ctx context.Context, r *pb.SetNodeStateRequest) (*pb.SetNodeStateReply, error) {
	if r.GetWanted() > uint32(muster.Maintenance) {
		return nil, fmt.Errorf("%w: no operator can want a node to be %v", muster.ErrInvalid, muster.NodeState(min(r.GetWanted(), math.MaxUint8)))
	}
	d, err := c.registry.SetNodeState(ctx, r.GetNode(), muster.NodeState(r.GetWanted()))
	if err != nil {
		return nil, err
	}
	return &pb.SetNodeStateReply{Datanode: datanodeToPB(&d)}, nil
}

// LocationsStatus counts.
func (c *locationCalls) LocationsStatus(context.Context, *pb.LocationsStatusRequest) (*pb.LocationsStatusReply, error) {
	s := c.registry.Stats()
	reply := &pb.LocationsStatusReply{Counters: []*pb.Gauge{
		gauge("blocks_allocated", s.Allocated),
		gauge("containers", s.Containers),
		gauge("containers_missing", s.Missing),
		gauge("containers_open", s.Open),
		gauge("containers_surplus", s.Surplus),
		gauge("containers_under_replicated", s.UnderReplicated),
		gauge("copies", s.Copies),
		gauge("drops", s.Drops),
		gauge("heartbeats", s.Heartbeats),
		gauge("lookups", s.Lookups),
		gauge("nodes", s.Nodes),
		gauge("nodes_dead", s.Dead),
		gauge("nodes_stale", s.Stale),
		gauge("orders_done", s.OrdersDone),
		gauge("orders_failed", s.OrdersFailed),
		gauge("rack_file_refused", truth(s.Warning != "")),
		gauge("reports", s.Reports),
		gauge("reports_in", truth(s.Settled)),
		gauge("store_syncs", s.Syncs),
		gauge("topology_version", s.Version),
	}}
	if c.rpc != nil {
		calls, process := c.rpc.Stats(), processNow()
		reply.Counters = append(reply.Counters,
			gauge("calls", calls.Calls),
			gauge("calls_failed", calls.Failed),
			gauge("connections", calls.Connections),
			gauge("cpu_seconds", process.cpuSeconds),
			gauge("heap_bytes", process.heapBytes),
			gauge("resident_bytes", process.residentBytes),
		)
	}
	return reply, nil
}

func gauge[T int | int64 | uint64 | float64](name string, value T) *pb.Gauge {
	return &pb.Gauge{Name: name, Value: float64(value)}
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}

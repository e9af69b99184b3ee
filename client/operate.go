package client

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Datanode is a datanode as operators see it.
type Datanode struct {
	muster.Node                   // its state is the worse of the two below
	Wanted       muster.NodeState // the operators' will: InService, Draining or Maintenance
	Health       muster.NodeState // by its heartbeats: InService, Stale or Dead
	Containers   uint64           // that it reported
	HeartbeatAge time.Duration    // -1: none since the location service started
	Reported     bool             // all its containers, since the location service started
	Disks        []muster.Disk    // as of its last heartbeat; none: it has said nothing of any
}

// Topology is where datanodes are.
type Topology struct {
	Boot, Version uint64 // of this start of the location service, and of the topology since then
	Levels        []TopologyLevel
	Nodes         []muster.Node
	Rules         []RackRule // of the rack file
	Warning       string     // why the newest rack file is not in use; empty: it is
}

// TopologyLevel is a level of the topology.
type TopologyLevel struct {
	Name    string
	Cost    uint32 // of arriving at something of this level on the way from one node to another
	Prefix  string // with which the names of this level begin; empty: any
	Default string // the name of what has no location
}

// RackRule says where the hosts are that it matches: an address, a network or a name.
type RackRule struct{ Match, Rack string }

// Container is all that the location service knows of a container.
type Container struct {
	ID          uint64
	Replication muster.Replication
	Closed      bool
	NextLocalID uint64              // no block has this one or a higher one
	Members     []muster.NodeNumber // chosen when it was made; erasure-coded: in the order of the replica index
	Replicas    []ContainerReplica  // that were reported
	Located     []muster.NodeNumber // what readers are told, in the same order; muster.NoNode is an absent one
	Err         error               // why readers are told nothing
	Nodes       []muster.Node       // all that are named here
}

// ContainerReplica is a replica as its datanode has reported it.
type ContainerReplica struct {
	Node   muster.NodeNumber
	Index  uint32 // erasure-coded: from 1; else 0
	Closed bool

	Blocks, Bytes, Damaged uint64 // that are committed: how many, their bytes, and how many are damaged
}

// Datanodes lists the datanodes by number.
func (c *Client) Datanodes(ctx context.Context) ([]Datanode, error) {
	nodes, err := retry(ctx, c, func(ctx context.Context) ([]Datanode, error) {
		r, err := c.service.Datanodes(ctx, &pb.DatanodesRequest{})
		if err != nil {
			return nil, err
		}
		nodes := make([]Datanode, len(r.GetDatanodes()))
		for i, m := range r.GetDatanodes() {
			if nodes[i], err = datanodeFromPB(m); err != nil {
				return nil, err
			}
		}
		return nodes, nil
	})
	return nodes, operation("datanodes", err)
}

// Topology returns where datanodes are.
func (c *Client) Topology(ctx context.Context) (Topology, error) {
	t, err := retry(ctx, c, func(ctx context.Context) (Topology, error) {
		r, err := c.service.Topology(ctx, &pb.TopologyRequest{})
		if err != nil {
			return Topology{}, err
		}
		t := Topology{Boot: r.GetBoot(), Version: r.GetVersion(), Warning: r.GetWarning()}
		for _, l := range r.GetLevels() {
			t.Levels = append(t.Levels, TopologyLevel{l.GetName(), l.GetCost(), l.GetPrefix(), l.GetDefaultName()})
		}
		for _, rule := range r.GetRules() {
			t.Rules = append(t.Rules, RackRule{rule.GetMatch(), rule.GetRack()})
		}
		t.Nodes, err = rpc.NodesFromPB(r.GetNodes())
		return t, err
	})
	return t, operation("topology", err)
}

// Container says all that is known of one container.
func (c *Client) Container(ctx context.Context, id uint64) (Container, error) {
	k, err := retry(ctx, c, func(ctx context.Context) (Container, error) {
		r, err := c.service.Container(ctx, &pb.ContainerRequest{Container: id})
		if err != nil {
			return Container{}, err
		}
		return containerFromPB(r)
	})
	return k, operation(fmt.Sprintf("container %d", id), err)
}

// SetNodeState sets what operators want a datanode to be: InService, Draining or
// Maintenance. It is named by its id, or by its host if no other is there. This is for
// superusers.
func (c *Client) SetNodeState(ctx context.Context, node string, wanted muster.NodeState) (Datanode, error) {
	d, err := retry(ctx, c, func(ctx context.Context) (Datanode, error) {
		r, err := c.service.SetNodeState(ctx, &pb.SetNodeStateRequest{Node: node, Wanted: uint32(wanted)})
		if err != nil {
			return Datanode{}, err
		}
		return datanodeFromPB(r.GetDatanode())
	})
	return d, operation("datanode "+node, err)
}

// operation puts the name of what failed before an error.
func operation(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func datanodeFromPB(m *pb.Datanode) (Datanode, error) {
	n, err := rpc.NodeFromPB(m.GetNode())
	if err != nil {
		return Datanode{}, err
	}
	if m.GetWanted() > uint32(muster.Dead) || m.GetHealth() > uint32(muster.Dead) {
		return Datanode{}, corrupt("node %d of states %d and %d", n.Number, m.GetWanted(), m.GetHealth())
	}
	disks, err := rpc.DisksFromPB(m.GetDisks(), len(m.GetDisks()))
	if err != nil {
		return Datanode{}, corrupt("node %d: %v", n.Number, err)
	}
	age := time.Duration(-1)
	if ms := m.GetHeartbeatAgeMs(); ms >= 0 {
		age = time.Duration(ms) * time.Millisecond
	}
	return Datanode{
		Node: n, Wanted: muster.NodeState(m.GetWanted()), Health: muster.NodeState(m.GetHealth()),
		Containers: m.GetContainers(), HeartbeatAge: age, Reported: m.GetReported(), Disks: disks,
	}, nil
}

func containerFromPB(r *pb.ContainerReply) (k Container, err error) {
	p := r.GetPlacement()
	k = Container{ID: p.GetContainer(), Closed: p.GetClosed(), NextLocalID: r.GetNextLocalId(), Err: rpc.FromStatus(p.GetCode(), p.GetMessage())}
	if k.Replication = muster.Replication(p.GetReplication()); p.GetReplication() > 0xffff || !k.Replication.Valid() {
		return Container{}, corrupt("container %d of replication %#x", k.ID, p.GetReplication())
	}
	if k.Nodes, err = rpc.NodesFromPB(r.GetNodes()); err != nil {
		return Container{}, err
	}
	if k.Members, err = rpc.NumbersAt(r.GetMembers(), k.Nodes); err != nil {
		return Container{}, err
	}
	if k.Located, err = rpc.NumbersAt(p.GetNodes(), k.Nodes); err != nil {
		return Container{}, err
	}
	for _, m := range r.GetReplicas() {
		node, err := rpc.NumbersAt([]uint32{m.GetNode()}, k.Nodes)
		if err != nil {
			return Container{}, err
		}
		k.Replicas = append(k.Replicas, ContainerReplica{node[0], m.GetIndex(), m.GetClosed(), m.GetBlocks(), m.GetBytes(), m.GetDamaged()})
	}
	return k, nil
}

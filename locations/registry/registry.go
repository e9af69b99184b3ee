package registry

import (
	"context"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
)

// Registry is what the location service knows.
type Registry struct{}

// Open opens the registry in a folder, which it makes if it does not exist.
func Open(dir string, o Options) (*Registry, error) { panic("not yet") }

// Close stops the registry.
func (r *Registry) Close() error { panic("not yet") }

// Registration is what a datanode says of itself.
type Registration struct {
	ID       string
	Host     string
	Address  string // IP address; may be empty
	Port     uint16
	HTTPPort uint16 // 0: none
	Rack     string // "": what the mapping file says
}

// Registered is what a datanode is told.
type Registered struct {
	Number    muster.NodeNumber
	Rack      string        // as the registry sees it
	Heartbeat time.Duration // how often to send heartbeats
	Boot      uint64        // of this start of the registry; heartbeats and reports name it
}

// Register makes a datanode known, or known again.
func (r *Registry) Register(ctx context.Context, g Registration) (Registered, error) {
	panic("not yet")
}

// Heartbeat notes that a datanode lives. ErrNotFound: it has to register again.
func (r *Registry) Heartbeat(number muster.NodeNumber, boot uint64) (report bool, err error) {
	panic("not yet")
}

// Replica is a container on a datanode.
type Replica struct {
	Container uint64
	Index     uint8 // erasure-coded: from 1; else 0
	Closed    bool
	Gone      bool // of a report that is not full: it was removed
}

// Report notes which containers a datanode has.
func (r *Registry) Report(number muster.NodeNumber, boot uint64, full bool, replicas []Replica) (unknown uint64, err error) {
	panic("not yet")
}

// Lookup says where containers are, each with an outcome of its own.
func (r *Registry) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	panic("not yet")
}

// AllocateRequest asks for blocks.
type AllocateRequest struct {
	Replication muster.Replication
	Count       int                 // of blocks, 1 to muster.MaxBlocks
	Exclude     []muster.NodeNumber // nodes that failed
}

// BlockID names a block.
type BlockID struct{ Container, LocalID uint64 }

// Allocation is blocks and where they go.
type Allocation struct {
	Blocks     []BlockID
	Placements []muster.Placement // of their containers, each once
	Nodes      []muster.Node      // of the placements, each once
}

// Allocate gives blocks in open containers.
func (r *Registry) Allocate(ctx context.Context, q AllocateRequest) (Allocation, error) {
	panic("not yet")
}

// CloseContainer ends adding blocks to a container.
func (r *Registry) CloseContainer(ctx context.Context, container uint64) error { panic("not yet") }

// Imported is a container as [Registry.Import] takes it.
type Imported struct {
	Container   uint64
	Replication muster.Replication
	Closed      bool
	Members     []muster.NodeNumber // as many as the replication has nodes
	NextLocalID uint64              // no block has this one or a higher one; 0: 1
}

// Import makes many containers known at once, all or none.
func (r *Registry) Import(ctx context.Context, containers []Imported) error { panic("not yet") }

// Datanode is a datanode as operators see it.
type Datanode struct {
	Node         muster.Node
	Wanted       muster.NodeState // the operator's will: InService, Draining or Maintenance
	Health       muster.NodeState // by heartbeats: InService, Stale or Dead
	Containers   int              // that it reported
	HeartbeatAge time.Duration    // -1: none since the start
	Reported     bool             // it has made a full report since the start
}

// Datanodes lists the datanodes by number.
func (r *Registry) Datanodes() []Datanode { panic("not yet") }

// ReportedReplica is a replica that a datanode reported.
type ReportedReplica struct {
	Node   muster.NodeNumber
	Index  uint8 // erasure-coded: from 1
	Closed bool
}

// Container is all that is known of one container.
type Container struct {
	Outcome     locations.Outcome // as Lookup answers
	Nodes       []muster.Node     // that are named here, each once
	NextLocalID uint64
	Members     []muster.NodeNumber // chosen when it was made
	Replicas    []ReportedReplica
}

// Container says all that is known of one container.
func (r *Registry) Container(container uint64) (Container, error) { panic("not yet") }

// SetNodeState sets the operator's will for the datanode of an id, or of a host that no other has.
func (r *Registry) SetNodeState(ctx context.Context, node string, wanted muster.NodeState) (Datanode, error) {
	panic("not yet")
}

// Snapshot is the topology: what followers need to make their tree of.
type Snapshot struct {
	Boot    uint64 // of this start of the registry
	Version uint64 // of the topology since then, from 1
	Schema  topology.Schema
	Nodes   []muster.Node // by number
	Rules   []topology.Rule
}

// Topology returns the newest snapshot: at once if it is not the one of boot and version, else
// when it changes or wait is over.
func (r *Registry) Topology(ctx context.Context, boot, version uint64, wait time.Duration) (*Snapshot, error) {
	panic("not yet")
}

// Stats counts.
type Stats struct {
	Nodes, Stale, Dead int
	Containers, Open   int
	Lookups, Reports   uint64
	Allocated          uint64 // blocks
	Settled            bool   // reports are in, or the time for them is over
	Version            uint64 // of the topology
	MappingError       string // why the newest mapping file is not in use
}

// Stats counts.
func (r *Registry) Stats() Stats { panic("not yet") }

package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/locations/registry"
)

// ClusterOptions say how many datanodes there are. Zero values work.
type ClusterOptions struct {
	Nodes int // 0: 12
	Racks int // 0: 4; the datanodes are dealt out to them
	// Replicate has the datanodes say that each container has a block, and do what the service
	// orders: what they are to copy, they have. Else there is nothing to copy.
	Replicate bool
}

// maxClusterNodes bounds a simulated cluster.
const maxClusterNodes = 10_000

func (o ClusterOptions) withDefaults() ClusterOptions {
	if o.Nodes == 0 {
		o.Nodes = 12
	}
	if o.Racks == 0 {
		o.Racks = min(4, o.Nodes)
	}
	return o
}

// Validate says what is no cluster.
func (o ClusterOptions) Validate() error {
	if o = o.withDefaults(); o.Racks < 1 || o.Nodes < o.Racks || o.Nodes > maxClusterNodes {
		return fmt.Errorf("%w: %d datanodes in %d racks; use at least one a rack, and at most %d", muster.ErrInvalid, o.Nodes, o.Racks, maxClusterNodes)
	}
	return nil
}

// Cluster is datanodes without disks: they register with a location service, send heartbeats, and
// say that they have what is allocated on them. To the service they are like any others.
//
// Datanode i is node-i on host dn-i, in rack /rack-(i mod racks). It is safe for concurrent use,
// but Kill, Revive and Move of one datanode come one after another, and Close comes last.
type Cluster struct {
	service   clusterService
	racks     int
	replicate bool

	mu       sync.Mutex   // guards what follows, and what the datanodes hold; never held over a call
	nodes    []*simulated // by their place in the cluster
	byNumber map[muster.NodeNumber]*simulated
}

// clusterService is a location service as datanodes and writers use it.
type clusterService interface {
	join(ctx context.Context, o member.Options) (membership, error)
	allocate(ctx context.Context, q registry.AllocateRequest) (registry.Allocation, error)
	// closed makes containers that take no blocks.
	closed(ctx context.Context, r muster.Replication, n int) ([]registry.Imported, error)
	closeContainer(ctx context.Context, id uint64) error
	close() error
}

// membership is a datanode's standing with the service: a member.Member, or a seat.
type membership interface {
	Number() muster.NodeNumber
	Rack() string
	Report(ctx context.Context, changes []member.Replica) (unknown uint64, err error)
	ReportAll(ctx context.Context) error
	Close() error
}

// simulated is a datanode. Its cluster's mu guards it.
type simulated struct {
	options member.Options
	member  membership // nil: it is dead
	number  muster.NodeNumber
	held    map[uint64]member.Replica
}

// JoinCluster has a cluster join the location service at an address, over the wire. It is
// either a service of its own or a namespace server's; the key is that of the whole cluster.
func JoinCluster(ctx context.Context, address string, clusterKey []byte, o ClusterOptions) (*Cluster, error) {
	s, err := newWireService(address, clusterKey)
	if err != nil {
		return nil, err
	}
	return newCluster(ctx, s, o)
}

// NewCluster has a cluster join a registry in this process, without a wire.
func NewCluster(ctx context.Context, r *registry.Registry, o ClusterOptions) (*Cluster, error) {
	return newCluster(ctx, localService{r}, o)
}

func newCluster(ctx context.Context, s clusterService, o ClusterOptions) (*Cluster, error) {
	c := &Cluster{service: s, byNumber: map[muster.NodeNumber]*simulated{}}
	if err := o.Validate(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	o = o.withDefaults()
	c.racks, c.replicate = o.Racks, o.Replicate
	for i := range o.Nodes {
		n := &simulated{held: map[uint64]member.Replica{}}
		n.options = member.Options{
			ID: fmt.Sprintf("node-%d", i), Host: fmt.Sprintf("dn-%d", i), Address: fmt.Sprintf("10.99.%d.%d", i/250, 1+i%250), Port: 9866,
			Rack: c.Rack(i), Replicas: func() []member.Replica { return c.replicas(n) },
		}
		if o.Replicate {
			n.options.Order = func(ctx context.Context, order muster.Order) error { return c.obey(ctx, n, order) }
		}
		c.nodes = append(c.nodes, n)
		if err := c.join(ctx, n); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close ends all datanodes, as Kill does.
func (c *Cluster) Close() error {
	return errors.Join(c.Leave(), c.service.close())
}

// Leave ends all datanodes, as Kill does, until Rejoin.
func (c *Cluster) Leave() error {
	var errs []error
	for i := range c.nodes {
		errs = append(errs, c.Kill(i))
	}
	return errors.Join(errs...)
}

// Rejoin brings all datanodes back, with all that they had, at the location service at an address,
// over the wire. Like Close it is for when nobody else uses the cluster.
func (c *Cluster) Rejoin(ctx context.Context, address string, clusterKey []byte) error {
	s, err := newWireService(address, clusterKey)
	if err != nil {
		return err
	}
	err = errors.Join(c.Leave(), c.service.close())
	c.service = s
	c.mu.Lock()
	clear(c.byNumber)
	c.mu.Unlock()
	for _, n := range c.nodes {
		if err == nil {
			err = c.join(ctx, n)
		}
	}
	return err
}

// Len is the number of datanodes, dead ones included.
func (c *Cluster) Len() int { return len(c.nodes) }

// Number is the number of datanode i in placements.
func (c *Cluster) Number(i int) muster.NodeNumber {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].number
}

// Host is the host of datanode i.
func (c *Cluster) Host(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].options.Host
}

// Rack is the rack that datanode i was in first.
func (c *Cluster) Rack(i int) string { return fmt.Sprintf("/rack-%d", i%c.racks) }

// Holds returns the containers that datanode i has, in order.
func (c *Cluster) Holds(i int) []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.nodes[i].held))
}

// Kill ends the heartbeats of datanode i. The service finds out by and by.
func (c *Cluster) Kill(i int) error {
	c.mu.Lock()
	m := c.nodes[i].member
	c.nodes[i].member = nil
	c.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.Close()
}

// Revive brings datanode i back, with all that it had.
func (c *Cluster) Revive(ctx context.Context, i int) error {
	c.mu.Lock()
	n := c.nodes[i]
	alive := n.member != nil
	c.mu.Unlock()
	if alive {
		return nil
	}
	return c.join(ctx, n)
}

// Move restarts datanode i on another host, with all that it had. rack "" is the one before.
func (c *Cluster) Move(ctx context.Context, i int, host, address, rack string) error {
	if err := c.Kill(i); err != nil {
		return err
	}
	c.mu.Lock()
	n := c.nodes[i]
	n.options.Host, n.options.Address = host, address
	if rack != "" {
		n.options.Rack = rack
	}
	c.mu.Unlock()
	return c.join(ctx, n)
}

// join makes a datanode a member, and reports what it has.
func (c *Cluster) join(ctx context.Context, n *simulated) error {
	c.mu.Lock()
	o := n.options
	c.mu.Unlock()
	m, err := c.service.join(ctx, o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	n.member, n.number = m, m.Number()
	c.byNumber[n.number] = n
	c.mu.Unlock()
	return m.ReportAll(ctx)
}

// replicas are all that a datanode has.
func (c *Cluster) replicas(n *simulated) []member.Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(n.held))
}

// Allocate allocates blocks. When it returns, the datanodes have reported their containers.
func (c *Cluster) Allocate(ctx context.Context, r muster.Replication, blocks int, exclude ...muster.NodeNumber) (registry.Allocation, error) {
	given, err := c.service.allocate(ctx, registry.AllocateRequest{Replication: r, Count: blocks, Exclude: exclude})
	if err != nil {
		return given, err
	}
	var all changes
	for _, p := range given.Placements {
		c.hold(&all, p.Container, p.Replication, p.Closed, p.Nodes)
	}
	return given, all.report(ctx)
}

// Make makes closed containers, whose replicas are dealt out to the datanodes in turn, reports
// them, and returns their ids. With no wire that takes little time for millions; over one each
// takes two calls.
func (c *Cluster) Make(ctx context.Context, r muster.Replication, containers int) ([]uint64, error) {
	made, err := c.service.closed(ctx, r, containers)
	if err != nil {
		return nil, err
	}
	var all changes
	ids := make([]uint64, len(made))
	for i, m := range made {
		ids[i] = m.Container
		c.hold(&all, m.Container, r, true, m.Members)
	}
	return ids, all.report(ctx)
}

// CloseContainer ends adding blocks to a container; those that have it report so.
func (c *Cluster) CloseContainer(ctx context.Context, id uint64) error {
	if err := c.service.closeContainer(ctx, id); err != nil {
		return err
	}
	var all changes
	c.mu.Lock()
	for _, n := range c.nodes {
		if r, has := n.held[id]; has && !r.Closed {
			r.Closed = true
			n.held[id] = r
			all.add(n, r)
		}
	}
	c.mu.Unlock()
	return all.report(ctx)
}

// Lose has datanode i lose containers, and report so.
func (c *Cluster) Lose(ctx context.Context, i int, containers ...uint64) error {
	var all changes
	c.mu.Lock()
	n := c.nodes[i]
	for _, id := range containers {
		if r, has := n.held[id]; has {
			delete(n.held, id)
			r.Gone = true
			all.add(n, r)
		}
	}
	c.mu.Unlock()
	return all.report(ctx)
}

// obey does what the service orders a datanode to do, and reports it.
func (c *Cluster) obey(ctx context.Context, n *simulated, o muster.Order) error {
	var all changes
	c.mu.Lock()
	has := func(s muster.Node) bool {
		from := c.byNumber[s.Number]
		return from != nil && from.member != nil && from.held[o.Container].Blocks > 0
	}
	r := member.Replica{Container: o.Container, Closed: o.Closed, Blocks: 1, Gone: o.Kind == muster.OrderDrop}
	var err error
	switch {
	case r.Gone:
		delete(n.held, o.Container)
	case slices.ContainsFunc(o.Sources, has):
		n.held[o.Container] = r
	default:
		err = fmt.Errorf("%w: no datanode that lives has container %d", muster.ErrNoData, o.Container)
	}
	if err == nil {
		all.add(n, r)
	}
	c.mu.Unlock()
	return errors.Join(err, all.report(ctx))
}

// hold has datanodes have a container, and notes what they are to report.
func (c *Cluster) hold(all *changes, id uint64, r muster.Replication, closed bool, nodes []muster.NodeNumber) {
	_, _, coded := r.Coding()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, number := range nodes {
		n := c.byNumber[number] // nil: absent, or none of ours
		if n == nil {
			continue
		}
		if _, has := n.held[id]; has {
			continue
		}
		replica := member.Replica{Container: id, Closed: closed}
		if coded {
			replica.Index = uint8(i + 1)
		}
		if c.replicate {
			replica.Blocks = 1
		}
		n.held[id] = replica
		all.add(n, replica)
	}
}

// changes are what datanodes that live have to report.
type changes struct {
	of map[membership][]member.Replica
}

// add notes a change of a datanode; its cluster's mu is held.
func (c *changes) add(n *simulated, r member.Replica) {
	if n.member == nil {
		return
	}
	if c.of == nil {
		c.of = map[membership][]member.Replica{}
	}
	c.of[n.member] = append(c.of[n.member], r)
}

func (c *changes) report(ctx context.Context) error {
	for m, replicas := range c.of {
		if _, err := m.Report(ctx, replicas); err != nil {
			return err
		}
	}
	return nil
}

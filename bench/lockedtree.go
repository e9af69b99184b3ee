package bench

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// lockedTree is a topology that changes in place, as Apache Ozone's does before HDDS-17553: each
// distance climbs parents under a read lock, and so does finding the reader. It is what
// Topology holds the snapshot against, so it has what can be had without giving up the lock: no
// memory is taken for a sort, replicas are found by number, and the rack of a client that is
// no datanode is looked up once.
type lockedTree struct {
	mapping *topology.Mapping
	racks   sync.Map // of clients, by host: string

	mu    sync.RWMutex // guards what follows, and all that it leads to
	costs []int32      // by level
	nodes []*lockedNode
	hosts map[string]*lockedNode
	inner map[string]*lockedInner
}

type lockedInner struct {
	parent *lockedInner
	level  int
	client lockedNode // stands for clients in this rack
}

type lockedNode struct{ parent *lockedInner } // nil: it is in no tree

// newLockedTree builds a tree of three levels: root, racks and nodes.
func newLockedTree(nodes []muster.Node, m *topology.Mapping) *lockedTree {
	root := &lockedInner{}
	t := &lockedTree{
		mapping: m, costs: []int32{1, 1, 0}, nodes: make([]*lockedNode, len(nodes)),
		hosts: map[string]*lockedNode{}, inner: map[string]*lockedInner{},
	}
	for _, n := range nodes {
		rack := t.inner[n.Rack]
		if rack == nil {
			rack = &lockedInner{parent: root, level: 1}
			rack.client.parent = rack
			t.inner[n.Rack] = rack
		}
		node := &lockedNode{rack}
		t.nodes[n.Number], t.hosts[n.Host] = node, node
	}
	return t
}

// touch takes a node out of the tree and puts it back, as an update does.
func (t *lockedTree) touch(n *muster.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.hosts, n.Host)
	node := &lockedNode{t.inner[n.Rack]}
	t.nodes[n.Number], t.hosts[n.Host] = node, node
}

// reader finds a client.
func (t *lockedTree) reader(host string) *lockedNode {
	if n := t.byHost(host); n != nil {
		return n
	}
	rack, known := t.racks.Load(host)
	if !known {
		rack, _ = t.mapping.Rack(host)
		t.racks.Store(host, rack)
	}
	return t.byRack(rack.(string))
}

func (t *lockedTree) byHost(host string) *lockedNode {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.hosts[host]
}

func (t *lockedTree) byRack(rack string) *lockedNode {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if r := t.inner[rack]; r != nil {
		return &r.client
	}
	return nil
}

// distance is the cost of the way between a reader and a node.
func (t *lockedTree) distance(a *lockedNode, number muster.NodeNumber) int32 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	b := t.nodes[number]
	if a == b {
		return 0
	}
	if a.parent == nil || b.parent == nil {
		return math.MaxInt32
	}
	one, other := a.parent, b.parent
	cost := t.costs[one.level] + t.costs[other.level]
	for one != other {
		one, other = one.parent, other.parent
		if one == nil || other == nil {
			return math.MaxInt32
		}
		cost += t.costs[one.level] + t.costs[other.level]
	}
	return cost
}

// sort appends the replicas by cost, those of one cost shuffled.
func (t *lockedTree) sort(dst, replicas []muster.NodeNumber, reader *lockedNode) []muster.NodeNumber {
	begin := len(dst)
	dst = append(dst, replicas...)
	sorted := dst[begin:]
	for i := len(sorted) - 1; i > 0; i-- {
		k := rand.IntN(i + 1)
		sorted[i], sorted[k] = sorted[k], sorted[i]
	}
	if reader == nil {
		return dst
	}
	var room [maxReplicas]int32
	costs := room[:len(sorted)]
	for i, n := range sorted {
		costs[i] = t.distance(reader, n)
	}
	for i := 1; i < len(sorted); i++ {
		n, cost := sorted[i], costs[i]
		at := i
		for ; at > 0 && costs[at-1] > cost; at-- {
			sorted[at], costs[at] = sorted[at-1], costs[at-1]
		}
		sorted[at], costs[at] = n, cost
	}
	return dst
}

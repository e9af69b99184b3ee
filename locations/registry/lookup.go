package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
)

// Lookup says where containers are, each with an outcome of its own: ErrNotFound for one that is
// not known, ErrUnavailable for one of which no usable replica has been reported yet, shortly after
// the start; after that, it is a placement that is not usable. Lookup is a locations.Source.
func (r *Registry) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	if err := r.alive(); err != nil {
		return locations.Answer{}, err
	}
	r.counts.lookups.Add(uint64(len(containers)))
	a := locations.Answer{Outcomes: make([]locations.Outcome, 0, len(containers))}
	for len(containers) > 0 {
		if err := ctx.Err(); err != nil {
			return locations.Answer{}, err
		}
		some := containers[:min(step, len(containers))]
		containers = containers[len(some):]
		a.Outcomes = r.lookup(a.Outcomes, some)
	}
	var named numbers
	for i := range a.Outcomes {
		named.add(a.Outcomes[i].Placement.Nodes...)
	}
	a.Nodes = r.describe(named)
	return a, nil
}

// stage is how many containers are looked for before the first is looked at: what costs is
// memory, which is waited for once for several.
const stage = 64

func (r *Registry) lookup(dst []locations.Outcome, ids []uint64) []locations.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found [stage]*container
	var nodes []muster.NodeNumber
	for len(ids) > 0 {
		some := ids[:min(stage, len(ids))]
		ids = ids[len(some):]
		for i, id := range some {
			found[i] = r.containers[id]
		}
		replicas := 0
		for _, c := range found[:len(some)] {
			if c != nil {
				replicas += max(len(c.members), len(c.replicas))
			}
		}
		if cap(nodes)-len(nodes) < replicas {
			nodes = make([]muster.NodeNumber, 0, replicas)
		}
		for i, id := range some {
			var o locations.Outcome
			o, nodes = r.outcome(nodes, id, found[i])
			dst = append(dst, o)
		}
	}
	return dst
}

// outcome answers for one container, nil if it is not known. The placement's nodes are appended to
// nodes. The caller holds mu.
func (r *Registry) outcome(nodes []muster.NodeNumber, id uint64, c *container) (locations.Outcome, []muster.NodeNumber) {
	if c == nil {
		return locations.Outcome{Err: fmt.Errorf("%w: there is no container %d", muster.ErrNotFound, id)}, nodes
	}
	p, nodes := r.place(nodes, c)
	if !r.settled && !p.Usable() {
		return locations.Outcome{Err: fmt.Errorf("%w: no usable replica of container %d is known yet; reports are still coming in", muster.ErrUnavailable, id)}, nodes
	}
	return locations.Outcome{Placement: p}, nodes
}

// numbers is a set of datanodes, in the order in which they were added.
type numbers struct {
	list []muster.NodeNumber
	has  []uint64 // a bit for each number
}

func (s *numbers) add(nodes ...muster.NodeNumber) {
	for _, n := range nodes {
		word, bit := int(n/64), uint64(1)<<(n%64)
		switch {
		case n == muster.NoNode:
			continue
		case word >= len(s.has):
			s.has = append(s.has, make([]uint64, word+1-len(s.has))...)
		case s.has[word]&bit != 0:
			continue
		}
		s.has[word] |= bit
		s.list = append(s.list, n)
	}
}

// describe describes datanodes of the newest view, which has all that any placement names.
func (r *Registry) describe(named numbers) []muster.Node {
	all := r.view.Load().Nodes
	nodes := make([]muster.Node, len(named.list))
	for i, n := range named.list {
		nodes[i] = all[n]
	}
	return nodes
}

// ReportedReplica is a replica that a datanode reported.
type ReportedReplica struct {
	Node   muster.NodeNumber
	Index  uint8 // erasure-coded: from 1
	Closed bool

	Blocks, Bytes, Damaged uint64 // that are committed: how many, their bytes, and how many are damaged
}

// Container is all that is known of one container.
type Container struct {
	Outcome     locations.Outcome   // as Lookup answers
	NextLocalID uint64              // of the block to be added next
	Closed      bool                // as far as the registry decides it
	Replication muster.Replication  // whatever the outcome is
	Members     []muster.NodeNumber // chosen when it was made; erasure-coded: by replica index
	Replicas    []ReportedReplica   // that were reported and not since reported to be gone, of dead datanodes too
	Targets     []muster.NodeNumber // that were ordered to copy it, and may have, or may still get, some of it
	Nodes       []muster.Node       // that are named here, each once
}

// Container says all that is known of one container.
func (r *Registry) Container(id uint64) (Container, error) {
	if err := r.alive(); err != nil {
		return Container{}, err
	}
	d, named, err := r.container(id)
	if err != nil {
		return Container{}, err
	}
	d.Nodes = r.describe(named)
	return d, nil
}

func (r *Registry) container(id uint64) (Container, numbers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var named numbers
	c := r.containers[id]
	o, _ := r.outcome(nil, id, c)
	if c == nil {
		return Container{}, named, o.Err
	}
	d := Container{Outcome: o, NextLocalID: c.next, Closed: c.closed, Replication: c.replication, Members: slices.Clone(c.members), Targets: slices.Clone(r.targets[id])}
	named.add(c.members...)
	named.add(d.Targets...)
	named.add(o.Placement.Nodes...)
	for _, p := range c.replicas {
		if p.counts(r.nodes[p.node]) {
			d.Replicas = append(d.Replicas, ReportedReplica{p.node, p.index, p.closed, uint64(p.blocks), p.bytes, uint64(p.damaged)})
			named.add(p.node)
		}
	}
	return d, named, nil
}

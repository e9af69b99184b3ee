package registry

import (
	"context"
	"fmt"

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
		named.add(a.Outcomes[i].Placement.Nodes)
	}
	a.Nodes = r.describe(named)
	return a, nil
}

func (r *Registry) lookup(dst []locations.Outcome, containers []uint64) []locations.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range containers {
		dst = append(dst, r.outcome(id))
	}
	return dst
}

// outcome answers for one container. The caller holds mu.
func (r *Registry) outcome(id uint64) locations.Outcome {
	c := r.containers[id]
	if c == nil {
		return locations.Outcome{Err: fmt.Errorf("%w: there is no container %d", muster.ErrNotFound, id)}
	}
	p := r.place(c)
	if !r.settled && !p.Usable() {
		return locations.Outcome{Err: fmt.Errorf("%w: no usable replica of container %d is known yet; reports are still coming in", muster.ErrUnavailable, id)}
	}
	return locations.Outcome{Placement: p}
}

// numbers is a set of datanodes, in the order in which they were added.
type numbers struct {
	list []muster.NodeNumber
	has  map[muster.NodeNumber]struct{}
}

func (s *numbers) add(nodes []muster.NodeNumber) {
	if s.has == nil {
		s.has = map[muster.NodeNumber]struct{}{}
	}
	for _, n := range nodes {
		if _, again := s.has[n]; !again && n != muster.NoNode {
			s.has[n] = struct{}{}
			s.list = append(s.list, n)
		}
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
}

// Container is all that is known of one container.
type Container struct {
	Outcome     locations.Outcome   // as Lookup answers
	NextLocalID uint64              // of the block to be added next
	Closed      bool                // as far as the registry decides it
	Replication muster.Replication  // whatever the outcome is
	Members     []muster.NodeNumber // chosen when it was made; erasure-coded: by replica index
	Replicas    []ReportedReplica   // that were reported and not since reported to be gone, of dead datanodes too
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
	o := r.outcome(id)
	c := r.containers[id]
	if c == nil {
		return Container{}, named, o.Err
	}
	d := Container{Outcome: o, NextLocalID: c.next, Closed: c.closed, Replication: c.replication, Members: c.members}
	named.add(c.members)
	named.add(o.Placement.Nodes)
	for _, p := range c.replicas {
		if p.counts(r.nodes[p.node]) {
			d.Replicas = append(d.Replicas, ReportedReplica{p.node, p.index, p.closed})
			named.add([]muster.NodeNumber{p.node})
		}
	}
	return d, named, nil
}

package registry

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

// order is an order under way. It is in memory alone: after a restart they are made anew. The
// registry's mu guards progress, blocks and bytes; the rest never changes.
type order struct {
	id        uint64
	kind      muster.OrderKind
	container uint64
	target    muster.NodeNumber   // who carries it out
	sources   []muster.NodeNumber // of a copy: the best first

	progress time.Time // when it was made, or the target last reported more than before
	blocks   uint32    // that the target reported then
	bytes    uint64
}

// orders are the orders under way, and what planning remembers of containers. The registry's mu
// guards them.
type orders struct {
	byID         map[uint64]*order
	of           map[uint64][]*order // by container
	memories     map[uint64]*memory  // by container
	last         uint64              // id given last
	copies       int                 // under way; the others are drops
	done, failed uint64              // since the start
}

// give has a datanode carry an order out. The caller holds mu.
func (r *Registry) give(o *order) {
	s := &r.orders
	for s.last++; s.last == 0; s.last++ {
	}
	o.id = s.last
	s.byID[o.id] = o
	s.of[o.container] = append(s.of[o.container], o)
	n := r.nodes[o.target]
	n.orders = append(n.orders, o)
	if o.kind == muster.OrderCopy {
		s.copies++
	}
	if p := r.containers[o.container].of(o.target); p != nil {
		o.blocks, o.bytes = p.blocks, p.bytes
	}
	r.opts.Logger.Info("a datanode is ordered", "order", o.id, "to", o.kind, "container", o.container, "datanode", n.ID, "host", n.Host)
}

// withdraw ends an order, however far it is. The caller holds mu.
func (r *Registry) withdraw(o *order) {
	s := &r.orders
	same := func(x *order) bool { return x == o }
	delete(s.byID, o.id)
	if left := slices.DeleteFunc(s.of[o.container], same); len(left) > 0 {
		s.of[o.container] = left
	} else {
		delete(s.of, o.container)
	}
	n := r.nodes[o.target]
	n.orders = slices.DeleteFunc(n.orders, same)
	if o.kind == muster.OrderCopy {
		s.copies--
	}
	r.memory(o.container).end(o.target, time.Now())
}

// memory returns what is remembered of a container. The caller holds mu.
func (r *Registry) memory(container uint64) *memory {
	m := r.orders.memories[container]
	if m == nil {
		m = &memory{}
		r.orders.memories[container] = m
	}
	return m
}

// ended notes how a datanode's order ended. The caller holds mu.
func (r *Registry) ended(n *node, result OrderResult) {
	o := r.orders.byID[result.ID]
	if o == nil || o.target != n.number {
		return // it was withdrawn, or is of before the start
	}
	r.withdraw(o)
	if result.Err != nil {
		r.fail(o, result.Err)
		return
	}
	r.orders.done++
	r.opts.Logger.Info("an order is done", "order", o.id, "kind", o.kind, "container", o.container, "datanode", n.ID, "host", n.Host)
	if p := r.containers[o.container].of(n.number); o.kind == muster.OrderDrop && p != nil {
		if p.counts(n) {
			n.containers--
		}
		p.gone = true
	}
}

// fail notes that an order was not carried out. The caller holds mu.
func (r *Registry) fail(o *order, why error) {
	r.orders.failed++
	n := r.nodes[o.target]
	r.opts.Logger.Warn("an order was not carried out, and is planned anew", "order", o.id, "kind", o.kind, "container", o.container, "datanode", n.ID, "host", n.Host, "error", why)
}

// expire withdraws orders that make no progress, and those of datanodes that are dead. The caller
// holds mu.
func (r *Registry) expire(now time.Time) {
	for _, o := range r.orders.byID {
		n := r.nodes[o.target]
		if p := r.containers[o.container].of(o.target); p != nil && p.counts(n) && (p.blocks != o.blocks || p.bytes != o.bytes) {
			o.blocks, o.bytes, o.progress = p.blocks, p.bytes, now
		}
		switch {
		case n.health == muster.Dead:
			r.withdraw(o)
			r.fail(o, fmt.Errorf("%w: the datanode is dead", muster.ErrUnavailable))
		case now.Sub(o.progress) >= r.opts.OrderTimeout:
			r.withdraw(o)
			r.fail(o, fmt.Errorf("%w: no progress in %v", muster.ErrDeadline, r.opts.OrderTimeout))
		}
	}
}

// ordered returns the orders of a datanode. The registry's mu is held.
func (r *Registry) ordered(n *node) []muster.Order {
	if len(n.orders) == 0 {
		return nil
	}
	all := make([]muster.Order, len(n.orders))
	for i, o := range n.orders {
		all[i] = muster.Order{ID: o.id, Kind: o.kind, Container: o.container, Closed: true}
		for _, s := range o.sources {
			all[i].Sources = append(all[i].Sources, r.nodes[s].describe())
		}
	}
	return all
}

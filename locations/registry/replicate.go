package registry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

// The bounds of a pass: of containers walked over, so that a pass takes the same time however many
// there are, and of open ones that it closes.
const (
	passWalk   = 100_000
	passCloses = endedMost
)

// decideStep is for how many containers that need a look mu is held at a time, at least: of many
// datanodes the description costs as much as many containers.
const decideStep = 64

// round is a walk over all containers, in as many passes as it takes.
type round struct {
	at                     int // how many have been walked over
	missing, surplus, lost int // containers
}

// replicate looks after replicas until the registry closes.
func (r *Registry) replicate() {
	ticker := time.NewTicker(r.opts.PlanEvery)
	defer ticker.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for now := (round{}); ; {
		select {
		case <-r.stop:
			return
		case <-r.store.Failed():
			return
		case <-ticker.C:
			now = r.pass(ctx, now)
		}
	}
}

// pass walks over containers, from where the one before it ended, and gives the orders that they
// need: those with the fewest complete replicas first.
func (r *Registry) pass(ctx context.Context, w round) round {
	if !r.begin() {
		return w
	}
	var looks []look
	var closes []uint64
	for walked := 0; walked < passWalk; walked += step {
		more := false
		if looks, closes, more = r.walk(&w, looks, closes); !more {
			break
		}
	}
	r.closeContainers(ctx, closes)
	slices.SortFunc(looks, func(a, b look) int {
		return cmp.Or(cmp.Compare(a.whole, b.whole), cmp.Compare(a.id, b.id))
	})
	for some := range slices.Chunk(looks, max(decideStep, len(r.view.Load().Nodes)/16)) {
		r.decide(ctx, &w, some)
	}
	return r.endPass(w)
}

// begin says whether orders may be given: all datanodes have reported since the start, as far as they
// are not dead. Until then replicas are missing that are not known yet.
func (r *Registry) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.reported {
		silent := func(n *node) bool { return n.seen == 0 && n.health != muster.Dead }
		if r.reported = r.settled && (now.Sub(r.started) >= r.opts.DeadAfter || !slices.ContainsFunc(r.nodes, silent)); !r.reported {
			return false
		}
	}
	r.expire(now)
	return true
}

// look is a container that is to be looked at.
type look struct {
	id    uint64
	whole int // replicas that can be read, and have no damaged blocks
}

// walk walks over some containers, and returns those which may need orders, and open ones to be
// closed. more is false behind the last.
func (r *Registry) walk(w *round, looks []look, closes []uint64) (_ []look, _ []uint64, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	some := r.all[w.at:min(w.at+step, len(r.all))]
	for _, c := range some {
		_, _, coded := c.replication.Coding()
		switch {
		case !c.closed && (r.ending(c) || r.lagging(c, now)):
			if len(closes) < passCloses {
				closes = append(closes, c.id)
			}
		case c.closed && !coded && !r.fine(c):
			looks = append(looks, look{c.id, r.whole(c)})
		}
	}
	w.at += len(some)
	return looks, closes, w.at < len(r.all)
}

// fine says of most containers, at once, that they need nothing: all replicas were reported, are
// alike, and are on datanodes in service. The caller holds mu.
func (r *Registry) fine(c *container) bool {
	if len(c.replicas) != len(c.members) || r.orders.of[c.id] != nil || r.orders.memories[c.id] != nil || len(r.targets[c.id]) > 0 {
		return false
	}
	first := &c.replicas[0]
	for i := range c.replicas {
		p := &c.replicas[i]
		n := r.nodes[p.node]
		if n.wanted != muster.InService || n.health != muster.InService || !p.counts(n) || p.damaged > 0 || p.blocks != first.blocks {
			return false
		}
	}
	return true
}

// whole returns how many replicas of a container can be read and have no damaged blocks. The caller
// holds mu.
func (r *Registry) whole(c *container) (whole int) {
	for i := range c.replicas {
		p := &c.replicas[i]
		if n := r.nodes[p.node]; n.health != muster.Dead && p.counts(n) && p.damaged == 0 && p.blocks > 0 {
			whole++
		}
	}
	return whole
}

// closeContainers closes open containers of which a member will not write any more, or lacks blocks:
// only closed ones are copied. One that fails is found again.
func (r *Registry) closeContainers(ctx context.Context, ids []uint64) {
	if len(ids) == 0 {
		return
	}
	_ = r.writer.do(ctx, func(b *batch) (func(), error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var ended []*container
		now := time.Now()
		for _, id := range ids {
			if c := r.containers[id]; !c.closed && (r.ending(c) || r.lagging(c, now)) {
				ended = append(ended, c)
				record := c.containerRecord
				record.closed = true
				b.container(id, &record)
			}
		}
		return func() { r.end(ended) }, nil
	}) // it fails if the registry has failed, or is closed
}

// decide decides what containers need, and gives the orders.
func (r *Registry) decide(ctx context.Context, w *round, looks []look) {
	orders, idle := r.decided(w, looks)
	r.giveAll(ctx, orders, idle)
}

// decided decides what containers need. It returns the orders, and which targets have nothing.
func (r *Registry) decided(w *round, looks []look) (orders []*order, idle []target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.planning(time.Now())
	for _, l := range looks {
		s := r.subject(r.containers[l.id])
		d := p.decide(s)
		for _, o := range d.withdraw {
			r.withdraw(o)
		}
		orders = append(orders, d.orders...)
		if len(d.orders) == 0 {
			idle = r.idleTargets(idle, r.containers[l.id], p, s.memory)
		}
		if s.memory.empty() {
			delete(r.orders.memories, l.id)
		} else {
			r.orders.memories[l.id] = s.memory
		}
		if d.missing > 0 {
			w.missing++
		}
		if d.surplus > 0 {
			w.surplus++
		}
		if d.lost {
			w.lost++
		}
	}
	return orders, idle
}

// planning returns what planning has to know of datanodes and orders. The caller holds mu.
func (r *Registry) planning(now time.Time) *planning {
	o := &r.opts
	p := &planning{
		now: now, sites: make([]site, len(r.nodes)),
		bounds: bounds{copies: o.MaxCopies, copiesPerNode: o.MaxCopiesPerNode, timeout: o.OrderTimeout, grace: o.ReplicaGrace},
		copies: r.orders.copies, drops: len(r.orders.byID) - r.orders.copies,
	}
	for i, n := range r.nodes {
		s := &p.sites[i]
		s.rack, s.wanted, s.health = n.rack, n.wanted, n.health
		s.reported, s.current = n.seen > 0, n.seen > 0 && !n.want && !n.last.IsZero()
		s.room, s.free = n.beat.room(), n.beat.free()
	}
	for _, o := range r.orders.byID {
		if o.kind == muster.OrderDrop {
			p.sites[o.target].drops++
			continue
		}
		p.sites[o.target].targets++
		p.sites[o.sources[0]].sources++
	}
	return p
}

// subject returns what planning has to know of a container. The caller holds mu.
func (r *Registry) subject(c *container) *subject {
	s := &subject{container: c.id, need: c.replication.Nodes(), orders: r.orders.of[c.id], memory: r.orders.memories[c.id]}
	if s.memory == nil {
		s.memory = &memory{}
	}
	for _, m := range c.members {
		if c.of(m) == nil && c.presumed(r.nodes[m]) {
			s.holdings = append(s.holdings, holding{node: m, presumed: true})
		}
	}
	for i := range c.replicas {
		if p := &c.replicas[i]; p.counts(r.nodes[p.node]) {
			s.holdings = append(s.holdings, holding{node: p.node, blocks: p.blocks, damaged: p.damaged})
		}
	}
	return s
}

// endPass shows what a round has counted, if it is over, and begins the next one.
func (r *Registry) endPass(w round) round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.at < len(r.all) {
		return w
	}
	r.counted = w
	return round{}
}

package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// Registration is what a datanode says of itself.
type Registration struct {
	ID       string // the datanode's own, for ever
	Host     string // name or address that readers dial
	Address  string // IP address; may be empty
	Port     uint16 // of its blocks
	HTTPPort uint16 // of its status pages; 0: none
	Rack     string // network location; "": what the mapping file says
}

// Registered is what a datanode is told.
type Registered struct {
	Number    muster.NodeNumber
	Rack      string        // as the registry sees it
	Heartbeat time.Duration // how often to send heartbeats
	Session   uint64        // for heartbeats and reports: of this registration, and this start of the registry
}

// Datanode is a datanode as operators see it.
type Datanode struct {
	Node         muster.Node
	Wanted       muster.NodeState // the operator's will: InService, Draining or Maintenance
	Health       muster.NodeState // by heartbeats: InService, Stale or Dead
	Containers   int              // that it reported to have
	HeartbeatAge time.Duration    // -1: none since the start
	Reported     bool             // it has reported all its containers since the start
	Disks        []muster.Disk    // of its last heartbeat; never changed
}

// node is a datanode. The registry's mu guards it but for what never changes.
type node struct {
	number muster.NodeNumber // never changes
	nodeRecord
	rack       string           // where it is in the topology
	last       time.Time        // of the last heartbeat; zero: none since the start
	health     muster.NodeState // InService, Stale or Dead
	moves      uint64           // how often it registered from elsewhere since the start
	want       bool             // a full report
	seen       uint32           // the number of the newest full report that is complete; 0: none
	containers int              // replicas that count
	beat       Beat             // the last, without its results
	orders     []*order         // under way, from the oldest

	reports sync.Mutex // held while a report is taken, before mu
}

// state is the worse of the operator's will and the datanode's health.
func (n *node) state() muster.NodeState { return max(n.wanted, n.health) }

// takesBlocks says whether new blocks may go to a datanode. One that has not been heard of since
// the start may be gone.
func (n *node) takesBlocks() bool {
	return n.state() == muster.InService && !n.last.IsZero() && n.beat.room()
}

func (n *node) describe() muster.Node {
	return muster.Node{
		Number: n.number, ID: n.ID, Host: n.Host, Address: n.Address, Port: n.Port, HTTPPort: n.HTTPPort,
		Rack: n.rack, State: n.state(),
	}
}

// Register makes a datanode known, or known again after a restart of either side, and counts as a
// heartbeat. A datanode that comes back under its id keeps its number; what it says of itself now
// holds. Of two that use one id at the same time, the last to register is the one that is known:
// the log says so, and the other is refused with ErrExists as long as that one lives.
func (r *Registry) Register(ctx context.Context, g Registration) (Registered, error) {
	if err := r.alive(); err != nil {
		return Registered{}, err
	}
	if err := g.clean(); err != nil {
		return Registered{}, fmt.Errorf("register: %w", err)
	}
	if g.Rack != "" {
		if _, err := r.opts.Schema.Locate(g.Rack); err != nil {
			return Registered{}, fmt.Errorf("register datanode %s: %w", g.ID, err)
		}
	}
	var known Registered
	err := r.writer.do(ctx, func(b *batch) (func(), error) {
		n, show, err := r.planRegister(b, g)
		return func() {
			show()
			known = Registered{Number: n.number, Rack: n.rack, Heartbeat: r.opts.Heartbeat, Session: r.boot + n.moves}
		}, err
	})
	if err != nil {
		return Registered{}, fmt.Errorf("register datanode %s: %w", g.ID, err)
	}
	return known, nil
}

func (r *Registry) planRegister(b *batch, g Registration) (*node, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.byID[g.ID]; n != nil {
		if g == n.Registration {
			return n, func() { r.heard(n); n.want = true }, nil
		}
		b.set(nodeKey(n.number), appendNode(nil, &nodeRecord{g, n.wanted}))
		return n, func() { r.moved(n, g) }, nil
	}
	if len(r.nodes) == muster.MaxNodes {
		return nil, nil, fmt.Errorf("%w: there have been %d datanodes already", muster.ErrLimit, muster.MaxNodes)
	}
	n := &node{number: muster.NodeNumber(len(r.nodes)), nodeRecord: nodeRecord{Registration: g}, want: true}
	c := r.counters
	c.nodes++
	b.set(nodeKey(n.number), appendNode(nil, &n.nodeRecord))
	b.counters(c)
	return n, func() {
		r.counters, r.nodes, r.byID[g.ID] = c, append(r.nodes, n), n
		n.rack, _ = r.rackOf(&n.Registration) // it fits, or it is the mapping's
		n.last = time.Now()
		r.opts.Logger.Info("new datanode", "datanode", g.ID, "number", n.number, "host", g.Host, "rack", n.rack)
		r.publish()
	}, nil
}

// moved notes that a datanode describes itself in another way. The caller holds mu.
func (r *Registry) moved(n *node, g Registration) {
	elsewhere := g.Host != n.Host || g.Address != n.Address || g.Port != n.Port
	if elsewhere && !n.last.IsZero() {
		n.moves++
		if n.health == muster.InService {
			r.opts.Logger.Warn("a datanode that lives registered from elsewhere; if both run, give one another id",
				"datanode", g.ID, "host", g.Host, "address", g.Address, "port", g.Port, "before", n.Host, "address before", n.Address, "port before", n.Port)
		}
	}
	n.Registration, n.want = g, true
	n.rack, _ = r.rackOf(&n.Registration)
	r.heard(n)
	r.publish()
}

// node finds a datanode by a registration since the start. The caller holds mu.
func (r *Registry) node(number muster.NodeNumber, session uint64) (*node, error) {
	if int64(number) < int64(len(r.nodes)) && !r.nodes[number].last.IsZero() {
		n, moves := r.nodes[number], session-r.boot
		switch {
		case moves == n.moves:
			return n, nil
		case moves < n.moves && n.health == muster.InService:
			return nil, fmt.Errorf("%w: a datanode with the id %s registered later, from host %s, address %s, port %d; give one of them another id", muster.ErrExists, n.ID, n.Host, n.Address, n.Port)
		}
	}
	return nil, fmt.Errorf("%w: datanode %d has not registered since the location service was started", muster.ErrNotFound, number)
}

// heard notes that a datanode lives. The caller holds mu.
func (r *Registry) heard(n *node) {
	n.last = time.Now()
	if n.health != muster.InService {
		r.opts.Logger.Info("a datanode is back", "datanode", n.ID, "host", n.Host, "was", n.health)
		n.health = muster.InService
		r.publish()
	}
}

// watchHealth looks after datanodes whose heartbeats are late, and after the time for reports.
func (r *Registry) watchHealth() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-timer.C:
			timer.Reset(max(time.Millisecond, r.age(time.Now())))
		}
	}
}

// age gives the datanodes the health that their silence says, and returns when to look again.
func (r *Registry) age(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, changed := r.opts.StaleAfter, false
	for _, n := range r.nodes {
		health, rest := r.healthAt(n, now)
		next = min(next, rest)
		if health == n.health {
			continue
		}
		r.opts.Logger.Warn("a datanode is silent", "datanode", n.ID, "host", n.Host, "is", health)
		n.health, changed = health, true
		if health == muster.Dead {
			n.want = true
		}
	}
	if changed {
		r.publish()
	}
	r.settle(now)
	if grace := r.opts.ReportGrace - now.Sub(r.started); !r.settled {
		next = min(next, grace)
	}
	return next
}

// healthAt returns the health of a datanode and for how long it keeps that if it stays silent.
// Silence is counted from the start, if it was not heard of since.
func (r *Registry) healthAt(n *node, now time.Time) (health muster.NodeState, rest time.Duration) {
	last := n.last
	if last.IsZero() {
		last = r.started
	}
	switch silent := now.Sub(last); {
	case silent < r.opts.StaleAfter:
		return muster.InService, r.opts.StaleAfter - silent
	case silent < r.opts.DeadAfter:
		return muster.Stale, r.opts.DeadAfter - silent
	}
	return muster.Dead, r.opts.DeadAfter
}

// settle notes when no more reports are to be waited for. The caller holds mu.
func (r *Registry) settle(now time.Time) {
	if r.settled {
		return
	}
	r.settled = true
	if now.Sub(r.started) >= r.opts.ReportGrace {
		return
	}
	for _, n := range r.nodes {
		if n.seen == 0 && n.health != muster.Dead {
			r.settled = false
			return
		}
	}
}

// Datanodes returns the datanodes by number.
func (r *Registry) Datanodes() []Datanode {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Datanode, len(r.nodes))
	for i, n := range r.nodes {
		all[i] = n.show(time.Now())
	}
	return all
}

func (n *node) show(now time.Time) Datanode {
	d := Datanode{Node: n.describe(), Wanted: n.wanted, Health: n.health, Containers: n.containers, HeartbeatAge: -1, Reported: n.seen > 0, Disks: n.beat.Disks}
	if !n.last.IsZero() {
		d.HeartbeatAge = now.Sub(n.last)
	}
	return d
}

// SetNodeState sets the operator's will, which outlives restarts, for the datanode of an id, or of
// a host that no other has: InService, Draining or Maintenance.
func (r *Registry) SetNodeState(ctx context.Context, idOrHost string, wanted muster.NodeState) (Datanode, error) {
	if err := r.alive(); err != nil {
		return Datanode{}, err
	}
	if !mayWant(wanted) {
		return Datanode{}, fmt.Errorf("%w: nobody can want a datanode to be %v; use %v, %v or %v", muster.ErrInvalid, wanted, muster.InService, muster.Draining, muster.Maintenance)
	}
	var n *node
	err := r.writer.do(ctx, func(b *batch) (show func(), err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if n, err = r.find(idOrHost); err != nil || n.wanted == wanted {
			return nil, err
		}
		record := n.nodeRecord
		record.wanted = wanted
		b.set(nodeKey(n.number), appendNode(nil, &record))
		return func() {
			r.opts.Logger.Info("a datanode's state was set", "datanode", n.ID, "host", n.Host, "to", wanted)
			n.wanted = wanted
			r.publish()
		}, nil
	})
	if err != nil {
		return Datanode{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return n.show(time.Now()), nil
}

// find finds a datanode by id, host or address. The caller holds mu.
func (r *Registry) find(idOrHost string) (*node, error) {
	if n := r.byID[idOrHost]; n != nil {
		return n, nil
	}
	var ids []string
	var found *node
	for _, n := range r.nodes {
		if strings.EqualFold(n.Host, idOrHost) || n.Address == idOrHost && idOrHost != "" {
			ids, found = append(ids, n.ID), n
		}
	}
	switch len(ids) {
	case 0:
		return nil, fmt.Errorf("%w: no datanode has the id or the host %.300q", muster.ErrNotFound, idOrHost)
	case 1:
		return found, nil
	}
	const some = 8
	return nil, fmt.Errorf("%w: %d datanodes are on %s; name one by its id: %s", muster.ErrInvalid, len(ids), idOrHost, strings.Join(ids[:min(some, len(ids))], ", "))
}

package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/muster-fs/muster"
)

// planning decides which orders containers need. It is a function of what is in it and of the subject
// alone: it reads no clock and rolls no dice. It changes its own counts of orders, and what the
// subject remembers.
type planning struct {
	now           time.Time
	sites         []site // by number
	bounds        bounds
	copies, drops int // under way in all
}

// bounds bound orders.
type bounds struct {
	copies, copiesPerNode int           // under way: in all, and of a datanode as source, and as target
	timeout               time.Duration // of an order without progress
	grace                 time.Duration // for which something must look wrong to be wrong
}

// The bounds of drops under way. They take little time.
const (
	maxDrops     = 1000
	dropsPerNode = 50
)

// pause is for how long a datanode that has ended orders for a container gets no other one for it: longer
// and longer, since an order that has failed may fail again, and one that is done may have changed
// nothing.
func (b *bounds) pause(times int) time.Duration { return b.timeout / 10 << min(times-1, 4) }

// site is a datanode as planning sees it.
type site struct {
	rack           string
	wanted, health muster.NodeState
	reported       bool // all that it has, since the start
	current        bool // and it was not restarted or away since
	room           bool // takes blocks
	free           uint64

	sources, targets, drops int // orders under way; the source is where a copy is to come from first
}

// serves says whether a datanode may be relied upon, and be given orders.
func (s *site) serves() bool {
	return s.wanted == muster.InService && s.health == muster.InService && s.current
}

// keeps says whether a replica on a datanode counts as being there: it lives and is not drained, or
// its absence is planned.
func (s *site) keeps() bool {
	return s.wanted == muster.Maintenance || s.wanted == muster.InService && s.health != muster.Dead
}

// subject is a closed container of whole copies, that planning looks at.
type subject struct {
	container uint64
	need      int // replicas
	holdings  []holding
	orders    []*order // under way
	memory    *memory
}

// holding is a replica that counts, whatever the state of its datanode.
type holding struct {
	node            muster.NodeNumber
	blocks, damaged uint32
	presumed        bool // its datanode has said nothing of it
}

// memory is what planning remembers of a container.
type memory struct {
	short   []moment  // replicas that have too few blocks, and since when
	crowded time.Time // since when there are too many replicas; zero: there are not
	ended   []ending  // orders that have ended not long ago
}

// ending is when a datanode ended an order last, and how many in succession.
type ending struct {
	node  muster.NodeNumber
	at    time.Time
	times int
}

// moment is a time on a datanode.
type moment struct {
	node muster.NodeNumber
	at   time.Time
}

func (m *memory) empty() bool {
	return len(m.short) == 0 && len(m.ended) == 0 && m.crowded.IsZero()
}

// end notes that a datanode has ended an order.
func (m *memory) end(n muster.NodeNumber, now time.Time) {
	for i := range m.ended {
		if e := &m.ended[i]; e.node == n {
			e.at = now
			e.times++
			return
		}
	}
	m.ended = append(m.ended, ending{n, now, 1})
}

// shortSince returns since when a replica has been short, which is now if that is new.
func (m *memory) shortSince(n muster.NodeNumber, now time.Time) time.Time {
	for _, s := range m.short {
		if s.node == n {
			return s.at
		}
	}
	m.short = append(m.short, moment{n, now})
	return now
}

// decision is what a container needs.
type decision struct {
	orders   []*order // new ones
	withdraw []*order // that are under way, and would do harm by now
	missing  int      // replicas to be made or completed
	surplus  int      // replicas to be dropped
	lost     bool     // no datanode that lives has any block, and a dead one had
}

// review is the making of a decision.
type review struct {
	*planning
	*subject
	decision
	best     uint32 // blocks of the replica, of those that can be read, that has most
	there    []muster.NodeNumber
	live     []holding // on datanodes that serve, and not to be dropped already
	complete int       // of live: all blocks, none damaged
}

// decide says what a container needs. The orders that it returns are counted as under way.
func (p *planning) decide(s *subject) decision {
	v := review{planning: p, subject: s}
	v.forget()
	for _, h := range s.holdings {
		if p.readable(h) {
			v.best = max(v.best, h.blocks)
		}
	}
	if v.best == 0 { // there is nothing to copy
		v.lost = slices.ContainsFunc(s.holdings, func(h holding) bool { return h.blocks > 0 })
		return v.decision
	}
	var incomplete []muster.NodeNumber
	for _, h := range s.holdings {
		if v.count(h) {
			incomplete = append(incomplete, h.node)
		}
	}
	switch {
	case v.complete >= v.need: // an incomplete one is one too many
	case v.takeBack():
		return v.decision
	default:
		v.fill(incomplete)
		v.replicate()
	}
	v.reduce()
	return v.decision
}

// readable says whether there is something to be read of a replica.
func (p *planning) readable(h holding) bool {
	return p.sites[h.node].health != muster.Dead && !h.presumed && h.blocks > 0
}

// whole says whether a replica has all blocks, and none damaged.
func (v *review) whole(h holding) bool {
	return !h.presumed && h.blocks == v.best && h.damaged == 0
}

// forget forgets what is long ago, and of replicas that are not there any more.
func (v *review) forget() {
	m := v.memory
	m.ended = slices.DeleteFunc(m.ended, func(e ending) bool { // an order after the pause takes its time
		return v.now.Sub(e.at) >= 2*v.bounds.pause(e.times)+v.bounds.timeout
	})
	m.short = slices.DeleteFunc(m.short, func(s moment) bool {
		return !slices.ContainsFunc(v.holdings, func(h holding) bool { return h.node == s.node })
	})
}

// count notes what a replica counts as, and says whether it is to be completed where it is.
func (v *review) count(h holding) (complete bool) {
	s := &v.sites[h.node]
	if v.under(h.node, muster.OrderDrop) != nil {
		v.surplus++
		return false
	}
	if s.serves() && !h.presumed {
		v.live = append(v.live, h)
		if v.whole(h) && !v.recent(h.node) {
			v.complete++
		}
	}
	lacks := h.damaged > 0
	if h.blocks < v.best && (!h.presumed || s.reported) {
		lacks = lacks || v.now.Sub(v.memory.shortSince(h.node, v.now)) >= v.bounds.grace
	} else {
		v.memory.short = slices.DeleteFunc(v.memory.short, func(s moment) bool { return s.node == h.node })
	}
	switch {
	case !s.keeps(), lacks && (h.presumed || !s.room): // the latter will not be completed there
		return false
	}
	v.there = append(v.there, h.node)
	return lacks
}

// takeBack withdraws drops that would leave too little by now. It may be too late for that; the next
// reports tell.
func (v *review) takeBack() bool {
	for _, o := range v.subject.orders {
		if o.kind == muster.OrderDrop {
			v.withdraw = append(v.withdraw, o)
		}
	}
	if len(v.withdraw) == 0 {
		return false
	}
	v.surplus, v.missing = 0, v.need-v.complete
	return true
}

// fill has replicas completed where they are, as many as are needed.
func (v *review) fill(incomplete []muster.NodeNumber) {
	lacking := min(len(incomplete), v.need-v.complete)
	v.missing += lacking
	for _, n := range incomplete {
		if v.under(n, muster.OrderCopy) != nil {
			lacking--
		}
	}
	for _, n := range incomplete {
		if lacking > 0 && v.mayOrder(n) && v.copyTo(n) {
			lacking--
		}
	}
}

// replicate has copies made where there are none, as far as some are missing.
func (v *review) replicate() {
	v.missing += max(0, v.need-len(v.there))
	for _, o := range v.subject.orders {
		if o.kind == muster.OrderCopy && !v.holds(o.target) {
			v.there = append(v.there, o.target)
		}
	}
	for len(v.there) < v.need && v.mayCopy() {
		n, ok := v.target()
		if !ok || !v.copyTo(n) {
			return
		}
		v.there = append(v.there, n)
	}
}

// reduce has surplus replicas dropped, if as many complete ones are there as are needed: first those
// that are not complete, then those on the rack with the most.
func (v *review) reduce() {
	copying := len(v.decision.orders) > 0 || slices.ContainsFunc(v.subject.orders, func(o *order) bool { return o.kind == muster.OrderCopy })
	if copying || v.complete < v.need || len(v.live) <= v.need {
		v.memory.crowded = time.Time{}
		return
	}
	if v.memory.crowded.IsZero() {
		v.memory.crowded = v.now
	}
	surplus := len(v.live) - v.need
	v.surplus += surplus
	if v.now.Sub(v.memory.crowded) < v.bounds.grace {
		return
	}
	for ; surplus > 0; surplus-- {
		victim := v.victim()
		if whole := v.whole(victim); whole && v.complete <= v.need || !v.drop(victim.node) {
			return
		} else if whole {
			v.complete--
		}
		v.live = slices.DeleteFunc(v.live, func(h holding) bool { return h.node == victim.node })
	}
}

// victim returns the replica that is needed least.
func (v *review) victim() holding {
	racks := map[string]int{}
	for _, h := range v.live {
		racks[v.sites[h.node].rack]++
	}
	whole := func(h holding) int {
		if v.whole(h) {
			return 1
		}
		return 0
	}
	return slices.MinFunc(v.live, func(a, b holding) int {
		x, y := &v.sites[a.node], &v.sites[b.node]
		return cmp.Or(
			cmp.Compare(whole(a), whole(b)),
			cmp.Compare(racks[y.rack], racks[x.rack]),
			cmp.Compare(a.blocks, b.blocks),
			cmp.Compare(x.free, y.free),
			cmp.Compare(b.node, a.node),
		)
	})
}

// drop orders a replica to be dropped, if that may be.
func (v *review) drop(n muster.NodeNumber) bool {
	s := &v.sites[n]
	if v.drops >= maxDrops || s.drops >= dropsPerNode || !v.mayOrder(n) {
		return false
	}
	v.drops++
	s.drops++
	v.decision.orders = append(v.decision.orders, &order{kind: muster.OrderDrop, container: v.container, target: n, progress: v.now})
	return true
}

// mayCopy says whether bounds allow a copy to a datanode that has nothing yet.
func (v *review) mayCopy() bool {
	if v.copies >= v.bounds.copies {
		return false
	}
	sources := v.sources(muster.NoNode)
	return len(sources) > 0 && v.sites[sources[0]].sources < v.bounds.copiesPerNode
}

// copyTo orders a copy to a datanode, if there is a source for it, and bounds allow it.
func (v *review) copyTo(n muster.NodeNumber) bool {
	target := &v.sites[n]
	if v.copies >= v.bounds.copies || target.targets >= v.bounds.copiesPerNode {
		return false
	}
	sources := v.sources(n)
	if len(sources) == 0 || v.sites[sources[0]].sources >= v.bounds.copiesPerNode {
		return false
	}
	v.copies++
	target.targets++
	v.sites[sources[0]].sources++
	v.decision.orders = append(v.decision.orders, &order{kind: muster.OrderCopy, container: v.container, target: n, sources: sources, progress: v.now})
	return true
}

// sources returns who has blocks for a datanode: complete replicas first, then those on healthy
// datanodes, then those that have the fewest orders.
func (v *review) sources(target muster.NodeNumber) (nodes []muster.NodeNumber) {
	var all []holding
	for _, h := range v.holdings {
		if v.readable(h) && h.node != target && v.under(h.node, muster.OrderDrop) == nil {
			all = append(all, h)
		}
	}
	rank := func(h holding) int {
		if v.whole(h) {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b holding) int {
		x, y := &v.sites[a.node], &v.sites[b.node]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.health, y.health), cmp.Compare(x.sources, y.sources), cmp.Compare(a.node, b.node))
	})
	for _, h := range all {
		nodes = append(nodes, h.node)
	}
	return nodes
}

// target returns the best datanode for one more replica: on a rack as it should be, then the one
// with the fewest orders, then the one with the most room.
func (v *review) target() (best muster.NodeNumber, ok bool) {
	racks := map[string]int{}
	for _, n := range v.there {
		racks[v.sites[n].rack]++
	}
	better := func(a, b *site) int {
		return cmp.Or(cmp.Compare(v.misplaced(a.rack, racks), v.misplaced(b.rack, racks)), cmp.Compare(a.targets, b.targets), cmp.Compare(b.free, a.free))
	}
	for i := range v.sites {
		s, n := &v.sites[i], muster.NodeNumber(i)
		if !s.serves() || !s.room || s.targets >= v.bounds.copiesPerNode || v.holds(n) || !v.mayOrder(n) || slices.Contains(v.there, n) {
			continue
		}
		if !ok || better(s, &v.sites[best]) < 0 {
			best, ok = n, true
		}
	}
	return best, ok
}

// misplaced says how wrong it is to put one more replica on a rack beside those on some racks. The
// rule is that of new containers: the second is on another rack than the first, the third on the
// rack of one of the two, and all others where the fewest are.
func (v *review) misplaced(rack string, racks map[string]int) int {
	here := racks[rack]
	if len(racks) == 2 && len(v.there) == 2 {
		return 1 - here
	}
	return here
}

// holds says whether a replica counts on a datanode.
func (v *review) holds(n muster.NodeNumber) bool {
	return slices.ContainsFunc(v.holdings, func(h holding) bool { return h.node == n && !v.gone(h) })
}

// gone says whether a replica was only presumed, and that for too long.
func (v *review) gone(h holding) bool {
	return h.presumed && v.sites[h.node].reported && v.now.Sub(v.memory.shortSince(h.node, v.now)) >= v.bounds.grace
}

// under returns the order of a kind that a datanode has for the container, if there is one.
func (v *review) under(n muster.NodeNumber, k muster.OrderKind) *order {
	for _, o := range v.subject.orders {
		if o.target == n && o.kind == k {
			return o
		}
	}
	return nil
}

// recent says whether a datanode has ended an order for the container not long ago.
func (v *review) recent(n muster.NodeNumber) bool {
	return slices.ContainsFunc(v.memory.ended, func(e ending) bool {
		return e.node == n && v.now.Sub(e.at) < v.bounds.pause(e.times)
	})
}

// mayOrder says whether a datanode may be given an order for the container.
func (v *review) mayOrder(n muster.NodeNumber) bool {
	return v.sites[n].serves() && !v.recent(n) && !slices.ContainsFunc(v.subject.orders, func(o *order) bool { return o.target == n })
}

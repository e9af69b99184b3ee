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

// pause is for how long a datanode that has ended orders for a container gets no other one for it:
// longer and longer, since an order that has failed may fail again, and one that is done may have
// changed nothing.
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
func (v *review) count(h holding) (incomplete bool) {
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

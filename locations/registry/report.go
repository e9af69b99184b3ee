package registry

import (
	"fmt"
	"math"
	"time"

	"github.com/muster-fs/muster"
)

// Replica is a container on a datanode.
type Replica struct {
	Container uint64
	Index     uint8 // erasure-coded: from 1; else 0
	Closed    bool  // no block is added to it any more
	Gone      bool  // of a report that is not full: it was removed

	Blocks, Bytes, Damaged uint64 // that are committed: how many, their bytes, and how many are damaged
}

// step is for how many containers mu is held at a time.
const step = 512

// Report notes which containers a datanode has, and counts as a heartbeat. What a full report does not name is not there;
// another only changes what it names. It returns how many replicas were passed over since no
// container of that id, or with a replica of that index, is known. Reports of one datanode are
// taken one after another. Errors are those of Heartbeat.
func (r *Registry) Report(number muster.NodeNumber, session uint64, full bool, replicas []Replica) (unknown uint64, err error) {
	if err := r.alive(); err != nil {
		return 0, err
	}
	r.mu.Lock()
	n, err := r.node(number, session)
	if err == nil {
		r.heard(n)
	}
	r.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("report: %w", err)
	}
	r.counts.reports.Add(1)
	n.reports.Lock()
	defer n.reports.Unlock()
	t := taking{registry: r, node: n, full: full}
	t.begin()
	for len(replicas) > 0 {
		some := replicas[:min(step, len(replicas))]
		replicas = replicas[len(some):]
		t.take(some)
	}
	t.end()
	if t.unknown > 0 {
		r.opts.Logger.Warn("a datanode has replicas of containers that are not known", "datanode", number, "replicas", t.unknown)
	}
	return t.unknown, nil
}

// taking is a report that is being taken.
type taking struct {
	registry *Registry
	node     *node
	full     bool
	seen     uint32 // the number of this report, if it is full; else of the last that was
	named    int    // replicas that this report, if it is full, has named
	unknown  uint64
}

func (t *taking) begin() {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.seen = t.node.seen; t.full {
		r.seq++
		t.seen = r.seq
	}
}

func (t *taking) take(some []Replica) {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range some {
		c := r.containers[p.Container]
		if c == nil || !fits(c.replication, p.Index) {
			t.unknown++
			continue
		}
		t.note(c, p)
	}
}

// fits says whether a replica may have an index.
func fits(r muster.Replication, index uint8) bool {
	if _, _, coded := r.Coding(); !coded {
		return index == 0
	}
	return index >= 1 && int(index) <= r.Nodes()
}

// note notes a replica. The caller holds mu.
func (t *taking) note(c *container, p Replica) {
	if t.full && p.Gone {
		return // as if it were not named
	}
	old := c.of(t.node.number)
	if old == nil {
		c.replicas = append(c.replicas, replica{node: t.node.number, gone: true})
		old = &c.replicas[len(c.replicas)-1]
	}
	before := old.counts(t.node)
	if t.full && old.seen != t.seen {
		t.named++
	}
	old.seen, old.index, old.closed, old.gone = t.seen, p.Index, p.Closed, p.Gone
	old.blocks, old.bytes, old.damaged = fitting(p.Blocks), p.Bytes, fitting(p.Damaged)
	if after := old.counts(t.node); after != before {
		if t.node.containers++; before {
			t.node.containers -= 2
		}
	}
}

// fitting is a count in as many bits as are kept of it.
func fitting(count uint64) uint32 { return uint32(min(count, math.MaxUint32)) }

func (t *taking) end() {
	if !t.full {
		return
	}
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	t.node.seen, t.node.containers, t.node.want = t.seen, t.named, false
	r.settle(time.Now())
}

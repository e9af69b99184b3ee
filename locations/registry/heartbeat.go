package registry

import (
	"fmt"
	"math"
	"slices"

	"github.com/muster-fs/muster"
)

// Beat is what a datanode says with a heartbeat. It is kept in memory, and never changed.
type Beat struct {
	Disks      []muster.Disk            // none: a datanode without any, which always has room
	Unfinished []muster.UnfinishedBlock // not all, if there are many
	Results    []OrderResult            // of orders that have ended
}

// OrderResult is how an order ended.
type OrderResult struct {
	ID  uint64
	Err error // nil: it is done
}

// Wishes are what a datanode is told when it says that it lives.
type Wishes struct {
	Report bool           // a full report
	Orders []muster.Order // all that it is to carry out; one that is not named any more is withdrawn
}

// The bounds of a heartbeat.
const (
	MaxDisks      = 1000
	MaxUnfinished = 1000
	MaxResults    = 10_000
)

// room says whether a disk takes blocks.
func (b *Beat) room() bool {
	return len(b.Disks) == 0 || slices.ContainsFunc(b.Disks, func(d muster.Disk) bool { return d.State == muster.DiskOK })
}

// free is how many bytes blocks may still take.
func (b *Beat) free() (free uint64) {
	for _, d := range b.Disks {
		if d.State == muster.DiskOK {
			free += min(d.Free, math.MaxUint64-free)
		}
	}
	return free
}

// Heartbeat notes that a datanode lives and what it says of itself, and returns what is wanted of
// it. ErrNotFound: the registry was restarted; register again. ErrExists: another datanode has the
// same id. ErrInvalid: more than the bounds above.
func (r *Registry) Heartbeat(number muster.NodeNumber, session uint64, b Beat) (Wishes, error) {
	if err := r.alive(); err != nil {
		return Wishes{}, err
	}
	if len(b.Disks) > MaxDisks || len(b.Unfinished) > MaxUnfinished || len(b.Results) > MaxResults {
		return Wishes{}, fmt.Errorf("%w: a heartbeat with %d disks, %d unfinished blocks and %d results of orders; at most %d, %d and %d",
			muster.ErrInvalid, len(b.Disks), len(b.Unfinished), len(b.Results), MaxDisks, MaxUnfinished, MaxResults)
	}
	r.counts.heartbeats.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.node(number, session)
	if err != nil {
		return Wishes{}, err
	}
	for _, result := range b.Results {
		r.ended(n, result)
	}
	b.Results = nil
	r.noteDisks(n, b.Disks)
	n.beat = b
	r.heard(n)
	return Wishes{Report: n.want, Orders: r.ordered(n)}, nil
}

// noteDisks says which disks are not as they were. The caller holds mu.
func (r *Registry) noteDisks(n *node, disks []muster.Disk) {
	for i, d := range disks {
		before := muster.DiskOK
		if i < len(n.beat.Disks) && n.beat.Disks[i].Name == d.Name {
			before = n.beat.Disks[i].State
		}
		if d.State != before {
			r.opts.Logger.Warn("a disk's state has changed", "datanode", n.ID, "host", n.Host, "disk", d.Name, "is", d.State, "was", before, "why", d.Message)
		}
	}
}

// Unfinished are blocks that datanodes have had for long without a commit.
type Unfinished struct {
	Blocks []UnfinishedOn
	Nodes  []muster.Node // that are named, each once
}

// UnfinishedOn is such a block on one datanode.
type UnfinishedOn struct {
	muster.UnfinishedBlock
	Node muster.NodeNumber
}

// maxUnfinishedListed bounds the blocks of one answer.
const maxUnfinishedListed = 10_000

// Unfinished returns blocks that datanodes, as far as they live, have said to be unfinished. If there
// are too many for one answer, the next one begins with other datanodes.
func (r *Registry) Unfinished() (Unfinished, error) {
	if err := r.alive(); err != nil {
		return Unfinished{}, err
	}
	blocks, named := r.unfinished()
	return Unfinished{Blocks: blocks, Nodes: r.describe(named)}, nil
}

func (r *Registry) unfinished() (blocks []UnfinishedOn, named numbers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.nodes {
		n := r.nodes[(r.unfinishedTurn+i)%len(r.nodes)]
		if n.health == muster.Dead {
			continue
		}
		if len(blocks)+len(n.beat.Unfinished) > maxUnfinishedListed {
			r.unfinishedTurn = int(n.number)
			break
		}
		for _, b := range n.beat.Unfinished {
			blocks = append(blocks, UnfinishedOn{b, n.number})
			named.add(n.number)
		}
	}
	return blocks, named
}

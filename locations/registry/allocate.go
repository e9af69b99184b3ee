package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
)

// AllocateRequest asks for blocks.
type AllocateRequest struct {
	Replication muster.Replication
	Count       int                 // of blocks, 1 to muster.MaxBlocks
	Exclude     []muster.NodeNumber // nodes that failed: the blocks go elsewhere
}

// Allocation is blocks and where they go.
type Allocation struct {
	Blocks     []muster.BlockID
	Placements []muster.Placement // of their containers, each once
	Nodes      []muster.Node      // of the placements, each once
}

// openContainers are the containers of one replication that are not closed. The registry's mu guards
// them.
type openContainers struct {
	list []*container
	turn int          // of the one that got the last block
	full []*container // no longer in the list: they wait for the writer to close them
}

// reserve is how many local ids are reserved at least when a container has given all it had: what a
// crash wastes at most.
const reserve = 64

// Allocate gives blocks in open containers, which take turns, and makes containers as they are
// needed. Blocks that the caller does not use, because the call failed or otherwise, are simply
// never written. Errors: ErrInvalid for a bad request, ErrUnavailable if there are fewer
// datanodes that take blocks than the replication has.
func (r *Registry) Allocate(ctx context.Context, q AllocateRequest) (Allocation, error) {
	if err := r.alive(); err != nil {
		return Allocation{}, err
	}
	if q.Replication == 0 || !q.Replication.Valid() {
		return Allocation{}, fmt.Errorf("%w: no block has the replication %#x", muster.ErrInvalid, uint16(q.Replication))
	}
	if q.Count < 1 || q.Count > muster.MaxBlocks {
		return Allocation{}, fmt.Errorf("%w: allocate %d blocks; from 1 to %d", muster.ErrInvalid, q.Count, muster.MaxBlocks)
	}
	d := demand{replication: q.Replication, count: q.Count, excluded: map[muster.NodeNumber]struct{}{}}
	for _, n := range q.Exclude {
		d.excluded[n] = struct{}{}
	}
	a := Allocation{Blocks: make([]muster.BlockID, 0, q.Count)}
	used := map[uint64]struct{}{}
	for {
		r.take(&d, &a, used)
		missing := q.Count - len(a.Blocks)
		if missing == 0 {
			break
		}
		if err := r.writer.do(ctx, func(b *batch) (func(), error) { return r.planGrow(b, &d, missing) }); err != nil {
			return Allocation{}, fmt.Errorf("allocate %d blocks: %w", q.Count, err)
		}
	}
	r.counts.allocated.Add(uint64(q.Count))
	var named numbers
	for i := range a.Placements {
		named.add(a.Placements[i].Nodes...)
	}
	a.Nodes = r.describe(named)
	return a, nil
}

// take gives blocks from memory, as many as there are.
func (r *Registry) take(d *demand, a *Allocation, used map[uint64]struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[d.replication]
	if o == nil {
		return
	}
	for passed := 0; passed < len(o.list) && len(a.Blocks) < d.count; passed++ {
		o.turn = (o.turn + 1) % len(o.list)
		c := o.list[o.turn]
		if c.left() == 0 || r.ending(c) || !r.takesBlocks(c) || !d.suits(c) {
			continue
		}
		a.Blocks = append(a.Blocks, muster.BlockID{Container: c.id, LocalID: c.next})
		c.next++
		passed = -1
		if r.full(c) {
			o.list, o.full = slices.Delete(o.list, o.turn, o.turn+1), append(o.full, c)
			o.turn--
		}
		if _, again := used[c.id]; !again {
			used[c.id] = struct{}{}
			a.Placements = append(a.Placements, muster.Placement{Container: c.id, Replication: c.replication, Nodes: slices.Clone(c.members)})
		}
	}
}

// demand is a request that has been checked.
type demand struct {
	replication muster.Replication
	count       int
	excluded    map[muster.NodeNumber]struct{}
}

func (d *demand) excludes(n muster.NodeNumber) bool {
	_, excluded := d.excluded[n]
	return excluded
}

// suits says whether no member of a container is excluded.
func (d *demand) suits(c *container) bool { return !slices.ContainsFunc(c.members, d.excludes) }

// takesBlocks says whether all members of an open container take blocks. The caller holds mu.
func (r *Registry) takesBlocks(c *container) bool {
	return !slices.ContainsFunc(c.members, func(m muster.NodeNumber) bool { return !r.nodes[m].takesBlocks() })
}

// full says whether a container takes no more blocks. The caller holds mu.
func (r *Registry) full(c *container) bool { return c.next > uint64(r.opts.ContainerBlocks) }

// ending says whether an open container is to be closed: it is full, a member is not meant to take
// blocks or is dead, or has closed or lost its replica, or has damaged blocks. The caller holds mu.
func (r *Registry) ending(c *container) bool {
	return r.full(c) || slices.ContainsFunc(c.members, func(m muster.NodeNumber) bool {
		n, p := r.nodes[m], c.of(m)
		return n.wanted != muster.InService || n.health == muster.Dead || p != nil && (p.closed || p.damaged > 0 || !p.counts(n))
	})
}

// growth is what there is to do before blocks can be given.
type growth struct {
	ended []*container
	made  []*container
	more  []*container // are to have more local ids
}

// planGrow reserves local ids for at least one block, in containers that are open or new.
func (r *Registry) planGrow(b *batch, d *demand, missing int) (show func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g, short := r.survey(d)
	next := r.counters
	if short > 0 {
		g.made, err = r.makeContainers(d, short, &next)
	}
	if err != nil && len(g.more) == 0 {
		return nil, err
	}
	return r.planGrowth(b, &g, missing, next), nil
}

// endedMost is how many containers are closed in one go.
const endedMost = 1000

// survey finds the open containers whose turn is next, those that are to be closed on the way, and
// how many are to be made. The caller holds mu.
func (r *Registry) survey(d *demand) (g growth, short int) {
	o := r.open[d.replication]
	if o == nil {
		o = &openContainers{}
	}
	short = r.opts.OpenContainers
	g.ended = slices.Clone(o.full[:min(endedMost, len(o.full))])
	for i := 0; i < len(o.list) && len(g.more) < r.opts.OpenContainers; i++ {
		c := o.list[(o.turn+1+i)%len(o.list)]
		switch {
		case r.ending(c):
			if len(g.ended) < endedMost {
				g.ended = append(g.ended, c)
			}
		case r.takesBlocks(c):
			short--
			if d.suits(c) {
				g.more = append(g.more, c)
			}
		}
	}
	if len(g.more) == 0 {
		short = max(1, short)
	}
	return g, short
}

// makeContainers makes containers for a request. The caller holds mu.
func (r *Registry) makeContainers(d *demand, count int, next *counters) ([]*container, error) {
	candidates, err := r.candidates(d)
	if err != nil {
		return nil, err
	}
	_, _, coded := d.replication.Coding()
	made := make([]*container, min(uint64(count), maxContainer-next.next+1))
	if len(made) == 0 {
		return nil, fmt.Errorf("%w: all ids of containers are given", muster.ErrLimit)
	}
	for i := range made {
		members := choose(candidates, d.replication.Nodes(), coded)
		for j := range candidates {
			if slices.Contains(members, candidates[j].number) {
				candidates[j].load++
			}
		}
		made[i] = &container{id: next.next, containerRecord: containerRecord{replication: d.replication, reserved: 1, members: members}, next: 1}
		next.next++
	}
	return made, nil
}

// candidates returns the datanodes that may be members of a new container. The caller holds mu.
func (r *Registry) candidates(d *demand) ([]candidate, error) {
	load := make([]int, len(r.nodes))
	for _, o := range r.open {
		for _, c := range o.list {
			for _, m := range c.members {
				load[m]++
			}
		}
	}
	var all []candidate
	why := map[string]int{}
	for _, n := range r.nodes {
		switch {
		case d.excludes(n.number):
			why["excluded"]++
		case n.takesBlocks():
			all = append(all, candidate{n.number, n.rack, load[n.number]})
		case n.state() == muster.InService && n.last.IsZero():
			why["not heard of since the start"]++
		case n.state() == muster.InService:
			why["whose disks are all full or failed"]++
		default:
			why[n.state().String()]++
		}
	}
	if need := d.replication.Nodes(); len(all) < need {
		return nil, fmt.Errorf("%w: %v needs %d datanodes that take blocks, and there are %d of %d%s", muster.ErrUnavailable, d.replication, need, len(all), len(r.nodes), others(why))
	}
	return all, nil
}

// others says why datanodes take no blocks, and how many.
func others(why map[string]int) string {
	if len(why) == 0 {
		return ""
	}
	var parts []string
	for what, n := range why {
		parts = append(parts, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(parts)
	return " (" + strings.Join(parts, ", ") + ")"
}

// planGrowth writes what is to be done into the batch. The caller holds mu.
func (r *Registry) planGrowth(b *batch, g *growth, missing int, next counters) (show func()) {
	for _, c := range g.ended {
		record := c.containerRecord
		record.closed = true
		b.container(c.id, &record)
	}
	if next != r.counters {
		b.counters(next)
	}
	grown := slices.Concat(g.more, g.made)
	each := uint64(max(reserve, (missing+len(grown)-1)/len(grown)))
	reserved := make([]uint64, len(grown))
	for i, c := range grown {
		reserved[i] = max(c.reserved, min(c.next+each, uint64(r.opts.ContainerBlocks)+1))
		if record := c.containerRecord; record.reserved != reserved[i] {
			record.reserved = reserved[i]
			b.container(c.id, &record)
		}
	}
	return func() {
		r.counters = next
		r.end(g.ended)
		for i, c := range grown {
			c.reserved = reserved[i]
		}
		for _, c := range g.made {
			c.since = r.seq
			r.add(c)
		}
	}
}

// CloseContainer ends adding blocks to a container, for good. Blocks that were allocated may still
// be written.
func (r *Registry) CloseContainer(ctx context.Context, id uint64) error {
	if err := r.alive(); err != nil {
		return err
	}
	return r.writer.do(ctx, func(b *batch) (func(), error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c := r.containers[id]
		if c == nil {
			return nil, fmt.Errorf("%w: there is no container %d", muster.ErrNotFound, id)
		}
		if c.closed {
			return nil, nil
		}
		record := c.containerRecord
		record.closed = true
		b.container(id, &record)
		return func() { r.end([]*container{c}) }, nil
	})
}

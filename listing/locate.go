package listing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
)

const (
	// maxReplicas is how many replicas of a block are told: those of the widest erasure
	// coding, and more than replication has.
	maxReplicas = 14
	// pageNodesBytes bounds the nodes of a page call, which is answered by one message: some
	// thousands. A stream sends any number.
	pageNodesBytes = 2 << 20
)

// places finds out where the blocks of a page are, once its rows are in buffers and its view
// is given back: the location service may have to be waited for. One goroutine uses it.
type places struct {
	nodeTable
	of       Places
	topology *topology.Map
	sorted   bool
	reader   *topology.Reader // from whom the page's replicas are sorted; nil: all are alike

	ids    []uint64 // of the page's blocks
	cached [256]*muster.Placement
	found  []locations.Located // of the blocks that memory knows nothing of, and those after them
	keys   []uint64            // of a block's replicas, while they are sorted

	// Of blocks whose rows do not have them yet.
	nodes []uint32 // positions in the table
	ends  []uint32 // of each block's nodes
}

func (p *places) reset() {
	p.nodeTable.reset()
	p.of, p.topology, p.reader = nil, nil, nil
}

// markNoData marks a file if bytes of it are in no block.
func markNoData(r *muster.Row) {
	covered := int64(0)
	for i := range r.Blocks {
		covered += r.Blocks[i].Length
	}
	if covered < r.Length && r.Flags&muster.FlagWriting == 0 {
		r.Flags |= muster.FlagNoData
	}
}

// locate adds to the page's blocks where they are, by one call of the cache. It takes the
// paths and how many of them are finished, and returns that number: one more if the path
// that was cut must know what cannot be known now.
func (c *collector) locate(ctx context.Context, paths []string, done int) (int, error) {
	p := &c.places
	if !c.located() || c.rows.Unlocated() == 0 {
		return done, nil
	}
	p.ids = c.rows.AppendContainers(p.ids[:0])
	p.page++
	p.sorted, p.reader = c.options.Sorted, c.reader()
	seed := rand.Uint64()
	at := 0
	for n := 1; n > 0 && at < len(p.ids); at += n {
		n = p.recall(p.ids[at:])
		for i, placement := range p.cached[:n] {
			if err := p.choose(placement, seed+uint64(at+i)); err != nil {
				done = c.unknown(paths, done, p.ids[at+i], err)
			}
		}
		clear(p.cached[:n])
		c.placed()
	}
	if at == len(p.ids) {
		return done, nil
	}
	if err := p.ask(ctx, p.ids[at:]); err != nil {
		return done, err
	}
	defer clear(p.found)
	for i := range p.found {
		l := &p.found[i]
		err := l.Err
		if err == nil {
			err = p.choose(l.Placement, seed+uint64(at+i))
		}
		if err != nil {
			done = c.unknown(paths, done, p.ids[at+i], err)
		}
	}
	c.placed()
	return done, nil
}

// placed adds the nodes of the blocks to their rows.
func (c *collector) placed() {
	p := &c.places
	c.rows.AppendNodes(p.nodes, p.ends)
	p.nodes, p.ends = p.nodes[:0], p.ends[:0]
}

// unknown is for a block of which it is not known where it is. It takes and returns how many
// paths are finished.
func (c *collector) unknown(paths []string, done int, container uint64, err error) int {
	c.placed()
	if c.options.Locations == muster.LocationsMust && !errors.Is(err, muster.ErrNotFound) {
		first := c.position.next() - uint64(done) // index of paths[0]
		at := int(uint64(c.rows.PathOfNext()) - first)
		done = c.unlocated(paths[at], at, done, container, err)
	}
	c.rows.AppendUnknown()
	return done
}

// unlocated ends a path of the page, or changes how it ended, for it must know what cannot be
// known now. It takes the path's place and how many are finished, and returns that number.
func (c *collector) unlocated(path string, at, done int, container uint64, err error) int {
	if at == done { // it was cut
		c.end(c.position.id, 0, muster.ErrUnavailable, describe(path, notNow(container, err)))
		return done + 1
	}
	if o := &c.outcomes[len(c.outcomes)-done+at]; o.Code == muster.OK {
		o.Code, o.Message, o.ChangedAt = muster.ErrUnavailable, describe(path, notNow(container, err)), 0
		c.outcomeSize += len(o.Message)
	}
	return done
}

// recall has the places of the first containers looked up in memory, and returns of how many.
func (p *places) recall(ids []uint64) int {
	if p.of == nil {
		return 0
	}
	return p.of.Cached(ids[:min(len(ids), len(p.cached))], p.cached[:])
}

// ask has the places of containers looked up. Its error is the context's.
func (p *places) ask(ctx context.Context, ids []uint64) error {
	if cap(p.found) < len(ids) {
		p.found = make([]locations.Located, cap(p.ids))
	}
	p.found = p.found[:len(ids)]
	if p.of == nil {
		for i := range p.found {
			p.found[i].Err = fmt.Errorf("%w: this server knows of no locations", muster.ErrUnavailable)
		}
		return nil
	}
	if err := p.of.Get(ctx, ids, p.found); err != nil {
		clear(p.found)
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
			return cause // why the stream ends says more than what it waited for
		}
		return err
	}
	return nil
}

// reader returns the one from whom replicas are sorted, by the newest topology; nil if there
// is none.
func (c *collector) reader() *topology.Reader {
	host := c.options.Reader
	if host == "" {
		host = c.options.From
	}
	if !c.options.Sorted || host == "" || c.places.topology == nil {
		return nil
	}
	return c.places.topology.ReaderFor(host)
}

// notNow is the failure of a path that must know where a container is, for it cannot be asked
// now.
func notNow(container uint64, err error) error {
	if !errors.Is(err, muster.ErrUnavailable) {
		err = fmt.Errorf("%w: %v", muster.ErrUnavailable, err)
	}
	return fmt.Errorf("container %d: %w", container, err)
}

// errTooManyNodes is of blocks whose nodes a page has no room for.
var errTooManyNodes = fmt.Errorf("%w: too many datanodes for one page; list fewer paths, or in a stream", muster.ErrUnavailable)

// choose adds the nodes of a block to those that its rows do not have yet.
func (p *places) choose(l *muster.Placement, seed uint64) error {
	before := len(p.nodes)
	_, _, coded := l.Replication.Coding()
	switch {
	case coded:
		p.index(l.Nodes)
	case p.sorted:
		p.sort(l.Nodes, seed)
	default:
		p.list(l.Nodes)
	}
	if p.refused {
		p.refused, p.nodes = false, p.nodes[:before]
		return errTooManyNodes
	}
	p.ends = append(p.ends, uint32(len(p.nodes)))
	return nil
}

// entry returns the entry of a node, if there is one.
func (p *places) entry(n muster.NodeNumber) *tableEntry {
	if e := p.find(n); e != nil {
		return e
	}
	e := p.lookUp(n, p.of)
	if e != nil {
		e.order = orderOf(p.reader.Cost(n), e.record.State)
	}
	return e
}

// orderOf returns what replicas are sorted by: their distance, but stale nodes come after the
// others and dead ones last.
func orderOf(cost int32, s muster.NodeState) uint32 {
	const stale, dead = 1 << 31, 1<<32 - 1
	switch {
	case s < muster.Stale:
		return uint32(cost)
	case s < muster.Dead:
		return stale | uint32(min(cost, topology.MaxCost-1))
	}
	return dead
}

// list chooses nodes as they come.
func (p *places) list(nodes []muster.NodeNumber) {
	to := p.nodes
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		e := p.find(n)
		if e == nil {
			e = p.entry(n)
		}
		if e != nil {
			to = append(to, e.position)
		}
	}
	p.nodes = to
}

// index chooses the nodes of an erasure-coded block: their positions are the replica indexes.
func (p *places) index(nodes []muster.NodeNumber) {
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		position := uint32(rows.Absent)
		if e := p.entry(n); e != nil {
			position = e.position
		}
		p.nodes = append(p.nodes, position)
	}
}

// sort chooses nodes in their order for the reader.
func (p *places) sort(nodes []muster.NodeNumber, seed uint64) {
	keys, to := p.keys[:0], p.nodes
	for _, n := range nodes {
		e := p.find(n)
		if e == nil {
			e = p.entry(n)
		}
		if e != nil {
			keys = append(keys, uint64(e.order)<<32|uint64(e.position))
		}
	}
	topology.Arrange(keys, seed)
	for _, k := range keys[:min(len(keys), maxReplicas)] {
		to = append(to, uint32(k))
	}
	p.keys, p.nodes = keys, to
}

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
	reader   *topology.Reader // of the current page's replicas; nil: they are not sorted, or all are alike

	ids    []uint64            // of the page's blocks
	found  []locations.Located // by block
	keys   []uint64            // of a block's replicas, while they are sorted
	chosen []uint32            // positions of a block's nodes
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
	if err := p.ask(ctx); err != nil {
		return done, err
	}
	defer clear(p.found)
	p.page++
	p.reader = c.reader()
	sorted, must, seed := c.options.Sorted, c.options.Locations == muster.LocationsMust, rand.Uint64()
	first := c.position.next() - uint64(done) // index of paths[0]
	for i := range p.found {
		known, err := p.choose(&p.found[i], sorted, seed+uint64(i))
		if err != nil && must {
			at := int(uint64(c.rows.PathOfNext()) - first)
			done = c.unlocated(paths[at], at, done, p.ids[i], err)
		}
		c.rows.AppendNodes(p.chosen, known)
	}
	return done, nil
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

// ask has the places of the containers looked up. Its error is the context's.
func (p *places) ask(ctx context.Context) error {
	if cap(p.found) < len(p.ids) {
		p.found = make([]locations.Located, cap(p.ids))
	}
	p.found = p.found[:len(p.ids)]
	if p.of == nil {
		for i := range p.found {
			p.found[i].Err = fmt.Errorf("%w: this server knows of no locations", muster.ErrUnavailable)
		}
		return nil
	}
	if err := p.of.Get(ctx, p.ids, p.found); err != nil {
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

// choose sets p.chosen to where a block is. If that is not known there is an error, unless it
// is known that the container does not exist.
func (p *places) choose(l *locations.Located, sorted bool, seed uint64) (known bool, err error) {
	p.chosen = p.chosen[:0]
	if l.Err != nil {
		if errors.Is(l.Err, muster.ErrNotFound) {
			return false, nil
		}
		return false, l.Err
	}
	nodes := l.Placement.Nodes
	_, _, coded := l.Placement.Replication.Coding()
	switch {
	case coded:
		p.index(nodes)
	case sorted:
		p.sort(nodes, seed)
	default:
		p.list(nodes)
	}
	if p.refused {
		p.refused, p.chosen = false, p.chosen[:0]
		return false, errTooManyNodes
	}
	return true, nil
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
	chosen := p.chosen
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		if e := p.entry(n); e != nil {
			chosen = append(chosen, e.position)
		}
	}
	p.chosen = chosen
}

// index chooses the nodes of an erasure-coded block: their positions are the replica indexes.
func (p *places) index(nodes []muster.NodeNumber) {
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		position := uint32(rows.Absent)
		if e := p.entry(n); e != nil {
			position = e.position
		}
		p.chosen = append(p.chosen, position)
	}
}

// sort chooses nodes in their order for the reader.
func (p *places) sort(nodes []muster.NodeNumber, seed uint64) {
	keys := p.keys[:0]
	for _, n := range nodes {
		if e := p.entry(n); e != nil {
			keys = append(keys, uint64(e.order)<<32|uint64(e.position))
		}
	}
	topology.Arrange(keys, seed)
	chosen := p.chosen
	for _, k := range keys[:min(len(keys), maxReplicas)] {
		chosen = append(chosen, uint32(k))
	}
	p.keys, p.chosen = keys, chosen
}

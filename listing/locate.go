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

	files []locatedFile // of the current page, in order

	ids    []uint64            // of the page's blocks
	found  []locations.Located // by block
	order  []muster.NodeNumber // scratch
	chosen []uint32            // positions of a block's nodes
}

// locatedFile is a file of the current page that has blocks.
type locatedFile struct {
	blocks  int
	outcome int // of its path; the number of outcomes if the path was cut
}

func (p *places) reset() {
	p.nodeTable.reset()
	p.of, p.topology = nil, nil
}

// want notes a file whose row is about to be added, and marks it if bytes of it are in no
// block.
func (p *places) want(r *muster.Row, outcome int) {
	covered := int64(0)
	for i := range r.Blocks {
		covered += r.Blocks[i].Length
	}
	if covered < r.Length && r.Flags&muster.FlagWriting == 0 {
		r.Flags |= muster.FlagNoData
	}
	if len(r.Blocks) > 0 {
		p.files = append(p.files, locatedFile{len(r.Blocks), outcome})
	}
}

// locate adds to the page's blocks where they are, by one call of the cache. It takes the
// paths and how many of them are finished, and returns that number: one more if the path
// that was cut must know what cannot be known now.
func (c *collector) locate(ctx context.Context, paths []string, done int) (int, error) {
	p := &c.places
	if !c.located() || len(p.files) == 0 {
		return done, nil
	}
	p.ids = c.rows.AppendContainers(p.ids[:0])
	if err := p.ask(ctx); err != nil {
		return done, err
	}
	defer clear(p.found)
	p.page++
	reader, seed := c.reader(), rand.Uint64()
	first := c.position.next() - uint64(done) // index of paths[0]
	must, at := c.options.Locations == muster.LocationsMust, 0
	for _, f := range p.files {
		var failed error
		for range f.blocks {
			known, err := p.choose(&p.found[at], c.options.Sorted, reader, seed+uint64(at))
			if err != nil && must && failed == nil {
				failed = notNow(p.ids[at], err)
			}
			c.rows.AppendNodes(p.chosen, known)
			at++
		}
		switch {
		case failed == nil:
		case f.outcome == len(c.outcomes):
			c.end(c.position.id, 0, muster.ErrUnavailable, describe(paths[done], failed))
			done++
		default:
			if o := &c.outcomes[f.outcome]; o.Code == muster.OK {
				o.Code, o.Message, o.ChangedAt = muster.ErrUnavailable, describe(paths[o.Index-first], failed), 0
				c.outcomeSize += len(o.Message)
			}
		}
	}
	return done, nil
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
func (p *places) choose(l *locations.Located, sort bool, from *topology.Reader, seed uint64) (known bool, err error) {
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
	case sort:
		p.order = from.Sort(p.order[:0], nodes, seed)
		p.sorted()
	default:
		p.list(nodes)
	}
	p.chosen = p.chosen[:min(len(p.chosen), maxReplicas)]
	if p.refused {
		p.refused, p.chosen = false, p.chosen[:0]
		return false, errTooManyNodes
	}
	return true, nil
}

// list chooses nodes as they come.
func (p *places) list(nodes []muster.NodeNumber) {
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		if e := p.entry(n, p.of); e != nil {
			p.chosen = append(p.chosen, e.position)
		}
	}
}

// index chooses the nodes of an erasure-coded block: their positions are the replica indexes.
func (p *places) index(nodes []muster.NodeNumber) {
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		position := uint32(rows.Absent)
		if e := p.entry(n, p.of); e != nil {
			position = e.position
		}
		p.chosen = append(p.chosen, position)
	}
}

// sorted chooses nodes in the order of p.order, but stale ones after the others and dead ones
// last.
func (p *places) sorted() {
	bad := p.order[:0] // overwrites what was read
	for _, n := range p.order {
		e := p.entry(n, p.of)
		switch {
		case e == nil:
		case e.record.State >= muster.Stale:
			bad = append(bad, n)
		default:
			p.chosen = append(p.chosen, e.position)
		}
	}
	for _, state := range [...]muster.NodeState{muster.Stale, muster.Dead} {
		for _, n := range bad {
			if e := p.entry(n, p.of); e != nil && e.record.State == state {
				p.chosen = append(p.chosen, e.position)
			}
		}
	}
}

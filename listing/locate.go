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

// locate adds to the page's blocks where they are: from memory up to the first that is not
// there, and the rest by one call of the cache. It takes the paths and how many of them are
// finished, and returns that number: one more if the path that was cut must know what cannot be
// known now.
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
		for i := 0; i < n; i++ {
			i += p.choose(p.cached[i:n], seed+uint64(at+i))
			if i < n {
				done = c.unknown(paths, done, p.ids[at+i], errTooManyNodes)
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
		err := p.found[i].Err
		if err == nil && p.choose([]*muster.Placement{p.found[i].Placement}, seed+uint64(at+i)) == 0 {
			err = errTooManyNodes
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

// choose adds the nodes of blocks to those that their rows do not have yet. It returns of how
// many blocks, fewer than all if there is no room for those of the next one.
func (p *places) choose(blocks []*muster.Placement, seed uint64) int {
	nodes := p.nodes
	for i, l := range blocks {
		before := len(nodes)
		if _, _, coded := l.Replication.Coding(); coded {
			nodes = p.index(nodes, l.Nodes)
		} else if p.sorted {
			nodes = p.sort(nodes, l.Nodes, seed+uint64(i))
		} else {
			for _, n := range l.Nodes[:min(len(l.Nodes), maxReplicas)] {
				if e := p.find(n); e != nil {
					nodes = append(nodes, e.position())
				} else if e := p.entry(n); e != nil {
					nodes = append(nodes, e.position())
				}
			}
		}
		if p.refused {
			p.refused, p.nodes = false, nodes[:before]
			return i
		}
		p.ends = append(p.ends, uint32(len(nodes)))
	}
	p.nodes = nodes
	return len(blocks)
}

// entry returns the entry of a node that the page has not named yet, if there is one.
func (p *places) entry(n muster.NodeNumber) *tableEntry {
	e := p.lookUp(n, p.of)
	if e != nil {
		e.place = uint64(p.reader.Rank(n, e.record.State))<<32 | uint64(e.position())
	}
	return e
}

// index adds the nodes of an erasure-coded block: their positions are the replica indexes.
func (p *places) index(dst []uint32, nodes []muster.NodeNumber) []uint32 {
	for _, n := range nodes[:min(len(nodes), maxReplicas)] {
		e := p.find(n)
		if e == nil {
			e = p.entry(n)
		}
		if e != nil {
			dst = append(dst, e.position())
		} else {
			dst = append(dst, rows.Absent)
		}
	}
	return dst
}

// sort adds the nodes of a block in their order for the reader.
func (p *places) sort(dst []uint32, nodes []muster.NodeNumber, seed uint64) []uint32 {
	keys := p.keys[:0]
	for _, n := range nodes {
		if e := p.find(n); e != nil {
			keys = append(keys, e.place)
		} else if e := p.entry(n); e != nil {
			keys = append(keys, e.place)
		}
	}
	p.keys = keys
	topology.Arrange(keys, seed)
	for _, k := range keys[:min(len(keys), maxReplicas)] {
		dst = append(dst, uint32(k))
	}
	return dst
}

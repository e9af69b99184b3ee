package listing

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

const (
	// pagePaths is the most paths that one view is asked for.
	pagePaths = 1000
	// examinedPerEntry times the limit is the most names that a page looks at: else a
	// directory of hidden names would hold its view for as long as it is large.
	examinedPerEntry = 10

	// Upper bounds of what one row, block or outcome takes in a message, beside its text.
	rowBytes     = 96
	blockBytes   = 40
	outcomeBytes = 64

	maxIndex = 1<<32 - 1 // rows carry their path's index as 32 bits
)

// collector gathers the rows and outcomes of pages until they are sent. One goroutine
// uses it.
//
// Pages are added by page, each from one view; what was gathered is in rows and
// outcomes until reset. The position says where the listing stands after them.
type collector struct {
	options  Options
	bounds   bounds
	caller   *muster.Identity
	position position
	seal     *sealer

	rows        *rows.Builder
	outcomes    []muster.Outcome
	outcomeSize int
	txid        uint64  // of the newest view
	message     Message // of a page call

	left  bounds // what the current page may still take
	fresh bool   // nothing was added to the current page yet
	heads heads

	row     muster.Row
	scratch []byte
}

// bounds are what a page ends at; each is at least 1.
type bounds struct {
	entries  int
	examined int
	bytes    int
}

// collector returns a collector for a call, used or new; release takes it back.
func (l *Lister) collector(caller *muster.Identity, o Options) *collector {
	c, ok := l.collectors.Get().(*collector)
	if !ok {
		c = &collector{seal: newSealer(l.cursorKey)}
	}
	o = o.canonical()
	if c.rows == nil || c.rows.Columns() != o.Columns {
		c.rows = rows.NewBuilder(o.Columns)
	}
	limit := o.pageLimit(l.config)
	c.options, c.caller = o, caller
	c.bounds = bounds{entries: limit, examined: examinedPerEntry * limit, bytes: l.config.PageBytes}
	c.seal.bind(o)
	return c
}

// release takes back a collector whose call is over and whose buffers nobody refers to.
func (l *Lister) release(c *collector) {
	c.reset()
	c.caller, c.txid, c.position, c.row = nil, 0, position{name: c.position.name[:0]}, muster.Row{}
	l.collectors.Put(c)
}

// reset forgets the rows and outcomes, which were sent.
func (c *collector) reset() {
	c.rows.Reset()
	c.outcomes = c.outcomes[:0]
	c.outcomeSize = 0
}

// size is an upper bound of what was gathered takes in a message.
func (c *collector) size() int { return c.rows.Size() + c.outcomeSize }

// page lists one page of paths from one view: paths starts with the path that the
// position is inside of, or else with the one after it. It returns how many of them are
// finished. An error is one of the call; what was gathered is then void.
func (c *collector) page(ctx context.Context, view *namespace.View, paths []string) (int, error) {
	c.begin(view)
	r := view.NewReader(c.caller)
	defer r.Close()
	done := 0
	for done < min(len(paths), pagePaths) && c.open() {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if c.position.state != inside {
			c.position.enter(paths[done], &c.scratch)
		}
		if c.position.index > maxIndex {
			return done, fmt.Errorf("%w: path number %d; a call lists at most %d paths", muster.ErrLimit, c.position.index, maxIndex+1)
		}
		cut, err := c.path(r, paths[done])
		if err != nil {
			return done, fmt.Errorf("list %s: %w", quote(paths[done]), err)
		}
		if cut {
			break
		}
		done++
	}
	return c.readHeads(r, paths, done)
}

func (c *collector) begin(view *namespace.View) {
	c.txid = view.Txid()
	c.left = c.bounds
	c.left.bytes += c.size()
	c.fresh = true
	c.heads.reset()
}

// open says whether the page may take up another path. The first always fits.
func (c *collector) open() bool {
	return c.fresh || c.left.entries > 0 && c.left.examined > 0 && c.size() < c.left.bytes
}

// path lists what is left of one path. It either finishes it, with an outcome, or leaves
// the position inside it and says that it was cut.
func (c *collector) path(r *namespace.Reader, path string) (cut bool, err error) {
	res, err := r.Resolve(path, !c.options.Own)
	if err != nil {
		return false, c.fail(path, 0, err)
	}
	if c.position.id != 0 && c.position.id != res.ID() {
		return false, c.fail(path, res.ID(), muster.ErrChanged)
	}
	if c.options.Own || res.Kind() != muster.Directory {
		return c.own(r, path, &res)
	}
	return c.children(r, path, &res)
}

// own lists the entry of the path itself.
func (c *collector) own(r *namespace.Reader, path string, res *namespace.Resolved) (cut bool, err error) {
	if err := r.Row(res, &c.row, c.blocks()); err != nil {
		return false, c.fail(path, res.ID(), err)
	}
	c.left.examined--
	if !c.fits() {
		return true, nil
	}
	c.add()
	c.succeed(res)
	return false, nil
}

// children lists the children of a directory, after the position's name.
func (c *collector) children(r *namespace.Reader, path string, res *namespace.Resolved) (cut bool, err error) {
	if err := r.Scan(res, string(c.position.name), c.blocks()); err != nil {
		return false, c.fail(path, res.ID(), err)
	}
	for r.Next(&c.row) {
		hidden := c.options.Hidden.Hides(c.row.Name)
		if c.left.examined <= 0 || !hidden && !c.fits() {
			return true, nil
		}
		c.left.examined--
		c.position.id = res.ID() // pinned by the first name taken from it, not before
		c.position.name = append(c.position.name[:0], c.row.Name...)
		if !hidden {
			c.add()
		}
	}
	if err := r.Err(); err != nil {
		return false, c.fail(path, res.ID(), err)
	}
	c.succeed(res)
	return false, nil
}

func (c *collector) blocks() bool { return c.options.Columns.Has(rows.ColBlocks) }

// fits says whether the current row may join the page. The first always may.
func (c *collector) fits() bool {
	r := &c.row
	size := rowBytes + len(r.Name) + len(r.Owner) + len(r.Group) + len(r.Target) + blockBytes*len(r.Blocks)
	return c.fresh || c.left.entries > 0 && c.size()+size <= c.left.bytes
}

// add appends the current row.
func (c *collector) add() {
	if c.row.Kind == muster.Directory && len(c.row.Name) > 0 && c.options.Columns.Has(rows.ColMTime) {
		c.heads.want(c.row.ID, c.rows.Len(), len(c.outcomes))
	}
	c.rows.Append(uint32(c.position.index), &c.row)
	c.position.rows++
	c.left.entries--
	c.fresh = false
}

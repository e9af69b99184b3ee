package listing

import (
	"context"

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
	// placeBytes is what the nodes of a block take at most, until they are known.
	placeBytes = 4*maxReplicas + 2

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

	left    bounds // what the current page may still take
	fresh   bool   // nothing was added to the current page yet
	full    bool   // the current page's first row does not fit what was gathered before
	perPath bounds // entries and locations that a path is expected to have
	stage   stage
	heads   heads
	places  places

	row      muster.Row
	expected int // places of the row's blocks, if they are asked for
	scratch  []byte
}

// bounds are what a page ends at; each is at least 1.
type bounds struct {
	entries   int
	examined  int
	locations int
	bytes     int
}

// collector returns a collector for a call, used or new; release takes it back.
func (l *Lister) collector(caller *muster.Identity, o Options) *collector {
	c, ok := l.collectors.Get().(*collector)
	if !ok {
		c = &collector{seal: newSealer(l.cursorKey), rows: rows.NewBuilder(o.Columns)}
	}
	l.lent.Add(1)
	o = o.canonical()
	c.rows.Use(o.Columns)
	limit := o.pageLimit(l.config)
	c.options, c.caller = o, caller
	c.bounds = bounds{entries: limit, examined: examinedPerEntry * limit, locations: o.locationLimit(limit), bytes: l.config.PageBytes}
	c.perPath = bounds{entries: max(1, limit/firstStage), locations: 1}
	c.places.of, c.places.topology = l.config.Places, l.config.Topology
	c.seal.bind(o)
	return c
}

// release takes back a collector whose call is over and whose buffers nobody refers to.
func (l *Lister) release(c *collector) {
	c.reset()
	c.stage.reset()
	c.places.reset()
	c.options, c.caller, c.txid, c.position, c.row = Options{}, nil, 0, position{name: c.position.name[:0]}, muster.Row{}
	l.lent.Add(-1)
	l.collectors.Put(c)
}

// reset forgets the rows and outcomes, which were sent.
func (c *collector) reset() {
	c.rows.Reset()
	c.outcomes = c.outcomes[:0]
	c.outcomeSize = 0
}

// size is an upper bound of what was gathered takes in a message.
func (c *collector) size() int {
	size := c.rows.Size() + c.outcomeSize
	if c.located() {
		size += placeBytes * c.rows.Unlocated()
	}
	return size
}

// gathered says whether there is anything to send.
func (c *collector) gathered() bool { return c.rows.Len() > 0 || len(c.outcomes) > 0 }

// located says whether the call is to be told where blocks are.
func (c *collector) located() bool { return c.options.Locations != muster.NoLocations }

// page lists one page of paths from one view: paths starts with the path that the
// position is inside of, or else with the one after it. It returns how many of them are
// finished. An error is one of the call; what was gathered is then void.
//
// The position's chain does not follow; see position.follow. Blocks have no places yet; see
// locate.
func (c *collector) page(ctx context.Context, view *namespace.View, paths []string) (int, error) {
	c.begin(view)
	r := view.NewReader(c.caller)
	defer r.Close()
	most := min(len(paths), pagePaths)
	done := 0
	for cut := false; !cut && done < most && c.open(); {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		n := min(most-done, c.stageSize())
		c.resolve(r, paths[done:done+n])
		finished, inside, err := c.emit(r, paths[done:done+n])
		if err != nil {
			return done, err
		}
		done, cut = done+finished, inside
	}
	return c.readHeads(r, paths, done)
}

func (c *collector) begin(view *namespace.View) {
	c.txid = view.Txid()
	c.left = c.bounds
	c.left.bytes += c.size()
	c.fresh, c.full = true, false
	c.heads.reset()
}

// open says whether the page may take up another path. The first always fits.
func (c *collector) open() bool {
	return c.fresh || c.left.entries > 0 && c.left.examined > 0 && c.size() < c.left.bytes
}

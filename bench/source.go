package bench

import (
	"context"
	"io"
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// source is where arms list: a server, or the listing itself in this process. It is safe
// for concurrent use.
type source interface {
	// page lists one page, hands it to each, and returns the cursor of the next one;
	// empty: it was the last.
	page(ctx context.Context, paths []string, cursor []byte, limit int, each func(part)) ([]byte, error)
	stream(ctx context.Context, paths []string, each func(part)) error
}

// wire lists through a client.
type wire struct {
	client  *client.Client
	columns rows.Columns
	located bool
	reader  string // whose nearest replicas come first, if located; "": they come in no order
}

func (w wire) options(limit int) client.ListOptions {
	o := client.ListOptions{Limit: limit, Columns: w.columns}
	if w.located {
		o.Locations, o.Sorted, o.Reader = muster.LocationsHint, w.reader != "", w.reader
	}
	return o
}

func (w wire) page(ctx context.Context, paths []string, cursor []byte, limit int, each func(part)) ([]byte, error) {
	b, err := w.client.Page(ctx, paths, cursor, w.options(limit))
	if err != nil {
		return nil, err
	}
	next := b.Cursor
	each(part{batch: b})
	return next, nil
}

func (w wire) stream(ctx context.Context, paths []string, each func(part)) error {
	for b, err := range w.client.List(ctx, slices.Values(paths), w.options(0)) {
		if err != nil {
			return err
		}
		each(part{batch: b})
	}
	return nil
}

// direct lists with no wire and no client: the setting of HDFS-13616's own figure. Rows
// are made into Arrow frames, and nobody decodes them.
type direct struct {
	lister  *listing.Lister
	caller  muster.Identity
	columns rows.Columns
	located bool
	reader  string // as of wire
}

func (d direct) options(limit int) listing.Options {
	o := listing.Options{Limit: limit, Columns: d.columns}
	if d.located {
		o.Columns |= rows.LocatedColumns
		o.Locations, o.Sorted, o.Reader = muster.LocationsHint, d.reader != "", d.reader
	}
	return o
}

// chunkPaths is how many paths a stream is given at once.
const chunkPaths = 500

func (d direct) page(ctx context.Context, paths []string, cursor []byte, limit int, each func(part)) (next []byte, err error) {
	o := d.options(limit)
	err = d.lister.Page(ctx, &d.caller, paths, o, cursor, func(m *listing.Message) error {
		next = slices.Clone(m.Cursor)
		each(part{message: m, nodes: m.Nodes, paths: paths, columns: o.Columns})
		return nil
	})
	return next, err
}

func (d direct) stream(ctx context.Context, paths []string, each func(part)) error {
	rest := paths
	next := func(context.Context) ([]string, error) {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		chunk := slices.Clone(rest[:min(chunkPaths, len(rest))]) // Stream keeps it
		rest = rest[len(chunk):]
		return chunk, nil
	}
	o := d.options(0)
	var nodes []muster.Node
	return d.lister.Stream(ctx, &d.caller, o, nil, next, func(m *listing.Message) error {
		nodes = append(nodes, m.Nodes...)
		each(part{message: m, nodes: nodes, paths: paths, columns: o.Columns})
		return nil
	})
}

// part is one message of an answer. One of the two fields is set.
type part struct {
	batch   *client.Batch
	message *listing.Message // valid until each returns
	nodes   []muster.Node    // the table of the message's call
	paths   []string         // of the message's call
	columns rows.Columns     // of the message's rows
}

// rows is how many rows came. Those of a message are counted when their path ends.
func (p part) rows() int {
	if p.batch != nil {
		return p.batch.Len()
	}
	n := uint64(0)
	for i := range p.message.Outcomes {
		n += p.message.Outcomes[i].Rows
	}
	return int(n)
}

// hasRows says whether any row came.
func (p part) hasRows() bool {
	if p.batch != nil {
		return p.batch.Len() > 0
	}
	return len(p.message.Frame) > 0
}

// release gives back the memory of a part that nobody looks at any more.
func (p part) release() {
	if p.batch != nil {
		p.batch.Release()
	}
}

// read reads what a planner reads of each row, if the rows are decoded.
func (p part) read() (sum int64) {
	if p.batch == nil {
		return 0
	}
	for i := range p.batch.Len() {
		sum += p.batch.Length(i) + int64(len(p.batch.Name(i)))
		for k := range max(0, p.batch.NumBlocks(i)) {
			for r := range p.batch.Replicas(i, k) {
				sum += int64(len(r.Host))
			}
		}
	}
	return sum
}

// hosts returns the hosts of the k-th block of row i, in their order; false: it is unknown where
// the block is.
func (p part) hosts(b *rows.Batch, i, k int) (hosts []string, known bool) {
	nodes, known := b.Nodes(i, k)
	for j := range nodes.Len() {
		at, present := nodes.At(j)
		switch {
		case !present:
		case p.batch != nil:
			hosts = append(hosts, p.batch.Replica(i, k, j).Host)
		case int(at) < len(p.nodes):
			hosts = append(hosts, p.nodes[at].Host)
		default:
			hosts = append(hosts, "a node that was not told of")
		}
	}
	return hosts, known
}

// decoded returns the rows, the path of each row, and the first failure of a path: an
// experiment lists nothing that may fail.
func (p part) decoded() (b *rows.Batch, given func(int) string, err error) {
	if p.batch != nil {
		for _, o := range p.batch.Outcomes {
			if err := o.Err(); err != nil {
				return nil, nil, err
			}
		}
		return p.batch.Batch, p.batch.Given, nil
	}
	for _, o := range p.message.Outcomes {
		if o.Code != muster.OK {
			return nil, nil, &muster.CommandError{Verb: "list", Path: p.paths[o.Index], Err: o.Code}
		}
	}
	if len(p.message.Frame) > 0 {
		b, err = rows.Decode(slices.Clone(p.message.Frame), p.columns.Normal())
	}
	return b, func(i int) string { return p.paths[b.PathIndex(i)] }, err
}

package client

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
)

// ListOptions say what a listing returns. The zero value lists the children of each
// path with all columns but the blocks.
type ListOptions struct {
	// Limit bounds the entries of a page, the unit that sees one state. 0: the
	// server's default; more than the server's bound is taken as the bound. It
	// changes how rows come, never which.
	Limit int

	// Columns are the columns wanted. 0: rows.DefaultColumns. path_index and name
	// always come.
	Columns rows.Columns

	// Hidden leaves out children by their names.
	Hidden muster.Hidden

	// Own returns the given paths' own entries, with empty names, instead of their
	// children; a link in last place is not followed then.
	Own bool

	// Consistency is for List and Walk only: a page call is always one state. A
	// stream of muster.ConsistencySnapshot cannot be resumed: when it breaks it
	// fails with muster.ErrUnavailable, and its rows are void.
	Consistency muster.Consistency

	// Compress asks the server to compress the rows on their way: it pays where the
	// network is slower than about 100 MB/s.
	Compress bool

	// Cursor is for Pages only: go on after the batch that had it.
	Cursor []byte
}

// List lists all paths in one call, however many there are, and yields batches of rows
// in the order of the paths and, within a path, of the names' bytes.
//
// An error is one of the whole call and ends the iteration; errors of paths are in
// the batches' outcomes, of which each path has exactly one, after its last row. An
// iteration that ends without an error is complete: that is checked, not assumed. No
// path gives no batch, and no call is made. The same path twice is listed twice.
//
// paths is iterated once, in a goroutine of its own, while batches are yielded, so it
// may block, for example until rows have come. It is stopped when the loop over the
// batches ends, and the loop waits for that: a paths that blocks for long must watch
// ctx, or what else ends the loop. An error is yielded before that wait. At most
// 65,536 paths are read ahead of the rows.
//
// When the connection breaks, the listing goes on from its last cursor on another one:
// no row comes twice, none is lost.
func (c *Client) List(ctx context.Context, paths iter.Seq[string], o ListOptions) iter.Seq2[*Batch, error] {
	return c.list(ctx, func(context.Context) iter.Seq[string] { return paths }, maxWindowPaths, o)
}

// wire returns the options as a call sends them.
func (o ListOptions) wire() (rpc.ListOptions, error) {
	return rpc.ListOptions{
		Limit:       min(max(o.Limit, 0), math.MaxInt32),
		Columns:     uint32(o.Columns.Normal()),
		Hidden:      o.Hidden,
		Own:         o.Own,
		Consistency: o.Consistency,
		Compress:    o.Compress,
	}, o.Columns.Validate()
}

// Collect gathers all rows of a listing. The error joins that of the whole call and
// those of all paths; the rows of the other paths are complete all the same.
func Collect(batches iter.Seq2[*Batch, error]) ([]Info, error) {
	var all []Info
	var errs []error
	for b, err := range batches {
		if err != nil {
			errs = append(errs, err)
			break
		}
		for i := range b.Len() {
			all = append(all, b.Info(i))
		}
		for _, o := range b.Outcomes {
			if err := o.Err(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return all, errors.Join(errs...)
}

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// children; a link in last place is not followed then, unless Follow is set.
	Own    bool
	Follow bool

	// Locations says where the blocks of files are, as far as the server knows, see
	// Batch.Replica; the columns blocks, flags and replication come too then. With
	// muster.LocationsMust a path fails with ErrUnavailable if the server cannot find out
	// now where a block is: what came of it is partial then. With muster.LocationsHint such
	// blocks are marked. Of own entries LocationsMust is for those who may read the files.
	Locations muster.Locations

	// LocationLimit bounds the locations of a page, blocks times replicas; a file has all
	// of its own. 0: ten times Limit. Like that it changes how rows come, never which.
	LocationLimit int

	// Sorted puts the replicas of each block in the order of their distance from the
	// reader, which is different for blocks that lie together if they are as far away;
	// datanodes that are stale or dead come last. Those of an erasure-coded block stay in
	// the order of their index. Else the order is none.
	Sorted bool

	// Reader is Options.Reader for this listing. Empty: that.
	Reader string

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

// wire returns the options as a call sends them. reader is the client's own.
func (o ListOptions) wire(reader string) (rpc.ListOptions, error) {
	w := rpc.ListOptions{
		Limit:       min(max(o.Limit, 0), math.MaxInt32),
		Columns:     uint32(o.columns()),
		Hidden:      o.Hidden,
		Own:         o.Own,
		Follow:      o.Follow,
		Consistency: o.Consistency,
		Compress:    o.Compress,
		Locations:   o.Locations,
	}
	switch {
	case o.Follow && !o.Own:
		return w, fmt.Errorf("%w: Follow is for own entries; a listing of what is in directories follows links anyway", muster.ErrInvalid)
	case o.Locations == muster.NoLocations && (o.Sorted || o.Reader != "" || o.LocationLimit != 0):
		return w, fmt.Errorf("%w: Sorted, Reader and LocationLimit are for a listing with Locations", muster.ErrInvalid)
	case o.Locations == muster.NoLocations:
		return w, o.Columns.Validate()
	}
	w.LocationLimit, w.Sorted, w.Reader = min(max(o.LocationLimit, 0), math.MaxInt32), o.Sorted, cmp.Or(o.Reader, reader)
	return w, cmp.Or(o.Columns.Validate(), checkReader(w.Reader))
}

// columns are those that come.
func (o ListOptions) columns() rows.Columns {
	c := o.Columns.Normal()
	if o.Locations != muster.NoLocations {
		c |= rows.LocatedColumns
	}
	return c
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

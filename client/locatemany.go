package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// LocateOptions say what LocateMany tells. The zero value is for reading files.
type LocateOptions struct {
	// Hint is for planning: a block of which it is not known where it is does not fail its
	// path, but has an Err; and a directory, or a link, is no error, but has no blocks.
	Hint bool

	// Reader is Options.Reader for this call. Empty: that.
	Reader string
}

// LocatedPath is the answer of LocateMany for one path.
type LocatedPath struct {
	Path    string  // as it was given
	Located Located // if Err is nil; its Path is the given one, without superfluous slashes
	Err     error   // *fs.PathError
}

// LocateMany says where all blocks of any number of files are, in one call, the nearest
// replicas first; those of an erasure-coded block are in the order of their index. Exactly
// one answer comes for each path, in their order; the iteration's error is one of the whole
// call. How paths is used is said at List.
//
// A link in last place is followed. A path fails with ErrIsDirectory if it is no file, and
// with ErrUnavailable if the server cannot find out now where a block is. A block whose
// container does not exist has ErrNotFound as its Err. The caller must be allowed to read the
// files; with Hint to see them is enough, as in all listings.
//
// The same as Arrow: List with LocationsMust, Own, Follow and Sorted, and a
// NewLocatedIPCWriter.
func (c *Client) LocateMany(ctx context.Context, paths iter.Seq[string], o LocateOptions) iter.Seq2[LocatedPath, error] {
	list := ListOptions{Own: true, Follow: true, Columns: rows.AllColumns, Locations: muster.LocationsMust, Sorted: true, Reader: o.Reader}
	if o.Hint {
		list.Locations = muster.LocationsHint
	}
	return func(yield func(LocatedPath, error) bool) {
		for p, err := range ownRows(c.List(ctx, paths, list), (*Batch).Located) {
			if err != nil {
				yield(LocatedPath{}, err)
				return
			}
			answer := LocatedPath{Path: p.outcome.Path, Err: p.outcome.err("locate")}
			if answer.Err == nil && !o.Hint {
				answer.Err = p.value.complete(p.outcome.Path)
			}
			if answer.Err == nil {
				answer.Located = p.value
			}
			if !yield(answer, nil) {
				return
			}
		}
	}
}

// complete ends the answer for a path of a listing that demands locations: a block that came
// without any is in a container that does not exist.
func (l *Located) complete(path string) error {
	if l.Entry.Kind == muster.Directory {
		return pathError("locate", path, muster.ErrIsDirectory)
	}
	for i := range l.Blocks {
		if b := &l.Blocks[i]; b.Err != nil {
			b.Err = fmt.Errorf("%w: container %d does not exist", muster.ErrNotFound, b.Container)
		}
	}
	return nil
}

// ownRow is a path of a listing of own entries with its row, the zero value if none came.
type ownRow[T any] struct {
	outcome Outcome
	value   T
}

// ownRows gives each path of a listing of own entries, with what take makes of its row.
func ownRows[T any](batches iter.Seq2[*Batch, error], take func(b *Batch, i int) T) iter.Seq2[ownRow[T], error] {
	return func(yield func(ownRow[T], error) bool) {
		var own, none T // own is of the path whose outcome comes next, if its row came
		for b, err := range batches {
			if err != nil {
				yield(ownRow[T]{}, err)
				return
			}
			row := 0
			for _, o := range b.Outcomes {
				if row < b.Len() && uint64(b.PathIndex(row)) == o.Index {
					own = take(b, row)
					row++
				}
				answer := ownRow[T]{o, own}
				if own = none; !yield(answer, nil) {
					return
				}
			}
			if row < b.Len() {
				own = take(b, row)
			}
			b.Release()
		}
	}
}

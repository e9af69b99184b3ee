package server

import (
	"context"
	"errors"
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// walk reads the files below a path, in the order of the tree, some at a time: each page in a view
// of its own, since to judge them takes longer than a view may be kept. A file that is moved meanwhile
// may be passed over, or be met twice.
type walk struct {
	tree  *namespace.Tree
	stack []standstill // the directories that are being read, from the outermost in
	rows  int          // of the page
	page  []judged

	files, directories uint64 // that were met so far
}

// standstill is where the reading of a directory goes on.
type standstill struct {
	dir   uint64
	after string // name
}

// judged is a file whose blocks are to be judged.
type judged struct {
	id          uint64
	replication muster.Replication
	writing     bool
	blocks      []muster.Block
}

// The bounds of a page, but for its last file.
const (
	walkRows   = 4096
	walkBlocks = 4096
)

// reading calls f with a reader of a view of its own.
func reading(tree *namespace.Tree, caller *muster.Identity, f func(*namespace.Reader) error) error {
	view, err := tree.View()
	if err != nil {
		return err
	}
	defer view.Release()
	reader := view.NewReader(caller)
	defer reader.Close()
	return f(reader)
}

// newWalk begins at a path, which may be a file. It is read as the caller, a superuser.
func newWalk(tree *namespace.Tree, caller *muster.Identity, path string) (*walk, error) {
	w := &walk{tree: tree}
	err := reading(tree, caller, func(r *namespace.Reader) error {
		res, err := r.Resolve(path, true)
		if err != nil {
			return err
		}
		var row muster.Row
		if err := r.Row(&res, &row, true); err != nil {
			return err
		}
		w.meet(&row)
		return nil
	})
	return w, err
}

// next returns the next files with blocks; none: that was all.
func (w *walk) next(ctx context.Context) ([]judged, error) {
	for len(w.page) == 0 && len(w.stack) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.rows = 0
		if err := reading(w.tree, &muster.Identity{User: serverUser}, w.read); err != nil {
			return nil, err
		}
	}
	page := w.page
	w.page = nil
	return page, nil
}

// read reads a page.
func (w *walk) read(r *namespace.Reader) error {
	blocks := 0
	for len(w.stack) > 0 {
		depth := len(w.stack)
		top := w.stack[depth-1]
		res, err := r.ResolveID(top.dir)
		switch {
		case errors.Is(err, muster.ErrNotFound): // removed meanwhile
			w.stack = w.stack[:depth-1]
			continue
		case err != nil:
			return err
		}
		if err := r.Scan(&res, top.after, true); err != nil {
			return err
		}
		var row muster.Row
		for len(w.stack) == depth && r.Next(&row) {
			w.stack[depth-1].after = string(row.Name)
			blocks += len(row.Blocks)
			w.meet(&row)
			if w.rows++; w.rows >= walkRows || blocks >= walkBlocks {
				return nil
			}
		}
		if err := r.Err(); err != nil {
			return err
		}
		if len(w.stack) == depth {
			w.stack = w.stack[:depth-1]
		}
	}
	return nil
}

// meet takes what was read: files into the page, and directories to be read next.
func (w *walk) meet(row *muster.Row) {
	switch row.Kind {
	case muster.Directory:
		w.directories++
		w.stack = append(w.stack, standstill{dir: row.ID})
	case muster.File:
		w.files++
		if len(row.Blocks) > 0 {
			w.page = append(w.page, judged{row.ID, row.Replication, row.Flags&muster.FlagWriting != 0, slices.Clone(row.Blocks)})
		}
	}
}

package main

import (
	"context"
	"iter"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// eachRow hands out a listing in the order of its paths: row for each row, done for
// each path after its last row, flush after each batch.
func eachRow(batches iter.Seq2[*client.Batch, error], row func(b *client.Batch, i int) error, done func(o client.Outcome) error, flush func() error) error {
	for b, err := range batches {
		if err != nil {
			return err
		}
		outcomes := b.Outcomes
		for i := range b.Len() {
			for len(outcomes) > 0 && outcomes[0].Index < uint64(b.PathIndex(i)) {
				if err := done(outcomes[0]); err != nil {
					return err
				}
				outcomes = outcomes[1:]
			}
			if err := row(b, i); err != nil {
				return err
			}
		}
		for _, o := range outcomes {
			if err := done(o); err != nil {
				return err
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// visit is an entry that a walk comes to.
type visit struct {
	row
	root   int   // index of the given path that it is below, or is
	depth  int   // below that path; 0 for the path itself
	parent int32 // what enter returned for the directory that it is in; -1 for a given path
	tag    int32 // what enter returned for it
}

// walker walks the trees below given paths level by level: the paths themselves, then
// what is in them, and so on, in the order of the paths and, within a directory, of the
// names. Each level is one List call, however many directories it has; in memory are
// the directories of two levels. Links are not followed, not even given ones.
type walker struct {
	client  *client.Client
	columns rows.Columns // beside the kind

	enter func(v *visit) (down bool, err error)  // for each entry; may set v.tag; down: list this directory
	leave func(v *visit, o client.Outcome) error // for each listed directory, after its children; nil: nothing
	fail  func(path string, err error)           // for each path, given or found, that could not be read
	flush func() error                           // from time to time
}

// walk walks the trees below paths.
func (w *walker) walk(ctx context.Context, paths iter.Seq[string]) error {
	level, err := w.given(ctx, paths)
	for err == nil && len(level) > 0 {
		level, err = w.below(ctx, level)
	}
	return err
}

// given enters the given paths and returns the directories to list.
func (w *walker) given(ctx context.Context, paths iter.Seq[string]) (level []visit, err error) {
	o := client.ListOptions{Columns: w.columns | rows.ColKind, Own: true}
	err = eachRow(w.client.List(ctx, paths, o), func(b *client.Batch, i int) error {
		v := visit{row: rowOf(b, i), root: int(b.PathIndex(i)), parent: -1}
		return w.come(&v, &level)
	}, func(o client.Outcome) error {
		if err := o.Err(); err != nil {
			w.fail(o.Path, err)
		}
		return nil
	}, w.flush)
	return level, err
}

// below lists the directories of a level and returns those of the next one.
func (w *walker) below(ctx context.Context, level []visit) (next []visit, err error) {
	paths := func(yield func(string) bool) {
		for i := range level {
			if !yield(level[i].path) {
				return
			}
		}
	}
	o := client.ListOptions{Columns: w.columns | rows.ColKind}
	err = eachRow(w.client.List(ctx, paths, o), func(b *client.Batch, i int) error {
		if b.Name(i) == "" {
			return nil // the own entry of what was a directory when it was entered
		}
		dir := &level[b.PathIndex(i)]
		v := visit{row: rowOf(b, i), root: dir.root, depth: dir.depth + 1, parent: dir.tag}
		return w.come(&v, &next)
	}, func(o client.Outcome) error {
		if err := o.Err(); err != nil {
			w.fail(o.Path, err)
		}
		if w.leave == nil {
			return nil
		}
		return w.leave(&level[o.Index], o)
	}, w.flush)
	return next, err
}

// come enters v, and keeps it for the next level if it is a directory to go down into.
func (w *walker) come(v *visit, next *[]visit) error {
	down, err := w.enter(v)
	if down && v.Kind == muster.Directory {
		*next = append(*next, *v)
	}
	return err
}

// outline is a forest of numbered nodes that remembers the order in which the children
// of each were added: what a walk finds level by level can be printed tree by tree.
type outline struct {
	first, last, next []int32 // by node; -1: none
	roots             []int32
}

// add adds a node below parent (-1: a root) and returns its number, which is one more
// than that of the node before.
func (o *outline) add(parent int32) int32 {
	n := int32(len(o.next))
	o.first, o.last, o.next = append(o.first, -1), append(o.last, -1), append(o.next, -1)
	switch {
	case parent < 0:
		o.roots = append(o.roots, n)
	case o.first[parent] < 0:
		o.first[parent], o.last[parent] = n, n
	default:
		o.next[o.last[parent]], o.last[parent] = n, n
	}
	return n
}

// children returns the children of a node in the order in which they were added.
func (o *outline) children(n int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for c := o.first[n]; c >= 0 && yield(c); c = o.next[c] {
		}
	}
}

package main

import (
	"context"
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// changeBelow makes a change of each entry below the directories, which have theirs
// already: level by level, so that a directory has its change before it is listed, and
// one List call a level. Links are left alone. A directory that cannot be listed fails.
func (a *app) changeBelow(ctx context.Context, w *changes, dirs []string, command func(path string, e muster.Entry) muster.Command) error {
	for level := dirs; len(level) > 0; {
		if err := w.flush(ctx); err != nil {
			return err
		}
		var next []string
		options := client.ListOptions{Columns: rows.ColName | rows.ColKind | rows.ColMode}
		for batch, err := range w.client.List(ctx, slices.Values(level), options) {
			if err != nil {
				return err
			}
			for i := range batch.Len() {
				if batch.Kind(i) == muster.Link {
					continue
				}
				path := batch.Path(i)
				if batch.Kind(i) == muster.Directory {
					next = append(next, path)
				}
				if err := w.add(ctx, path, command(path, batch.Entry(i))); err != nil {
					return err
				}
			}
			for _, outcome := range batch.Outcomes {
				if err := outcome.Err(); err != nil {
					a.fail(outcome.Path, err)
				}
			}
		}
		level = next
	}
	return w.flush(ctx)
}

// changeTrees makes a change of each path of the arguments and, if recursive, of all
// below it. What a link leads to is meant if it is an argument.
func (a *app) changeTrees(ctx context.Context, args []string, zero, recursive bool, command func(path string, e muster.Entry) muster.Command) error {
	var dirs []string
	err := a.statEach(ctx, args, zero, a.refused, func(w *changes, s stated) error {
		info := s.info
		if !s.exists {
			a.fail(s.path, muster.ErrNotFound)
			return nil
		}
		if info.Entry.Kind == muster.Link {
			var err error
			if info, err = w.client.Stat(ctx, s.path); err != nil {
				a.fail(s.path, err)
				return nil
			}
		}
		if recursive && info.IsDir() {
			dirs = append(dirs, s.path)
		}
		return w.add(ctx, s.path, command(s.path, info.Entry))
	})
	if err != nil || len(dirs) == 0 {
		return err
	}
	w, err := a.changes(ctx, a.refused)
	if err != nil {
		return err
	}
	return a.changeBelow(ctx, w, dirs, command)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func newMvCommand(a *app) *cobra.Command {
	var m mv
	cmd := &cobra.Command{
		Use:   "mv [-f | -n] [-T] SOURCE TARGET\n  muster mv [-f | -n] SOURCE... DIR\n  muster mv [-f | -n] -t DIR SOURCE...",
		Short: "Move or rename entries",
		Long: `Rename SOURCE to TARGET, or move each SOURCE into DIR. What exists is not replaced unless
-f is given; then a file or link replaces a file or link, and a directory replaces an
empty directory. With - the sources are read from standard input, one on a line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.hasInto = cmd.Flags().Changed("target-directory")
			return a.mv(cmd.Context(), &m, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&m.overwrite, "force", "f", false, "replace what exists")
	flags.BoolVar(&m.overwrite, "overwrite", false, "the same as --force")
	flags.BoolVarP(&m.keep, "no-clobber", "n", false, "skip what exists, without an error")
	flags.BoolVarP(&m.plain, "no-target-directory", "T", false, "never move into TARGET: rename to it")
	flags.StringVarP(&m.into, "target-directory", "t", "", "move all sources into `DIR`")
	cmd.MarkFlagsMutuallyExclusive("force", "no-clobber")
	cmd.MarkFlagsMutuallyExclusive("overwrite", "no-clobber")
	cmd.MarkFlagsMutuallyExclusive("no-target-directory", "target-directory")
	inputFlag(flags, &m.zero)
	return cmd
}

// mv holds the flags of one mv.
type mv struct {
	overwrite, keep, plain, zero bool
	hasInto                      bool
	into                         string
}

func (a *app) mv(ctx context.Context, m *mv, args []string) error {
	sources, target := args, m.into
	if !m.hasInto {
		sources, target = args[:len(args)-1], args[len(args)-1]
	}
	if len(sources) == 0 {
		return usagef("move %s where to?", target)
	}
	paths, err := a.pathArgs(sources, m.zero)
	if err != nil {
		return err
	}
	many := len(sources) > 1 || paths.fromInput()
	if many && m.plain {
		return usagef("-T renames one source, and there may be more")
	}
	w, err := a.changes(ctx, func(r refusal) { a.notMoved(m, r) })
	if err != nil {
		return err
	}
	must := many || m.hasInto || strings.HasSuffix(target, "/")
	target = resolve(target)
	into := false
	if !m.plain {
		if into, err = isDirectory(ctx, w.client, target, must); err != nil {
			return err
		}
	}
	for from := range paths.all(ctx) {
		to := target
		if into {
			to = muster.JoinPath(target, baseName(from))
		}
		if err := w.add(ctx, from, muster.Rename{From: from, To: to, Overwrite: m.overwrite}); err != nil {
			return err
		}
	}
	return errors.Join(w.flush(ctx), paths.err, ctx.Err())
}

// notMoved reports a refusal, or leaves it be if -n says so.
func (a *app) notMoved(m *mv, r refusal) {
	if errors.Is(r.err, muster.ErrExists) && !m.overwrite {
		if m.keep {
			return
		}
		r.err = fmt.Errorf("%w; -f replaces it", r.err)
	}
	a.refused(r)
}

// isDirectory says whether path is a directory, or a link to one. If it must be one,
// anything else is an error.
func isDirectory(ctx context.Context, c *client.Client, path string, must bool) (bool, error) {
	info, err := c.Stat(ctx, path)
	switch {
	case errors.Is(err, muster.ErrNotFound) && !must:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("target %s: %s", shown(path), reason(err))
	case must && !info.IsDir():
		return false, fmt.Errorf("target %s: %w", shown(path), muster.ErrNotDirectory)
	}
	return info.IsDir(), nil
}

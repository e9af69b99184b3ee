package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newRmCommand(a *app) *cobra.Command {
	var r rm
	cmd := &cobra.Command{
		Use:   "rm [-r] [-f] PATH...",
		Short: "Remove files, links and, with -r, directories",
		Long: `Remove files and links, and with -r directories and all below them. A directory is gone
at once, whatever its size: the server reclaims it in the background.
With - the paths are read from standard input, one on a line.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !r.force {
				return usagef("which path?")
			}
			return a.rm(cmd.Context(), &r, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&r.recursive, "recursive", "r", false, "remove directories and all below them (also -R)")
	flags.BoolVarP(&r.recursive, "Recursive", "R", false, "")
	flags.Lookup("Recursive").Hidden = true // a flag has one letter only
	flags.BoolVarP(&r.force, "force", "f", false, "do not mind paths that do not exist")
	flags.BoolVarP(&r.dir, "dir", "d", false, "remove empty directories too")
	inputFlag(flags, &r.zero)
	return cmd
}

// rm holds the flags of one rm.
type rm struct{ recursive, force, dir, zero bool }

func (a *app) rm(ctx context.Context, r *rm, args []string) error {
	refused := func(f refusal) {
		if !r.force || !errors.Is(f.err, muster.ErrNotFound) {
			a.refused(f)
		}
	}
	return a.statEach(ctx, args, r.zero, refused, func(w *changes, s stated) error {
		switch {
		case !s.exists && !r.force:
			a.fail(s.path, muster.ErrNotFound)
			return nil
		case !s.exists:
			return nil
		case s.info.IsDir() && !r.recursive && !r.dir:
			a.fail(s.path, fmt.Errorf("%w; -r removes it and all below it", muster.ErrIsDirectory))
			return nil
		}
		return w.add(ctx, s.path, muster.Delete{Path: s.path, Recursive: r.recursive})
	})
}

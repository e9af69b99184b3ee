package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newLnCommand(a *app) *cobra.Command {
	var l ln
	cmd := &cobra.Command{
		Use:   "ln -s [-f] [-T] TARGET LINK\n  muster ln -s [-f] TARGET... DIR",
		Short: "Make symbolic links",
		Long: `Make LINK a symbolic link to TARGET, or make a link to each TARGET in DIR. A target is kept
as it is given: one without a leading slash is relative to the link's directory, and it
need not exist.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.ln(cmd.Context(), &l, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.symbolic, "symbolic", "s", false, "make symbolic links (there are no others)")
	flags.BoolVarP(&l.force, "force", "f", false, "replace a file or link that exists")
	flags.BoolVarP(&l.plain, "no-target-directory", "T", false, "never make the link inside LINK")
	return cmd
}

// ln holds the flags of one ln.
type ln struct{ symbolic, force, plain bool }

func (a *app) ln(ctx context.Context, l *ln, args []string) error {
	targets, last := args[:len(args)-1], args[len(args)-1]
	must := len(targets) > 1 || strings.HasSuffix(last, "/") // last is a directory
	last = resolve(last)
	if !l.symbolic {
		return usagef("there are no hard links; -s makes a symbolic one")
	}
	if len(targets) > 1 && l.plain {
		return usagef("-T makes one link; %d targets are given", len(targets))
	}
	w, err := a.changes(ctx, func(r refusal) {
		if errors.Is(r.err, muster.ErrExists) && !l.force {
			r.err = fmt.Errorf("%w; -f replaces a file or link", r.err)
		}
		a.refused(r)
	})
	if err != nil {
		return err
	}
	into := false
	if !l.plain {
		if into, err = isDirectory(ctx, w.client, last, must); err != nil {
			return err
		}
	}
	for _, target := range targets {
		link := last
		if into {
			link = muster.JoinPath(last, path.Base(target))
		}
		commands, err := l.commands(ctx, w, target, link)
		if err != nil {
			a.fail(link, err)
			continue
		}
		if err := w.add(ctx, link, commands...); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// commands returns what makes the link, and first removes what -f replaces.
func (l *ln) commands(ctx context.Context, w *changes, target, link string) ([]muster.Command, error) {
	make := muster.Symlink{Path: link, Target: target}
	if !l.force {
		return []muster.Command{make}, nil
	}
	info, err := w.client.Lstat(ctx, link)
	switch {
	case errors.Is(err, muster.ErrNotFound):
		return []muster.Command{make}, nil
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%w, which -f does not replace", muster.ErrIsDirectory)
	}
	return []muster.Command{muster.Delete{Path: link}, make}, nil
}

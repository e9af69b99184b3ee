package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newCpCommand(a *app) *cobra.Command {
	c := &copier{app: a}
	cmd := &cobra.Command{
		Use:   "cp [-r] [-f] [-p] PATH... /dst",
		Short: "Copy files within Muster",
		Long: `Copy files within Muster, and with -r directories and all below them. Their bytes go through this
machine. If /dst is a directory, or there are several paths, they go into it under their names; a
path that ends in /. is what is in it. As PATH, - is paths on standard input.

A file is written under a temporary name and renamed when all of it is durable. What exists is
not replaced unless -f is given, and directories never are: what is copied goes into them. Links
below a path are copied as links; a path itself may be one, and is followed. An error of one file
does not stop the others, and makes the exit code 1.

With --resume, files that are there already with the same length and time (or checksum, with
--checksum) are passed over, and times are kept.`,
		Example: `  muster cp /home/ann/report.csv /archive/
  muster cp -rp --parallel 16 /warehouse/. /backup`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	c.flags.add(cmd.Flags())
	c.writing.add(cmd.Flags())
	inputFlag(cmd.Flags(), &c.zero)
	return cmd
}

// copier is one run of cp.
type copier struct {
	*app
	flags   copyFlags
	writing writeFlags
	zero    bool
}

func (c *copier) run(ctx context.Context, args []string) error {
	args, dst := args[:len(args)-1], args[len(args)-1]
	if err := c.flags.check(); err != nil {
		return err
	}
	paths, err := c.pathArgs(args, c.zero)
	if err != nil {
		return err
	}
	target, err := c.remoteTarget(ctx, &c.flags, &c.writing)
	if err != nil {
		return err
	}
	many := len(args) > 1 || paths.fromInput()
	into, err := target.into(ctx, dst, many)
	if err != nil {
		return err
	}
	t := &transfer{app: c.app, copyFlags: &c.flags, did: "copied", many: many, source: remoteSource{target.client}, target: target}
	var roots []item
	for _, root := range t.remoteRoots(ctx, paths, resolve(dst), into) {
		if err := insideItself(root); err != nil {
			t.fail(root.from, err)
			continue
		}
		roots = append(roots, root)
	}
	if paths.err != nil {
		return paths.err
	}
	return t.run(ctx, roots)
}

// insideItself refuses what can be seen by its names; the rest is for transfer.apart.
func insideItself(root item) error {
	switch {
	case root.from == root.to:
		return fmt.Errorf("to %s: it is the same", shown(root.to))
	case root.Kind == muster.Directory && strings.HasPrefix(root.to, strings.TrimSuffix(root.from, "/")+"/"):
		return fmt.Errorf("to %s: it cannot be copied into itself", shown(root.to))
	}
	return nil
}

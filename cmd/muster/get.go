package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newGetCommand(a *app) *cobra.Command {
	g := &getter{app: a}
	cmd := &cobra.Command{
		Use:   "get [-r] [-f] [-p] PATH... DST\n  muster get PATH... -",
		Short: "Copy files of Muster to this machine",
		Long: `Copy files of Muster to this machine, and with -r directories and all below them. If DST is a
directory, or there are several paths, they go into it under their names; a path that ends in
/. is what is in it. As DST, - is standard output; as PATH, it is paths on standard input.

A file is written under a temporary name, .NAME.*.muster-part, and renamed when all of it is
there. What exists is not replaced unless -f is given, and directories never are: what is copied
goes into them. Links below a path are copied as links; a path itself may be one, and is
followed. Nothing outside of DST is written to, whatever links are in it. An error of one file
does not stop the others, and makes the exit code 1.

With --resume, a get that was interrupted goes on: files that are there with the same length and
time (or checksum, with --checksum) are passed over, times are kept, and what is there of an
unfinished file is continued, if the file is the same inode with the same length and time. In
the end it is held against the file's checksum. Of a directory, give -T or PATH/. since DST is
there the second time.`,
		Example: `  muster get /home/ann/report.csv .
  muster get -r --resume /src/. src
  muster get /backup/src.tar - | tar x`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completePaths,
		RunE:              func(cmd *cobra.Command, args []string) error { return g.run(cmd.Context(), args) },
	}
	g.flags.add(cmd.Flags())
	inputFlag(cmd.Flags(), &g.zero)
	return cmd
}

// getter is one run of get.
type getter struct {
	*app
	flags copyFlags
	zero  bool
}

func (g *getter) run(ctx context.Context, args []string) error {
	args, dst := args[:len(args)-1], args[len(args)-1]
	if err := g.flags.check(); err != nil {
		return err
	}
	if dst == "-" {
		return g.cat(ctx, args, g.zero)
	}
	paths, err := g.pathArgs(args, g.zero)
	if err != nil {
		return err
	}
	many := len(args) > 1 || paths.fromInput()
	target, to, into, err := g.local(dst, many)
	if err != nil {
		return err
	}
	defer target.root.Close()
	c, err := g.client(ctx)
	if err != nil {
		return err
	}
	source := remoteSource{c}
	target.sourceChecksum = source.checksum
	t := &transfer{app: g.app, copyFlags: &g.flags, did: "got", many: many, source: source, target: target}
	roots := t.remoteRoots(ctx, paths, to, into)
	if paths.err != nil {
		return paths.err
	}
	return t.run(ctx, roots)
}

// remoteRoots finds the sources that are paths of Muster.
func (t *transfer) remoteRoots(ctx context.Context, paths *pathArgs, to string, into bool) (roots []item) {
	i := 0
	for from := range paths.all(ctx) {
		base := baseName(from)
		if !paths.fromInput() && path.Base(paths.args[i]) == "." {
			base = "."
		}
		i++
		root, err := t.root(ctx, from, to, into, base)
		if err != nil {
			t.fail(from, err)
			continue
		}
		roots = append(roots, root)
	}
	return roots
}

// local opens what is copied to: the folder, and the path in it.
func (g *getter) local(dst string, many bool) (t *localTarget, to string, into bool, err error) {
	if g.flags.plain && many {
		return nil, "", false, errPlain
	}
	folder, to := dst, "."
	info, err := os.Stat(dst)
	switch {
	case err == nil && info.IsDir():
		into = !g.flags.plain
	case err == nil && (many || os.IsPathSeparator(dst[len(dst)-1])):
		return nil, "", false, sourceError(dst, muster.ErrNotDirectory)
	case err != nil && (!errors.Is(err, fs.ErrNotExist) || dst == "" || many || strings.HasSuffix(dst, "/") && !g.flags.recursive):
		return nil, "", false, sourceError(dst, err)
	default:
		dst = filepath.Clean(dst)
		folder, to = filepath.Dir(dst), filepath.Base(dst)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, "", false, sourceError(folder, err)
	}
	return &localTarget{root: root, flags: &g.flags}, to, into, nil
}

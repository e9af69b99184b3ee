package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newPutCommand(a *app) *cobra.Command {
	p := &putter{app: a}
	cmd := &cobra.Command{
		Use:   "put [-r] [-f] [-p] SRC... /dst\n  muster put [-f] - /dst/file",
		Short: "Copy files of this machine into Muster",
		Long: `Copy files of this machine into Muster, and with -r directories and all below them. If /dst is
a directory, or there are several sources, they go into it under their names; a source that ends
in /. is what is in it. As SRC, - is standard input.

A file is written under a temporary name and renamed when all of it is durable: an interrupted
put leaves no part of one. What exists is not replaced unless -f is given, and directories never
are: what is copied goes into them. Links below a source are copied as links; a source itself
may be one, and is followed. Sockets, devices and pipes below a source are passed over with an
error. An error of one file does not stop the others, and makes the exit code 1.

With --resume, a put that was interrupted goes on: files that are there with the same length and
time (or checksum, with --checksum) are passed over, and times are kept. A file that is not there
yet is written from its beginning. Of a directory, give -T or the source as SRC/. since /dst
is there the second time.`,
		Example: `  muster put report.csv /home/ann
  muster put -r --resume src/. /src
  tar c src | muster put - /backup/src.tar`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeAfter(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args) },
	}
	p.flags.add(cmd.Flags())
	p.writing.add(cmd.Flags())
	return cmd
}

// putter is one run of put.
type putter struct {
	*app
	flags   copyFlags
	writing writeFlags
}

func (p *putter) run(ctx context.Context, args []string) error {
	sources, dst := args[:len(args)-1], args[len(args)-1]
	if err := p.flags.check(); err != nil {
		return err
	}
	target, err := p.remoteTarget(ctx, &p.flags, &p.writing)
	if err != nil {
		return err
	}
	if slices.Contains(sources, "-") {
		if len(sources) > 1 {
			return usagef("- is standard input, and goes to a file: give it alone (a file of this name is ./-)")
		}
		return p.input(ctx, target, dst)
	}
	into, err := target.into(ctx, dst, len(sources) > 1)
	if err != nil {
		return err
	}
	t := &transfer{app: p.app, copyFlags: &p.flags, did: "put", many: len(sources) > 1, source: localSource{}, target: target}
	var roots []item
	for _, from := range sources {
		root, err := t.root(ctx, from, resolve(dst), into, filepath.Base(from))
		if err != nil {
			t.fail(from, err)
			continue
		}
		roots = append(roots, root)
	}
	return t.run(ctx, roots)
}

// input copies standard input.
func (p *putter) input(ctx context.Context, target *remoteTarget, dst string) error {
	path := resolve(dst)
	if strings.HasSuffix(dst, "/") {
		return usagef("%s: standard input needs a file name", shown(dst))
	}
	t := &transfer{app: p.app, copyFlags: &p.flags, did: "put", source: inputSource{stdin: p.stdin}, target: target}
	there, err := target.client.Stat(ctx, path)
	if err == nil && there.IsDir() {
		return usagef("%s is a directory: standard input needs a file name in it", shown(path))
	}
	root := item{from: "-", to: path}
	root.Kind, root.Mode = muster.File, 0o666
	p.flags.keep, p.flags.resume = false, false // it has neither a mode nor a time
	return t.run(ctx, []item{root})
}

// inputSource is standard input, as a file.
type inputSource struct {
	localSource
	stdin io.Reader
}

func (s inputSource) open(ctx context.Context, _ item, _ int64) (io.ReadCloser, error) {
	return interruptible(ctx, s.stdin), nil
}

// into says whether sources go into dst, as into a directory, or become it.
func (t *remoteTarget) into(ctx context.Context, dst string, many bool) (bool, error) {
	if t.flags.plain {
		if many {
			return false, errPlain
		}
		return false, nil
	}
	must := many || strings.HasSuffix(dst, "/") && !t.flags.recursive // a directory may become dst/
	return isDirectory(ctx, t.client, resolve(dst), must)
}

var errPlain = usagef("-T copies one source, and there are more")

// root returns what a source is, and where it goes: into a directory under its base name, or
// else to the path itself. A base name that is none, such as . and /, means what is in the source.
func (t *transfer) root(ctx context.Context, from, to string, into bool, base string) (item, error) {
	e, err := t.source.stat(ctx, from)
	if err != nil {
		return item{}, err
	}
	it := item{Entry: e, from: from, to: to}
	if into && !slices.Contains([]string{".", "..", "/", string(filepath.Separator)}, base) {
		it.to, err = t.target.child(to, base)
	}
	if e.Kind == 0 {
		err = errors.New("it is " + e.Target)
	}
	return it, err
}

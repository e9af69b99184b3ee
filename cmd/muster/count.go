package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

func newCountCommand(a *app) *cobra.Command {
	t := &countPrinter{app: a}
	cmd := &cobra.Command{
		Use:   "count [PATH...]",
		Short: "Count directories, files and bytes",
		Long: `Print for each path (without any: /) how many directories and files there are at
and below it, their bytes, and the path, as hdfs dfs -count does. A directory counts
itself. Links are neither counted nor followed; -o json and csv have their number
too. A path - stands for paths on standard input, one a line or, with -0, each ended
by NUL.`,
		Example: `  muster count -h /warehouse`,
		RunE:    func(cmd *cobra.Command, args []string) error { return t.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.Bool("help", false, "print this help") // -h is taken
	flags.BoolVarP(&t.human, "human-readable", "h", false, "figures such as 1.2K and 15M")
	flags.BoolVarP(&t.header, "header", "v", false, "with a header line")
	inputFlag(flags, &t.zero)
	t.output.addOutput(flags, formatText, formatJSON, formatCSV)
	return cmd
}

// countPrinter is one run of count.
type countPrinter struct {
	*app
	output outputFlags
	zero   bool
	human  bool
	header bool

	counts []count // by given path
}

// count is what is at and below a path.
type count struct {
	path                      string
	dirs, files, links, bytes int64
}

func (t *countPrinter) run(ctx context.Context, args []string) error {
	paths, err := t.pathArgs(args, t.zero, "/")
	if err != nil {
		return err
	}
	c, err := t.client(ctx)
	if err != nil {
		return err
	}
	w := walker{client: c, columns: rows.ColLength, enter: t.enter, fail: t.fail, flush: func() error { return nil }}
	if err := w.walk(ctx, paths.all(ctx)); err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	return t.print()
}

func (t *countPrinter) enter(v *visit) (down bool, err error) {
	if v.depth == 0 {
		t.counts = append(t.counts, count{path: v.path})
		v.tag = int32(len(t.counts) - 1)
	} else {
		v.tag = v.parent
	}
	n := &t.counts[v.tag]
	switch v.Kind {
	case muster.Directory:
		n.dirs++
	case muster.File:
		n.files++
		n.bytes += v.Length
	case muster.Link:
		n.links++
	}
	return true, nil
}

func (t *countPrinter) print() error {
	out := newTable(t.stdout, t.output.format, "directories", "files", "links", "bytes", "path")
	figure := func(n int64) string { return sizeText(n, t.human) }
	if t.header && t.output.format == formatText {
		fmt.Fprintf(out.out, "%12s %12s %18s %s\n", "directories", "files", "bytes", "path")
	}
	for i := range t.counts {
		n := &t.counts[i]
		if t.output.format == formatText {
			fmt.Fprintf(out.out, "%12s %12s %18s %s\n", figure(n.dirs), figure(n.files), figure(n.bytes), out.shown(n.path))
			continue
		}
		out.add(n.path, n.dirs, n.files, n.links, n.bytes)
	}
	return out.close()
}

package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

func newDuCommand(a *app) *cobra.Command {
	d := &duPrinter{app: a}
	cmd := &cobra.Command{
		Use:   "du [PATH...]",
		Short: "Sum the sizes of files by directory",
		Long: `Print for each directory below the paths (without any: /) the bytes of all files
below it, those inside before those around them. Sizes are the files' lengths: one
copy, no overhead, and nothing for directories and links. Links are not followed. A
path - stands for paths on standard input, one a line or, with -0, each ended by NUL.`,
		Example: `  muster du -h -d 1 /warehouse
  muster du -s -o json /a /b`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(cmd.Context(), args, cmd.Flags().Changed("max-depth"))
		},
	}
	flags := cmd.Flags()
	flags.Bool("help", false, "print this help") // -h is taken
	flags.BoolVarP(&d.summarize, "summarize", "s", false, "only a total for each path")
	flags.BoolVarP(&d.human, "human-readable", "h", false, "sizes such as 1.2K and 15M")
	flags.IntVarP(&d.depth, "max-depth", "d", 0, "print directories down to `N` levels below the paths; all are counted")
	flags.BoolVarP(&d.files, "all", "a", false, "files too")
	inputFlag(flags, &d.zero)
	d.output.addOutput(flags, formatText, formatJSON, formatCSV)
	return cmd
}

// duPrinter is one run of du.
type duPrinter struct {
	*app
	output    outputFlags
	zero      bool
	summarize bool
	human     bool
	files     bool
	depth     int

	tree  outline
	nodes []duNode
}

// duNode is a line of the output.
type duNode struct {
	path   string
	parent int32
	bytes  int64
}

func (d *duPrinter) run(ctx context.Context, args []string, depthGiven bool) error {
	switch {
	case d.summarize && depthGiven && d.depth > 0:
		return usagef("-s prints level 0 only, and -d %d more; leave one out", d.depth)
	case d.summarize && d.files:
		return usagef("-s prints totals only, and -a every file; leave one out")
	case d.depth < 0:
		return usagef("-d %d: use 0 or more", d.depth)
	case !depthGiven && !d.summarize:
		d.depth = math.MaxInt
	}
	paths, err := d.pathArgs(args, d.zero, "/")
	if err != nil {
		return err
	}
	c, err := d.client(ctx)
	if err != nil {
		return err
	}
	w := walker{client: c, columns: rows.ColLength, enter: d.enter, fail: d.fail, flush: func() error { return nil }}
	if err := w.walk(ctx, paths.all(ctx)); err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	for i := len(d.nodes) - 1; i >= 0; i-- {
		if parent := d.nodes[i].parent; parent >= 0 {
			d.nodes[parent].bytes += d.nodes[i].bytes
		}
	}
	return d.print()
}

// enter counts an entry where it will be printed: at its own line, or at that of the
// nearest directory that has one.
func (d *duPrinter) enter(v *visit) (down bool, err error) {
	if v.depth == 0 || v.depth <= d.depth && (d.files || v.Kind == muster.Directory) {
		v.tag = d.tree.add(v.parent)
		d.nodes = append(d.nodes, duNode{v.path, v.parent, 0})
	} else {
		v.tag = v.parent
	}
	d.nodes[v.tag].bytes += v.Length
	return true, nil
}

func (d *duPrinter) print() error {
	out := newTable(d.stdout, d.output.format, "bytes", "path")
	var emit func(n int32)
	emit = func(n int32) {
		for c := range d.tree.children(n) {
			emit(c)
		}
		node := &d.nodes[n]
		if d.output.format == formatText {
			fmt.Fprintf(out.out, "%s\t%s\n", sizeText(node.bytes, d.human), out.shown(node.path))
			return
		}
		out.add(node.path, node.bytes)
	}
	for _, root := range d.tree.roots {
		emit(root)
	}
	return out.close()
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

func newTreeCommand(a *app) *cobra.Command {
	t := &treePrinter{app: a}
	cmd := &cobra.Command{
		Use:   "tree [PATH...]",
		Short: "Draw trees",
		Long: `Draw what is below the paths (without any: /), and count it. Links are shown with
their target and not followed. A path - stands for paths on standard input, one a
line or, with -0, each ended by NUL.

The tree is kept in memory until it is drawn; for large ones see -L, or find.`,
		Example: `  muster tree -L 2 /warehouse`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.run(cmd.Context(), args, cmd.Flags().Changed("level"))
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&t.depth, "level", "L", 0, "go down `N` levels")
	flags.BoolVarP(&t.dirsOnly, "directories", "d", false, "directories only")
	inputFlag(flags, &t.zero)
	return cmd
}

// treePrinter is one run of tree.
type treePrinter struct {
	*app
	zero     bool
	dirsOnly bool
	depth    int

	tree        outline
	labels      []string // by node
	dirs, files int
	out         *bufio.Writer
}

func (t *treePrinter) run(ctx context.Context, args []string, depthGiven bool) error {
	switch {
	case !depthGiven:
		t.depth = math.MaxInt
	case t.depth < 1:
		return usagef("-L %d: use 1 or more", t.depth)
	}
	paths, err := t.pathArgs(args, t.zero, "/")
	if err != nil {
		return err
	}
	c, err := t.client(ctx)
	if err != nil {
		return err
	}
	w := walker{client: c, columns: rows.ColLinkTarget, enter: t.enter, leave: t.leave, fail: t.fail, flush: func() error { return nil }}
	if err := w.walk(ctx, paths.all(ctx)); err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	t.out = bufio.NewWriterSize(t.stdout, outputBuffer)
	for _, root := range t.tree.roots {
		t.out.WriteString(t.labels[root] + "\n")
		t.draw(root, "")
	}
	if len(t.tree.roots) > 0 {
		t.summary()
	}
	return t.out.Flush()
}

func (t *treePrinter) enter(v *visit) (down bool, err error) {
	dir := v.Kind == muster.Directory
	if t.dirsOnly && !dir && v.depth > 0 {
		return false, nil
	}
	v.tag = t.tree.add(v.parent)
	label := v.Name
	if v.depth == 0 {
		label = v.path
	}
	label = t.shown(label)
	if v.Kind == muster.Link {
		label += " -> " + t.shown(v.Target)
	}
	t.labels = append(t.labels, label)
	switch {
	case !dir:
		t.files++
	case v.depth > 0:
		t.dirs++
	}
	return v.depth < t.depth, nil
}

// leave marks a directory that could not be read.
func (t *treePrinter) leave(v *visit, o client.Outcome) error {
	if err := o.Err(); err != nil {
		t.labels[v.tag] += "  [" + muster.CodeOf(err).Error() + "]"
	}
	return nil
}

func (t *treePrinter) shown(name string) string {
	if isTerminal(t.stdout) {
		return unhide(name)
	}
	return name
}

// draw draws what is below a node, each line behind the branches of those above.
func (t *treePrinter) draw(n int32, above string) {
	for c := range t.tree.children(n) {
		branch, below := "├── ", "│   "
		if t.tree.next[c] < 0 {
			branch, below = "└── ", "    "
		}
		t.out.WriteString(above)
		t.out.WriteString(branch)
		t.out.WriteString(t.labels[c])
		t.out.WriteByte('\n')
		t.draw(c, above+below)
	}
}

func (t *treePrinter) summary() {
	dirs, files := "directories", "files"
	if t.dirs == 1 {
		dirs = "directory"
	}
	if t.files == 1 {
		files = "file"
	}
	fmt.Fprintf(t.out, "\n%d %s", t.dirs, dirs)
	if !t.dirsOnly {
		fmt.Fprintf(t.out, ", %d %s", t.files, files)
	}
	t.out.WriteByte('\n')
}

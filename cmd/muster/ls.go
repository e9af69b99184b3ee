package main

import (
	"context"
	"iter"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

func newLsCommand(a *app) *cobra.Command {
	l := &lister{app: a}
	cmd := &cobra.Command{
		Use:   "ls [PATH...]",
		Short: "List directories, all in one call",
		Long: `List what is in the directories, and files by themselves; without a path: /.
All paths go to the server in one call, however many there are. A path - stands for
paths on standard input, one a line or, with -0, each ended by NUL.

On a terminal names come in columns, quoted where a shell would need it; elsewhere
one a line, as they are. Names beginning with a dot are shown (see --hidden). A path
that is a link is followed, except with -d.

Files that are named come before directories. With -1, with paths on standard input
and with -o json, csv or arrow, the order of the paths is kept instead, and rows are
printed as they come. -R goes level by level, each level in one call.

In -l the second column is the number of replicas, and the total is in bytes.

With --located a line for each block stands below its file: as in muster locate, where it
is as far as that is known, the nearest replica first.`,
		Example: `  muster ls -l /warehouse/sales
  muster find /warehouse -type d -print0 | muster ls -0 -
  muster ls -R -o arrow /warehouse > rows.arrows
  muster find /warehouse -type d -print0 | muster ls --located -o json -0 -`,
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	l.flags(cmd.Flags())
	return cmd
}

// layout is how ls prints text.
type layout int

const (
	layoutDefault layout = iota // columns on a terminal, else lines
	layoutLines
	layoutColumns
	layoutLong
)

// order is what ls sorts by.
type order int

const (
	byName order = iota
	bySize
	byTime
)

// lister is one run of ls.
type lister struct {
	*app
	output      outputFlags
	zero        bool
	layout      layout
	order       order
	reverse     bool
	human       bool
	own         bool // -d
	recursive   bool
	snapshot    bool
	limit       int
	hidden      string
	hiddenNames muster.Hidden
}

func (l *lister) flags(flags *pflag.FlagSet) {
	flags.Bool("help", false, "print this help") // -h is taken
	layouts := func(name, short, usage string, to layout) {
		flags.BoolFuncP(name, short, usage, func(string) error {
			if to != layoutLines || l.layout != layoutLong { // as ls does, -l -1 is -l
				l.layout = to
			}
			return nil
		})
	}
	layouts("long", "l", "with kind, mode, replicas, owner, group, size and time", layoutLong)
	layouts("lines", "1", "one name a line, in the order of the paths, as they come", layoutLines)
	layouts("in-columns", "C", "in columns, also when this is no terminal", layoutColumns)
	orders := func(name, short, usage string, to order) {
		flags.BoolFuncP(name, short, usage, func(string) error { l.order = to; return nil })
	}
	orders("by-time", "t", "newest first", byTime)
	orders("by-size", "S", "largest first", bySize)
	flags.BoolVarP(&l.reverse, "reverse", "r", false, "in reverse order")
	flags.BoolVarP(&l.human, "human-readable", "h", false, "with -l: sizes such as 1.2K and 15M")
	flags.BoolVarP(&l.own, "directory", "d", false, "directories and links themselves, not what is in them")
	flags.BoolVarP(&l.recursive, "recursive", "R", false, "directories below too")
	flags.BoolP("all", "a", false, "for habit: names beginning with a dot are always shown")
	flags.BoolP("almost-all", "A", false, "for habit, like -a")
	flags.StringVar(&l.hidden, "hidden", "none", "leave out names as `none|hive|spark` does")
	flags.IntVar(&l.limit, "limit", 0, "entries of a page, which is one state of the tree (0: the server's default)")
	flags.BoolVar(&l.output.located, "located", false, "show where blocks are, as far as that is known, the nearest first")
	l.locatedReader(flags)
	flags.BoolVar(&l.snapshot, "snapshot", false, "list all paths in one state of the tree")
	inputFlag(flags, &l.zero)
	l.output.addRows(flags)
}

func (l *lister) run(ctx context.Context, args []string) error {
	if err := l.check(); err != nil {
		return err
	}
	paths, err := l.pathArgs(args, l.zero, "/")
	if err != nil {
		return err
	}
	columns, writer, err := l.output.open(l.stdout)
	if err != nil {
		return err
	}
	o := client.ListOptions{
		Limit:   l.limit,
		Columns: columns | l.columns(),
		Hidden:  l.hiddenNames,
		Own:     l.own,
	}
	if l.output.located {
		o.Locations, o.Sorted = muster.LocationsHint, true
	}
	if l.snapshot {
		o.Consistency = muster.ConsistencySnapshot
	}
	var p lsPrinter = newLsText(l, paths)
	if writer != nil {
		p = newLsRows(l, writer)
	}
	c, err := l.client(ctx)
	if err != nil {
		return err
	}
	if err := l.list(ctx, c, paths.all(ctx), o, p); err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	return p.close()
}

// check refuses flags that contradict each other.
func (l *lister) check() (err error) {
	if l.hiddenNames, err = muster.ParseHidden(l.hidden); err != nil {
		return usagef("--hidden %s: use none, hive or spark", shown(l.hidden))
	}
	switch {
	case l.limit < 0:
		return usagef("--limit %d: use 1 or more, or 0 for the server's default", l.limit)
	case l.reader != "" && !l.output.located:
		return errReader
	case l.output.located && l.layout == layoutColumns:
		return usagef("-C and --located contradict each other: blocks take lines")
	case l.own && l.recursive:
		return usagef("-d and -R contradict each other")
	case l.snapshot && l.recursive:
		return usagef("--snapshot is about one call, and -R makes one for each level; list the directories with muster find / -type d -print0 | muster ls --snapshot -0 -")
	}
	return nil
}

// columns are those that text needs, and sorting.
func (l *lister) columns() rows.Columns {
	c := rows.ColName
	if l.recursive {
		c |= rows.ColKind
	}
	switch l.order {
	case bySize:
		c |= rows.ColLength
	case byTime:
		c |= rows.ColMTime
	}
	if l.output.located && l.output.format == formatText {
		c |= rows.ColKind
	}
	if l.output.format == formatText && l.layout == layoutLong {
		c |= rows.ColKind | rows.ColLength | rows.ColMTime | rows.ColMode | rows.ColOwner | rows.ColGroup | rows.ColReplication | rows.ColLinkTarget
	}
	return c
}

// rowOf is a row of the listing, with its blocks if they are asked for.
func (l *lister) rowOf(b *client.Batch, i int) row {
	if l.output.located {
		return locatedRowOf(b, i)
	}
	return rowOf(b, i)
}

// lsPrinter prints a listing: row for each row, and done for each path after its last
// row.
type lsPrinter interface {
	row(r *row, given string) error
	done(o client.Outcome) error
	flush() error
	close() error
}

// list prints the paths and, with -R, the directories in them, and so on.
func (l *lister) list(ctx context.Context, c *client.Client, paths iter.Seq[string], o client.ListOptions, p lsPrinter) error {
	for level := 0; ; level++ {
		var below []string
		err := eachRow(c.List(ctx, paths, o), func(b *client.Batch, i int) error {
			r := l.rowOf(b, i)
			if l.recursive && r.Kind == muster.Directory && r.Name != "" {
				below = append(below, r.path)
			}
			return p.row(&r, b.Given(i))
		}, p.done, p.flush)
		if err != nil || len(below) == 0 {
			return err
		}
		paths = slices.Values(below)
	}
}

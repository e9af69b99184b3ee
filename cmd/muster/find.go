package main

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

func newFindCommand(a *app) *cobra.Command {
	f := &finder{app: a}
	cmd := &cobra.Command{
		Use:   "find [PATH...] [EXPRESSION]",
		Short: "Search trees for entries",
		Long: `Search the trees below the paths (without any: /) for entries that the expression
is true for, and print their paths.

Tests
  -name GLOB  -iname GLOB     the last component; the i is for any case
  -path GLOB  -ipath GLOB     the whole path; * matches slashes too
  -type f|d|l[,...]           file, directory or link
  -size [+-]N[ckMGbw]         in bytes, KiB, MiB, GiB, 512-byte blocks (the default) or words, rounded up
  -mtime [+-]N  -mmin [+-]N   changed N whole days or minutes ago
  -newer PATH                 changed later than PATH was
  -user NAME  -group NAME     who it belongs to
  -empty                      a file without bytes or a directory without entries
  -maxdepth N  -mindepth N    levels below the paths, which are level 0
Numbers: N is exactly, +N more than, -N less than N.

Operators, the strongest first
  ( EXPR )    ! EXPR  -not EXPR    EXPR EXPR  -a  -and    EXPR -o EXPR  -or

Actions
  -print      a path a line; this is done if no action is named
  -print0     each path ended by NUL, for muster ls -0 - and xargs -0

Trees are searched level by level, each level in one call: first the paths themselves,
then all that is in them, and so on, each directory's entries in the order of their
names' bytes. A directory that -empty must look into comes after those that need no
look. Links are not followed. A path - stands for paths on standard input, one a line
or, with -0, each ended by NUL.

-o followed by text, json, csv or arrow is the output's format; any other -o is "or".`,
		Example: `  muster find /warehouse -name '*.parquet' -size +128M
  muster find /warehouse -type d -print0 | muster ls -0 -
  muster find / ( -user alice -o -mtime -1 ) -o json`,
		DisableFlagParsing: true,
		PreRunE:            f.parse,
		RunE:               f.run,
	}
	f.output.addRows(cmd.Flags())
	inputFlag(cmd.Flags(), &f.zero)
	return cmd
}

// finder is one run of find.
type finder struct {
	*app
	output outputFlags
	zero   bool

	expr     *findExpr
	out      *bufio.Writer
	terminal bool      // a person reads out
	rows     rowWriter // nil: text
	err      error     // of writing
}

// parse takes the command line apart. Flags are parsed here and not by cobra, which
// would take -name for -n -a -m -e.
func (f *finder) parse(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	flags.AddFlagSet(cmd.InheritedFlags())
	p := findParser{
		args: args,
		takesValue: func(name string) bool {
			flag := flags.Lookup(name)
			return flag != nil && flag.NoOptDefVal == ""
		},
		print: f.print,
		now:   time.Now().UnixMilli(),
	}
	var err error
	if f.expr, err = p.parse(); err != nil {
		return err
	}
	if err := flags.Parse(f.expr.flags); err != nil {
		return err
	}
	if help, _ := flags.GetBool("help"); help {
		return pflag.ErrHelp
	}
	return nil
}

func (f *finder) run(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	paths, err := f.pathArgs(f.expr.paths, f.zero, "/")
	if err != nil {
		return err
	}
	columns, writer, err := f.output.open(f.stdout)
	if err != nil {
		return err
	}
	f.rows, f.terminal = writer, isTerminal(f.stdout)
	f.out = bufio.NewWriterSize(f.stdout, outputBuffer)
	if writer != nil && f.expr.prints["-print0"] {
		return usagef("-print0 writes paths alone; leave it out with -o %s", f.output.format)
	}
	c, err := f.client(ctx)
	if err != nil {
		return err
	}
	if err := f.lookUp(ctx, c); err != nil {
		return err
	}
	w := walker{client: c, columns: columns | f.expr.columns | rows.ColKind, enter: f.enter, fail: f.fail, flush: f.flush}
	if f.expr.needsEmpty {
		w.leave = f.leave
	}
	if err := w.walk(ctx, paths.all(ctx)); err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	if f.rows != nil {
		return f.rows.close()
	}
	return f.flush()
}

// lookUp finds the times that -newer tests compare with.
func (f *finder) lookUp(ctx context.Context, c *client.Client) error {
	for _, than := range f.expr.newer {
		info, err := c.Lstat(ctx, than.path)
		if err != nil {
			return fmt.Errorf("-newer %s: %s", shown(than.path), reason(err))
		}
		than.mtime = info.Entry.MTime
	}
	return nil
}

// enter judges an entry, unless it is a directory whose entries must be known first.
func (f *finder) enter(v *visit) (down bool, err error) {
	if v.Kind == muster.Directory && f.expr.needsEmpty {
		// It is listed, also at the last level, and judged when it is left.
		return v.depth <= f.expr.maxDepth, nil
	}
	f.judge(&candidate{visit: v})
	return v.depth < f.expr.maxDepth, f.err
}

// leave judges a directory whose entries are known.
func (f *finder) leave(v *visit, o client.Outcome) error {
	f.judge(&candidate{visit: v, empty: o.Code == muster.OK && o.Rows == 0})
	return f.err
}

func (f *finder) judge(c *candidate) {
	if c.depth >= f.expr.minDepth && c.depth <= f.expr.maxDepth {
		f.expr.match(c)
	}
}

// print is the action of the expression.
func (f *finder) print(c *candidate, end byte) {
	if f.err != nil {
		return
	}
	if f.rows != nil {
		f.err = f.rows.write(&c.row)
		return
	}
	path := c.path
	if end == '\n' && f.terminal {
		path = unhide(path)
	}
	f.out.WriteString(path)
	f.err = f.out.WriteByte(end) // it keeps the first error
}

func (f *finder) flush() error {
	if f.rows != nil {
		return f.rows.flush()
	}
	return f.out.Flush()
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

func newStatCommand(a *app) *cobra.Command {
	s := &statPrinter{app: a}
	cmd := &cobra.Command{
		Use:   "stat PATH...",
		Short: "Show the status of entries",
		Long: `Show all that is known of the paths, in one call. A link is shown itself; with -L
what it leads to. With --located, which implies -L, also where the blocks of files are,
as muster locate prints it. A path - stands for paths on standard input, one a line or, with
-0, each ended by NUL.

Directives of -c FORMAT
  %n  path                          %N  path, quoted, and a link's target
  %s  bytes                         %F  kind in words
  %a  mode in octal digits          %A  mode as in -rw-r--r--
  %U  owner                         %G  group
  %y  time of the last change       %Y  the same in seconds since 1970
  %x  time of the last access       %X  the same in seconds since 1970
  %i  inode id                      %r  replication
  %o  block size                    %b  number of blocks
  %%  a percent sign
A width may stand behind the percent sign, with - for left and 0 for zeros: %-20n.`,
		Example: `  muster stat /warehouse
  muster stat -c '%s %n' /a /b`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.layout, "format", "c", "", "print this `FORMAT` and a newline for each path")
	flags.BoolVarP(&s.follow, "dereference", "L", false, "follow links")
	flags.BoolVar(&s.output.located, "located", false, "show where blocks are, as far as that is known, the nearest first; implies -L")
	a.locatedReader(flags)
	inputFlag(flags, &s.zero)
	s.output.addRows(flags)
	return cmd
}

// statPrinter is one run of stat.
type statPrinter struct {
	*app
	output outputFlags
	layout string
	follow bool
	zero   bool
}

func (s *statPrinter) run(ctx context.Context, args []string) error {
	print, err := parseStatFormat(s.layout)
	if err != nil {
		return err
	}
	paths, err := s.pathArgs(args, s.zero)
	if err != nil {
		return err
	}
	if s.output.located && s.output.columns == nil && s.output.format != formatText {
		s.output.columns = rows.AllColumns.Names()
	}
	columns, writer, err := s.output.open(s.stdout)
	switch {
	case err != nil:
		return err
	case s.reader != "" && !s.output.located:
		return errReader
	case s.output.located && s.layout != "":
		return usagef("-c has no directive for locations; leave out --located")
	case writer != nil && s.layout != "":
		return usagef("-c and -o %s contradict each other", s.output.format)
	case writer == nil:
		columns = rows.AllColumns
		writer = &statText{out: bufio.NewWriterSize(s.stdout, outputBuffer), print: print, quote: isTerminal(s.stdout)}
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if s.output.located {
		err = s.locateMany(ctx, c, paths, client.LocateOptions{Hint: true}, writer)
	} else {
		err = s.list(ctx, c, paths.all(ctx), columns, writer)
	}
	if err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	return writer.close()
}

// list prints the own entries of the paths, or of what they lead to, in one call.
func (s *statPrinter) list(ctx context.Context, c *client.Client, paths iter.Seq[string], columns rows.Columns, out rowWriter) error {
	return eachRow(c.List(ctx, paths, client.ListOptions{Own: true, Follow: s.follow, Columns: columns}), func(b *client.Batch, i int) error {
		r := rowOf(b, i)
		return out.write(&r)
	}, func(o client.Outcome) error {
		return s.failed(out, o.Path, o.Err())
	}, out.flush)
}

// failed reports a path's error, if it is one, after what was printed so far.
func (s *statPrinter) failed(out rowWriter, path string, err error) error {
	if err == nil {
		return nil
	}
	if err := out.flush(); err != nil {
		return err
	}
	s.fail(path, err)
	return nil
}

// statText prints entries in the format of -c, or in that of stat.
type statText struct {
	out   *bufio.Writer
	print statFormat // nil: all that is known
	quote bool
}

func (w *statText) write(r *row) error {
	if w.print != nil {
		w.print(w.out, r)
		return w.out.WriteByte('\n')
	}
	name := r.path
	if w.quote {
		name = unhide(name)
	}
	if r.Kind == muster.Link {
		name += " -> " + r.Target
	}
	fmt.Fprintf(w.out, "  File: %s\n", name)
	fmt.Fprintf(w.out, "  Size: %-15d Blocks: %-10d Block size: %-10d %s\n", r.Length, len(r.Blocks), r.BlockSize, kindText(r))
	fmt.Fprintf(w.out, " Inode: %-15d Replication: %s\n", r.ID, replicationText(r))
	fmt.Fprintf(w.out, "Access: (%04o/%s)  Owner: %s   Group: %s\n", r.Mode, modeText(r.Kind, r.Mode), r.Owner, r.Group)
	fmt.Fprintf(w.out, "Access: %s\n", fullTime(r.ATime))
	_, err := fmt.Fprintf(w.out, "Modify: %s\n", fullTime(r.MTime))
	if r.located != nil {
		writeBlocks(w.out, r.located)
	}
	return err
}

func (w *statText) flush() error { return w.out.Flush() }
func (w *statText) close() error { return w.out.Flush() }

// replicationText is - for what has none.
func replicationText(r *row) string {
	if text := r.Replication.String(); text != "" {
		return text
	}
	return "-"
}

// kindText names the kind as stat does.
func kindText(r *row) string {
	switch {
	case r.Kind == muster.Directory:
		return "directory"
	case r.Kind == muster.Link:
		return "symbolic link"
	case r.Flags&muster.FlagWriting != 0:
		return "file being written"
	case r.Length == 0:
		return "regular empty file"
	}
	return "regular file"
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/configs"
)

func newLocateCommand(a *app) *cobra.Command {
	l := &locator{app: a}
	cmd := &cobra.Command{
		Use:   "locate PATH...",
		Short: "Show where the blocks of files are",
		Long: `Show the blocks of files, and on which datanodes they are: the nearest to the reader
first. A link is followed. All paths go to the server in one call. A path - stands for paths
on standard input, one a line or, with -0, each ended by NUL.

A line has the block's offset in the file, its length, its container and its number
there, and its replicas with their racks. What is known of containers may be some hours
old; with --fresh the location service is asked for all of the file's anew. That, and a
range, takes one call a path.`,
		Example: `  muster locate /warehouse/t/part-0.parquet
  muster locate --offset 1GiB --length 64MiB --reader /rack7 /big
  muster locate -o json /a /b`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.TextVar(&l.offset, "offset", configs.Size(0), "only blocks with bytes from this `OFFSET` on")
	flags.TextVar(&l.length, "length", configs.Size(0), "only blocks with bytes among the next `LENGTH`; 0: to the end")
	flags.BoolVar(&l.fresh, "fresh", false, "ask the location service, not what is remembered of it")
	flags.StringVar(&a.reader, "reader", "", readerUsage)
	inputFlag(flags, &l.zero)
	l.output.located = true
	l.output.addOutput(flags, allFormats...)
	return cmd
}

const readerUsage = "order replicas for this `READER`: a host, an address or a rack (MUSTER_READER); empty: this machine"

// locatedReader adds --reader to the flags of a verb that has --located too.
func (a *app) locatedReader(flags *pflag.FlagSet) {
	flags.StringVar(&a.reader, "reader", "", "with --located: "+readerUsage)
}

// errReader is what such a verb says of --reader alone.
var errReader = usagef("--reader is for --located")

// locator is one run of locate.
type locator struct {
	*app
	output         outputFlags
	offset, length configs.Size
	fresh          bool
	zero           bool
}

// locateColumns are what programs get.
var locateColumns = []string{"length", "replication", "blocks"}

func (l *locator) run(ctx context.Context, args []string) error {
	if l.fresh && (l.offset != 0 || l.length != 0) {
		return usagef("--fresh asks for whole files; leave out --offset and --length")
	}
	paths, err := l.pathArgs(args, l.zero)
	if err != nil {
		return err
	}
	if l.output.format != formatText {
		l.output.columns = locateColumns
	}
	_, writer, err := l.output.open(l.stdout)
	if err != nil {
		return err
	}
	if writer == nil {
		writer = &locateText{out: bufio.NewWriterSize(l.stdout, outputBuffer), quote: isTerminal(l.stdout)}
	}
	c, err := l.client(ctx)
	if err != nil {
		return err
	}
	if l.fresh || l.offset != 0 || l.length != 0 {
		err = l.each(ctx, c, paths, writer)
	} else {
		err = l.locateMany(ctx, c, paths, client.LocateOptions{}, writer)
	}
	if err != nil {
		return err
	}
	if paths.err != nil {
		return paths.err
	}
	return writer.close()
}

// each makes a call for each path.
func (l *locator) each(ctx context.Context, c *client.Client, paths *pathArgs, out rowWriter) error {
	for path := range paths.all(ctx) {
		located, err := l.locate(ctx, c, path)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.writeLocated(out, path, &located, err); err != nil {
			return err
		}
	}
	return nil
}

// locateMany makes one call for all paths.
func (a *app) locateMany(ctx context.Context, c *client.Client, paths *pathArgs, o client.LocateOptions, out rowWriter) error {
	for p, err := range c.LocateMany(ctx, paths.all(ctx), o) {
		if err != nil {
			return err
		}
		if err := a.writeLocated(out, p.Path, &p.Located, p.Err); err != nil {
			return err
		}
	}
	return nil
}

func (l *locator) locate(ctx context.Context, c *client.Client, path string) (client.Located, error) {
	if l.fresh {
		return c.Lookup(ctx, path)
	}
	return c.Locate(ctx, path, int64(l.offset), int64(l.length))
}

// writeLocated writes what is known of a path, or reports why nothing is, after what was
// written before.
func (a *app) writeLocated(out rowWriter, path string, l *client.Located, err error) error {
	if err == nil {
		r := row{path: path, Entry: l.Entry, located: l}
		r.Name = "" // the last component is that of the path
		return out.write(&r)
	}
	if err := out.flush(); err != nil {
		return err
	}
	a.fail(path, err)
	return nil
}

// locateText prints a line for each file, and below it one for each block.
type locateText struct {
	out   *bufio.Writer
	quote bool
}

func (w *locateText) write(r *row) error {
	name := r.path
	if w.quote {
		name = unhide(name)
	}
	fmt.Fprintf(w.out, "%s: %s, %s, %s\n", name, counted(r.Length, "byte"), counted(int64(len(r.located.Blocks)), "block"), replicationText(r))
	return writeBlocks(w.out, r.located)
}

func (w *locateText) flush() error { return w.out.Flush() }
func (w *locateText) close() error { return w.out.Flush() }

// counted is a number of things.
func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.FormatInt(n, 10) + " " + thing
}

// writeBlocks prints a line for each block.
func writeBlocks(out *bufio.Writer, l *client.Located) error {
	for i := range l.Blocks {
		b := &l.Blocks[i]
		fmt.Fprintf(out, "%14d %12d  %d/%d  %s\n", b.Offset, b.Length, b.Container, b.LocalID, replicasText(b))
	}
	if l.NoData {
		fmt.Fprintf(out, "%14s metadata only: no block has the rest\n", "")
	}
	return nil
}

// replicasText names the replicas, the nearest first; of an erasure-coded block with their
// index.
func replicasText(b *client.LocatedBlock) string {
	if b.Err != nil {
		return "unknown: " + reason(b.Err)
	}
	texts := make([]string, 0, len(b.Replicas))
	for _, r := range b.Replicas {
		text := nodeAddress(r.Node) + " (" + shown(r.Rack)
		if r.State != muster.InService {
			text += ", " + r.State.String()
		}
		text += ")"
		if r.Index > 0 {
			text = "#" + strconv.Itoa(r.Index) + " " + text
		}
		texts = append(texts, text)
	}
	for _, index := range absent(b) {
		texts = append(texts, "#"+strconv.Itoa(index)+" absent")
	}
	if len(texts) == 0 {
		return "no replica"
	}
	return strings.Join(texts, ", ")
}

// absent are the replicas that an erasure-coded block lacks.
func absent(b *client.LocatedBlock) (indexes []int) {
	if _, _, coded := b.Replication.Coding(); !coded {
		return nil
	}
	for index := range b.Replication.Nodes() {
		if !slices.ContainsFunc(b.Replicas, func(r client.Replica) bool { return r.Index == index+1 }) {
			indexes = append(indexes, index+1)
		}
	}
	return indexes
}

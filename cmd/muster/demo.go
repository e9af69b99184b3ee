package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/configs"
	"github.com/muster-fs/muster/server"
)

// maxDemoEntries bounds the table, since the demonstration keeps all rows to compare them.
const maxDemoEntries = 2_000_000

func newDemoCommand(a *app) *cobra.Command {
	var output outputFlags
	table := bench.Table{Root: "/warehouse/events"}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what one call for many directories is worth",
		Long: `Start a server in a temporary folder, with simulated datanodes that have no disks. Fill a
table of partition directories whose files have three replicas each. List it over a loopback
connection, with where each replica is, one directory a call and then all in one call, and
compare the rows and the times. Nothing is left behind. -o json prints one line for programs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n := table.Partitions * max(1, table.Files); table.Partitions < 1 || table.Files < 1 || n/table.Partitions != table.Files || n > maxDemoEntries {
				return usagef("--directories %d with --files %d; both at least 1, and at most %d files in all", table.Partitions, table.Files, maxDemoEntries)
			}
			return a.demo(cmd.Context(), table, output.format == formatJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&table.Partitions, "directories", 30_000, "`NUMBER` of partition directories")
	flags.IntVar(&table.Files, "files", 1, "`NUMBER` of files in each")
	output.addOutput(flags, formatText, formatJSON)
	return cmd
}

// demo runs the demonstration on a server of its own.
func (a *app) demo(ctx context.Context, table bench.Table, asJSON bool) (err error) {
	dir, err := temporaryFolder("muster-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, c, err := a.startDemo(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(), a.stop(s)) }()

	if !asJSON {
		fmt.Fprintf(a.stdout, "A server on %s with its data in %s, until the end of this demonstration.\n", s.Addr(), dir)
	}
	key, err := server.ClusterKey(dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	cluster, err := bench.JoinDemo(ctx, c, s.Addr().String(), key, &table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	start := time.Now()
	if err := a.fillDemo(ctx, c, table); err != nil {
		return err
	}
	filled := time.Since(start)
	bar := a.startBar(ctx, "one directory a call", table.Partitions)
	result, err := bench.RunDemo(ctx, c, table, bar.set)
	bar.stop()
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printDemoJSON(&result)
	} else {
		err = a.printDemo(&result, table, cluster.Len(), filled)
	}
	if err == nil && !result.RowsEqual {
		err = errors.New("the two listings gave different rows")
	}
	return err
}

// startDemo starts a server that takes nothing from the configuration and a client of it.
func (a *app) startDemo(ctx context.Context, dir string) (*server.Server, *client.Client, error) {
	quiet := newLogger(a.stderr, configs.Log{Level: slog.LevelWarn})
	s, err := server.Start(ctx, server.Options{Dir: dir, Version: version(), Logger: quiet})
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Dial(ctx, s.Addr().String(), client.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, a.stop(s))
	}
	return s, c, nil
}

func (a *app) fillDemo(ctx context.Context, c *client.Client, table bench.Table) error {
	bar := a.startBar(ctx, "filling the table", table.Entries())
	defer bar.stop()
	return bench.Fill(ctx, c, table, bar.set)
}

func (a *app) printDemo(d *bench.Demo, table bench.Table, nodes int, filled time.Duration) error {
	fmt.Fprintf(a.stdout, "Filled %s in %.1f s: %s directories, %s files, %s on %s without disks.\n\n", table.Root, filled.Seconds(),
		humanize.Comma(int64(d.Directories)), humanize.Comma(int64(d.Files)), english(d.Replicas, "replica"), english(nodes, "datanode"))
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(what string, calls int, took time.Duration) {
		fmt.Fprintf(t, "%s\t%s\t%.3f s\t%s rows/s\t\n", what, english(calls, "call"),
			took.Seconds(), humanize.Comma(int64(float64(d.Files)/took.Seconds())))
	}
	line("one directory a call", d.Directories, d.Iterator)
	line("all directories in one", 1, d.Batch)
	if err := t.Flush(); err != nil {
		return err
	}
	if d.RowsEqual {
		fmt.Fprintf(a.stdout, "\nThe same %s and %s in both; one call is %.1f times as fast. Some of them:\n\n",
			english(d.Files, "row"), english(d.Replicas, "replica"), d.Ratio())
	}
	for _, file := range d.Sample {
		fmt.Fprintf(a.stdout, "  %v %s %s %11s %s %s\n", file.Mode(), file.Entry.Owner, file.Entry.Group,
			humanize.Comma(file.Size()), file.ModTime().Format(time.DateTime), file.Path)
		for i := range file.Blocks {
			fmt.Fprintf(a.stdout, "      %s\n", replicasText(&file.Blocks[i]))
		}
	}
	_, err := fmt.Fprint(a.stdout, `
Try next:

  muster up --data DIR                     a server that keeps its data
  muster import $(go env GOROOT) /go       a real tree
  muster ls -l /go/src
  muster find /go -type d -print0 | muster ls -0 -
  muster help                              everything else
`)
	return err
}

func (a *app) printDemoJSON(d *bench.Demo) error {
	return json.NewEncoder(a.stdout).Encode(struct {
		Directories     int     `json:"directories"`
		Files           int     `json:"files"`
		IteratorSeconds float64 `json:"iterator_seconds"`
		BatchSeconds    float64 `json:"batch_seconds"`
		Ratio           float64 `json:"ratio"`
		RowsEqual       bool    `json:"rows_equal"`
		Replicas        int     `json:"replicas"`
	}{d.Directories, d.Files, d.Iterator.Seconds(), d.Batch.Seconds(), d.Ratio(), d.RowsEqual, d.Replicas})
}

// english is a count and its noun, in the plural if need be.
func english(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/client"
)

// writersFlags are what muster bench writers is told.
type writersFlags struct {
	output      outputFlags
	directories int
	writers     int
	batch       int
	rounds      int
	time        time.Duration
	quick       bool
}

func newBenchWritersCommand(a *app) *cobra.Command {
	var f writersFlags
	cmd := &cobra.Command{
		Use:   "writers",
		Short: "Hold a stream beside writers against one beside calls that write nothing",
		Long: `List a table by one stream again and again beside writers that create files in other
directories as fast as they can, over loopback connections to a server in its own process. Each
of the two is held against its pace beside clients that burn as much CPU time as the other
one took, in calls that read and write nothing: what is missing to 1 is due to locks, the
disk and caches. Arms take turns; figures are medians of the rounds.

Then, with no wire, measure how long a reader waits for the lock that taking a view takes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseServer(cmd); err != nil {
				return err
			}
			if f.quick && !cmd.Flags().Changed("round-time") {
				f.time = 500 * time.Millisecond
			}
			e := &bench.Contention{
				Table: bench.Table{Root: "/warehouse/events", Partitions: f.directories, Files: 1}, Root: "/writers",
				Writers: f.writers, Batch: f.batch, Rounds: f.rounds, RoundTime: f.time,
			}
			if err := e.Validate(); err != nil {
				return usagef("%v", err)
			}
			return a.benchWriters(cmd.Context(), &f, e)
		},
	}
	flags := cmd.Flags()
	f.output.addOutput(flags, formatText, formatJSON)
	flags.IntVar(&f.directories, "directories", 30_000, "`NUMBER` of directories that the stream lists, each of one file")
	flags.IntVar(&f.writers, "writers", 4, "`NUMBER` of writers")
	flags.IntVar(&f.batch, "batch", 1, "`NUMBER` of creations in a writer's call")
	flags.IntVar(&f.rounds, "rounds", 5, "`NUMBER` of rounds")
	flags.DurationVar(&f.time, "round-time", 2*time.Second, "`TIME` that an arm runs in a round")
	flags.BoolVar(&f.quick, "quick", false, "take less than a minute: rounds of 500ms")
	return cmd
}

// benchWriters runs the experiment on a server of its own.
func (a *app) benchWriters(ctx context.Context, f *writersFlags, e *bench.Contention) (err error) {
	dir, err := temporaryFolder("muster-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := a.contention(ctx, e, filepath.Join(dir, "paces"))
	if err != nil {
		return err
	}
	w, err := bench.MeasureLockWait(ctx, filepath.Join(dir, "lock"), e.Table, f.writers, f.batch, f.time)
	if err != nil {
		return err
	}
	if f.output.format == formatJSON {
		return printMeasurements(a, r.Measurements(w), formatJSON)
	}
	return a.printWriters(&r, &w)
}

// contention holds the paces against each other, on a server in a folder.
func (a *app) contention(ctx context.Context, e *bench.Contention, dir string) (r bench.ContentionResult, err error) {
	s, err := a.startChild(ctx, "up", "--listen", "127.0.0.1:0", "--datanodes", "0", "--log-level", "error", "--data", dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := client.Dial(ctx, s.Addr, client.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	e.Client = c
	e.Progress = a.benchProgress(ctx)
	set, stop := e.Progress("filling the table", e.Table.Entries())
	err = bench.Fill(ctx, c, e.Table, set)
	if stop(); err != nil {
		return r, err
	}
	return e.Run(ctx)
}

func (a *app) printWriters(r *bench.ContentionResult, w *bench.LockWait) error {
	fmt.Fprintf(a.stdout, "%s with %s a call, %s\n\n", english(r.Writers, "writer"), english(r.Batch, "creation"), english(r.Rounds, "round"))
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\talone\tbeside the other\tbeside as much CPU burnt\tratio of these\tburnt\tCPU µs each\t\n")
	fmt.Fprintf(t, "stream, statuses/s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", whole(r.StreamAlone), whole(r.StreamWriters), whole(r.StreamBurners), short(r.StreamRatio), short(r.StreamBurnt), short(r.CPUStream))
	fmt.Fprintf(t, "writers, inodes/s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", whole(r.WritersAlone), whole(r.WritersStream), whole(r.WritersBurners), short(r.WritersRatio), short(r.WritersBurnt), short(r.CPUWriter))
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "\nA view took %v (median), %v (99 of 100), %v (at most) of %s, beside %s.\n",
		w.Median, w.P99, w.Max, english(w.Samples, "view"), english(int(w.Commits), "commit"))
	return err
}

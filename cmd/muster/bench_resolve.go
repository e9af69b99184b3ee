package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
)

func newBenchResolveCommand(a *app) *cobra.Command {
	var f contestFlags
	e := bench.NewResolve()
	cmd := &cobra.Command{
		Use:   "resolve",
		Short: "Hold resolving a path once against resolving it in each step",
		Long: `Open files through a link to another directory, as a user whose permissions are checked on the
way: check that there is a file and that the user may read it, and read its status and blocks.
Arms are steps (each of the two resolves the path for itself, as those of Apache Ozone did
before HDDS-9297) and once (the second takes what the first has found). Cases are
in-process (with no wire) and loopback (a call for each operation; the server is in this
process). Directories are in memory; reads of the store are counted with them and without.

Arms take turns; figures are medians of the rounds. In process the percentiles are of one
operation in 16. Answers of both arms are compared before, refusals too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseServer(cmd); err != nil {
				return err
			}
			hurry(&f, cmd.Flags(), "round-time", &e.RoundTime, 200*time.Millisecond)
			if err := e.Validate(); err != nil {
				return usagef("%v", err)
			}
			return a.benchResolve(cmd.Context(), &f, &e)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&e.Files, "files", e.Files, "`NUMBER` of files, each in a directory of its own")
	flags.IntSliceVar(&e.Goroutines, "goroutines", e.Goroutines, "`NUMBERS` of goroutines that open, each measured by itself")
	f.add(flags, &e.Rounds, &e.RoundTime, "take a few seconds: rounds of 200ms")
	return cmd
}

func (a *app) benchResolve(ctx context.Context, f *contestFlags, e *bench.Resolve) (err error) {
	if e.Dir, err = temporaryFolder("muster-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(e.Dir)) }()
	e.Progress = a.benchProgress(ctx)
	r, err := e.Run(ctx)
	if err != nil {
		return err
	}
	if f.output.format == formatJSON {
		return printMeasurements(a, r, formatJSON)
	}
	fmt.Fprintf(a.stdout, "%s behind a link, %s of %v\n\n", english(e.Files, "file"), english(e.Rounds, "round"), e.RoundTime)
	judged := printMeasurements(a, r, formatText)
	steps, once := &r[0], &r[1]
	_, err = fmt.Fprintf(a.stdout, "\nReads of the store by an operation: steps %.4g, once %.4g; with no directory in memory: steps %.4g, once %.4g.\n",
		steps.StoreReads, once.StoreReads, steps.StoreReadsCold, once.StoreReadsCold)
	return errors.Join(err, judged)
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
)

func newBenchTopologyCommand(a *app) *cobra.Command {
	var f contestFlags
	e := bench.NewTopology()
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Hold sorting replicas without a lock against one lock a node",
		Long: `Sort the replicas of a block by their distance to a client, from several goroutines, while the
topology changes. Arms are rwmutex (a tree that changes in place: finding the client, and each
distance, takes a Go RWMutex for reading, as Apache Ozone did before HDDS-17553) and snapshot
(an immutable tree, exchanged as a whole). Cases are datanode (the client runs on one) and edge
(its address is mapped to a rack).

An operation finds the client and sorts one block's replicas. Arms take turns; figures are
medians of the rounds. The percentiles are of one operation in 64, and reading the clock, about
0.05 µs, is part of them. Costs and orders of both arms are compared before. No server is
needed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseServer(cmd); err != nil {
				return err
			}
			hurry(&f, cmd.Flags(), "goroutines", &e.Goroutines, []int{1, 8, 64})
			hurry(&f, cmd.Flags(), "round-time", &e.RoundTime, 50*time.Millisecond)
			if err := e.Validate(); err != nil {
				return usagef("%v", err)
			}
			return a.benchTopology(cmd.Context(), &f, &e)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&e.Nodes, "nodes", e.Nodes, "`NUMBER` of datanodes")
	flags.IntVar(&e.Racks, "racks", e.Racks, "`NUMBER` of racks")
	flags.IntVar(&e.Replicas, "replicas", e.Replicas, "`NUMBER` of a block's replicas")
	flags.IntSliceVar(&e.Goroutines, "goroutines", e.Goroutines, "`NUMBERS` of goroutines that sort, each measured by itself")
	flags.DurationVar(&e.Swap, "swap", e.Swap, "`TIME` between two changes of the topology")
	f.add(flags, &e.Rounds, &e.RoundTime, "take a few seconds: 1, 8 and 64 goroutines, rounds of 50ms")
	return cmd
}

func (a *app) benchTopology(ctx context.Context, f *contestFlags, e *bench.Topology) error {
	e.Progress = a.benchProgress(ctx)
	results, err := e.Run(ctx)
	if err != nil {
		return err
	}
	if f.output.format == formatText {
		fmt.Fprintf(a.stdout, "%s, %s in %s, a change every %v, %s of %v\n\n",
			english(e.Replicas, "replica"), english(e.Nodes, "node"), english(e.Racks, "rack"), e.Swap, english(e.Rounds, "round"), e.RoundTime)
	}
	return printMeasurements(a, results, f.output.format)
}

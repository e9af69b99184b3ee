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
)

func newBenchLocationsCommand(a *app) *cobra.Command {
	var f contestFlags
	e := bench.NewLocations()
	cmd := &cobra.Command{
		Use:   "locations",
		Short: "Hold the cache of locations against asking for them each time",
		Long: `Ask for the full status of files, which says where their blocks are, over loopback connections.
Arms are service (the namespace server asks the location service in each call, as Apache Ozone
did before HDDS-17731) and cache (it takes what the shared cache has). Cases are status, and head
as the control, which is the status without locations; of files in 4 block groups (ec/rs-3-2)
and in 12 blocks (replicated/3), in containers on simulated datanodes.

Each arm has a namespace server in a process of its own; the location service of both is in a
third one. Arms take turns; figures are medians of the rounds. CPU is that of the servers'
processes and of this one for each call. Answers of both arms are compared before.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseServer(cmd); err != nil {
				return err
			}
			hurry(&f, cmd.Flags(), "round-time", &e.RoundTime, 200*time.Millisecond)
			if err := e.Validate(); err != nil {
				return usagef("%v", err)
			}
			return a.benchLocations(cmd.Context(), &f, &e)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&e.Files, "files", e.Files, "`NUMBER` of files of each kind")
	flags.IntVar(&e.Cluster.Nodes, "nodes", 12, "`NUMBER` of datanodes")
	flags.IntVar(&e.Cluster.Racks, "racks", 4, "`NUMBER` of racks")
	flags.IntSliceVar(&e.Goroutines, "goroutines", e.Goroutines, "`NUMBERS` of goroutines that call, each measured by itself")
	f.add(flags, &e.Rounds, &e.RoundTime, "take less than a minute: rounds of 200ms")
	return cmd
}

func (a *app) benchLocations(ctx context.Context, f *contestFlags, e *bench.Locations) (err error) {
	dir, err := temporaryFolder("muster-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e.Dir = dir
	e.ServeLocations = func(ctx context.Context, dir, keyFile string) (*bench.Process, error) {
		return a.startConfigured(ctx, dir, fmt.Sprintf("cluster: {key_file: %q}\n", keyFile), "locations")
	}
	e.ServeNamespace = func(ctx context.Context, o bench.LocationsNamespace) (*bench.Process, error) {
		config := fmt.Sprintf("cluster: {key_file: %q}\nlocations: {server: %q}\n", o.KeyFile, o.Locations)
		return a.startConfigured(ctx, o.Dir, config, "up", "--datanodes=0", fmt.Sprintf("--direct=%t", o.Direct))
	}
	e.Progress = a.benchProgress(ctx)
	results, err := e.Run(ctx)
	if err != nil {
		return err
	}
	if f.output.format == formatJSON {
		return printMeasurements(a, results, formatJSON)
	}
	fmt.Fprintf(a.stdout, "%s of each kind, %s in %s, %s of %v\n\n", english(e.Files, "file"), english(e.Cluster.Nodes, "datanode"), english(e.Cluster.Racks, "rack"), english(e.Rounds, "round"), e.RoundTime)
	judged := printMeasurements(a, results, formatText)
	return errors.Join(a.printLocationsCPU(results), judged)
}

// startConfigured starts a server with its data in a folder, and its configuration in a file beside
// it.
func (a *app) startConfigured(ctx context.Context, dir, config string, args ...string) (*bench.Process, error) {
	file := filepath.Clean(dir) + ".yaml"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return a.startChild(ctx, append(args, "--config", file, "--listen", "127.0.0.1:0", "--log-level", "error", "--data", dir)...)
}

// printLocationsCPU prints what calls cost all processes.
func (a *app) printLocationsCPU(results []bench.LocationsMeasurement) error {
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\ncase\tgoroutines\tarm\tCPU µs a call, namespace\tlocation service\tclient\t\n")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t\n", r.Case, r.Goroutines, r.Arm, short(r.CPUNamespace), short(r.CPULocations), short(r.CPUClient))
	}
	return t.Flush()
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/client"
)

// listingFlags are what muster bench listing is told.
type listingFlags struct {
	output  outputFlags
	shapes  []string
	places  []string
	arms    []string
	rounds  int
	time    time.Duration
	quick   bool
	cold    bool
	located bool
	sorted  bool
	root    string
	plot    string
	profile string
}

func newBenchListingCommand(a *app) *cobra.Command {
	var f listingFlags
	cmd := &cobra.Command{
		Use:   "listing",
		Short: "Hold batched listing against one call a directory",
		Long: `List tables of partition directories by several arms that take turns, and compare what they
cost and whether they saw the same rows. A table is made on a server in a temporary folder
and a process of its own; nothing is left behind.

Arms are iterator (one directory a call), iterator-16 and iterator-64 (the same from as many
goroutines), pages-100 and pages-1000 (as many directories a call and entries a page, as
in HDFS-13616), and stream (all in one call). Places are in-process (no wire and no client),
loopback, and loopback+1ms and the like: through a proxy that adds to the round trip.
Shapes are DIRECTORIESxFILES, 1x30000d (one directory of directories), 1x30000d-nomtime
(without their times), and with -shuffled at the end (paths in no order).

Figures are medians of the rounds; min and max are of the slowest and the fastest one. µs, bytes,
CPU and allocations are for each status, on the server (srv) and the client (cli); in process
all is the server's. An arm that would take longer for a round than --round-time lists only the
first of the directories, and a fast one lists them several times: "statuses" says how many
rows a round had. Ratios hold within one run, on an idle machine.

With --located each arm lists with locations too, and takes turns with itself: a status then
says where the three replicas of its block are, on 12 simulated datanodes in this process;
with --sorted the nearest to one of these comes first. The rows are compared with what the
datanodes have, by host names.

With --server the tables are made on that server, below --root, and removed afterwards;
places are then server, server+1ms and the like. They are listed as --user: a superuser's
listing skips checks of permissions, which those on a server of our own do not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.experiment(&f, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return a.benchListing(cmd.Context(), &f, e)
		},
	}
	flags := cmd.Flags()
	f.output.addOutput(flags, formatText, formatJSON)
	flags.StringSliceVar(&f.shapes, "shape", nil, "only these `SHAPES`, such as 30000x1")
	flags.StringSliceVar(&f.places, "place", nil, "only these `PLACES`, such as loopback+1ms")
	flags.StringSliceVar(&f.arms, "arm", nil, "only these `ARMS`, such as stream")
	flags.IntVar(&f.rounds, "rounds", 5, "`NUMBER` of rounds")
	flags.DurationVar(&f.time, "round-time", 5*time.Second, "`TIME` that an arm's round may take")
	flags.BoolVar(&f.quick, "quick", false, "take less than a minute: fewer shapes and places, rounds of 60ms (30ms with --located, and no added round trip)")
	flags.BoolVar(&f.cold, "cold", false, "keep no directory in memory: each is read from the store, whose cache is warm")
	flags.BoolVar(&f.located, "located", false, "list with locations too, and compare")
	flags.BoolVar(&f.sorted, "sorted", false, "with --located: the nearest replicas first")
	flags.StringVar(&f.root, "root", "/bench", "with --server: `FOLDER` of the tables; it must not exist, and is removed afterwards")
	flags.StringVar(&f.plot, "plot", "", "draw the results into this `FILE`.svg")
	flags.StringVar(&f.profile, "profile", "", "write CPU profiles into this `DIR`: client.pprof, and server.pprof of our own server")
	return cmd
}

// The choices of --quick.
const quickRound = 60 * time.Millisecond

var (
	quickShapes = []string{"30000x1", "1000x30", "1x30000", "1x30000d"}
	quickPlaces = []string{"in-process", "loopback", "loopback+1ms"}
)

// experiment returns the experiment that the flags ask for.
func (a *app) experiment(f *listingFlags, changed func(flag string) bool) (*bench.Experiment, error) {
	if err := f.check(changed); err != nil {
		return nil, err
	}
	e := &bench.Experiment{Rounds: f.rounds, RoundTime: f.time, Cold: f.cold, Located: f.located, Sorted: f.sorted, Shapes: bench.Shapes(), Arms: bench.Arms()}
	if changed("server") {
		c := a.config.Client
		e.Server, e.Root, e.Client = c.Server, resolve(f.root), client.Options{User: c.User, Groups: c.Groups, Connections: c.Connections}
	}
	e.Places = bench.Places(e.Server == "")
	if f.quick {
		if !changed("round-time") {
			e.RoundTime = quickRound
			if f.located {
				e.RoundTime /= 2 // there are twice as many
			}
		}
		if !changed("shape") {
			f.shapes = quickShapes
		}
		if !changed("place") && e.Server == "" {
			f.places = quickPlaces
			if f.located {
				f.places = quickPlaces[:2]
			}
		}
	}
	var err error
	if len(f.shapes) > 0 {
		if e.Shapes, err = parseAll(f.shapes, bench.ParseShape); err != nil {
			return nil, usagef("%v", err)
		}
	}
	if len(f.places) > 0 {
		if e.Places, err = parseAll(f.places, bench.ParsePlace); err != nil {
			return nil, usagef("%v", err)
		}
	}
	if len(f.arms) > 0 {
		if e.Arms, err = parseAll(f.arms, armNamed); err != nil {
			return nil, usagef("%v", err)
		}
	}
	if err := e.Validate(); err != nil {
		return nil, usagef("%v", err)
	}
	return e, nil
}

// check refuses flags that would mean nothing.
func (f *listingFlags) check(changed func(flag string) bool) error {
	for name, list := range map[string][]string{"shape": f.shapes, "place": f.places, "arm": f.arms} {
		if changed(name) && len(list) == 0 {
			return usagef("--%s names none; leave it out for all", name)
		}
	}
	for _, name := range []string{"root", "user", "groups"} {
		if changed(name) && !changed("server") {
			return usagef("--%s is for a server that runs already; name it with --server", name)
		}
	}
	if f.sorted && !f.located {
		return usagef("--sorted is for a listing with --located")
	}
	if f.root == "" {
		return usagef("--root: the path is empty; name a folder that does not exist")
	}
	if f.plot != "" && filepath.Ext(f.plot) != ".svg" {
		return usagef("--plot %s: its name must end in .svg", f.plot)
	}
	return nil
}

func parseAll[T any](texts []string, parse func(string) (T, error)) ([]T, error) {
	all := make([]T, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func armNamed(name string) (bench.Arm, error) {
	var names []string
	for _, arm := range bench.Arms() {
		if arm.String() == name {
			return arm, nil
		}
		names = append(names, arm.String())
	}
	return bench.Arm{}, fmt.Errorf("arm %q: use %s", name, strings.Join(names, ", "))
}

// benchListing runs the experiment and prints, draws and judges its results.
func (a *app) benchListing(ctx context.Context, f *listingFlags, e *bench.Experiment) (err error) {
	var all []bench.Result
	if f.plot != "" {
		// Opened now, lest it turns out after all the measuring that it cannot be written.
		var drawing *os.File
		if drawing, err = os.OpenFile(f.plot, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, drawListing(drawing, all)) }()
	}
	dir, err := temporaryFolder("muster-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := a.listingProcesses(dir, f, e); err != nil {
		return err
	}
	if f.profile != "" {
		var profile *os.File
		if profile, err = createIn(f.profile, "client.pprof"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, profile.Close()) }()
		e.Profile = profile
	}
	e.Progress = a.benchProgress(ctx)
	e.Report = func(results []bench.Result) error {
		all = append(all, results...)
		return a.printListing(results, f.output.format == formatJSON)
	}
	if f.output.format != formatJSON {
		fmt.Fprintf(a.stdout, "%s, %s, %s, %s: about %v.\n", english(len(e.Shapes), "shape"), english(len(e.Places), "place"),
			english(len(e.Arms), "arm"), english(e.Rounds, "round"), max(time.Second, e.Estimate().Round(time.Second)))
	}
	if err := e.Run(ctx); err != nil {
		return err
	}
	return judge(all)
}

// listingProcesses says how the processes of the experiment are started, with all their
// files in dir.
func (a *app) listingProcesses(dir string, f *listingFlags, e *bench.Experiment) error {
	e.Dir = filepath.Join(dir, "data")
	up := []string{"up", "--listen", "127.0.0.1:0", "--datanodes", "0", "--log-level", "warn"}
	if f.cold {
		config := filepath.Join(dir, "muster.yaml")
		if err := os.WriteFile(config, []byte("namespace:\n  image_size: 1B\n"), 0o600); err != nil {
			return err
		}
		up = append(up, "--config", config)
	}
	if f.profile != "" {
		up = append(up, "--cpu-profile", filepath.Join(f.profile, "server.pprof"))
	}
	e.Serve = func(ctx context.Context, data string) (*bench.Process, error) {
		return a.startChild(ctx, slices.Concat(up, []string{"--data", data})...)
	}
	e.Delay = func(ctx context.Context, target string, roundTrip time.Duration) (*bench.Process, error) {
		return a.startChild(ctx, "bench", "delay", "--to", target, "--round-trip", roundTrip.String())
	}
	return nil
}

// createIn creates a file in a folder, which is made if it is missing.
func createIn(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, name))
}

// drawListing draws what was measured, also when the experiment ended early, and closes the file.
// If that is nothing, an older drawing stays.
func drawListing(f *os.File, results []bench.Result) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if len(results) > 0 {
		return errors.Join(f.Truncate(0), bench.Draw(f, results))
	}
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		return os.Remove(f.Name())
	}
	return nil
}

// judge fails if any arm saw other rows than it had to.
func judge(results []bench.Result) error {
	var errs []error
	for _, r := range results {
		if !r.RowsEqual {
			errs = append(errs, fmt.Errorf("%s, %s: %s saw other rows than there are", r.Shape, r.Place, r.Label()))
		}
	}
	return errors.Join(errs...)
}

func (a *app) printListing(results []bench.Result, asJSON bool) error {
	if !asJSON {
		return a.printListingTable(results)
	}
	out := json.NewEncoder(a.stdout)
	for i := range results {
		if err := out.Encode(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

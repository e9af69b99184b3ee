package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/configs"
)

func newBenchPreadsCommand(a *app) *cobra.Command {
	var (
		f       contestFlags
		profile string
	)
	e := bench.NewPreads()
	size, positioned, sequential := configs.Size(e.Size), configs.Size(e.Positioned), configs.Size(e.Sequential)
	cmd := &cobra.Command{
		Use:   "preads",
		Short: "Hold positioned reads without a lock against a lock, and both against bare TCP",
		Long: `Read one block of one open file, which a sequential reader and others that read at random offsets
share. Arms are locked (one lock in each read, as Apache Ozone's streams had before HDDS-17399),
muster (none), and as the limit tcp (the same reads, of a file of the same bytes, over bare TCP
connections), with tcp-locked to show what the lock alone costs. Cases are by the path of the blocks,
chunk (a call for each read) and stream: beside (positioned reads beside the sequential reader),
alone (without it) and sequential (the sequential reader by itself). The last case is write: such a
file written to three datanodes, whose folders are on one disk, against disk (a local file and its
fsync) and disk-3 (three of them at once).

The namespace server, three datanodes and the server of bare TCP are processes of their own. Arms take
turns; figures are medians of the rounds. All bytes are compared before.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseServer(cmd); err != nil {
				return err
			}
			e.Size, e.Positioned, e.Sequential = int64(size), int(positioned), int(sequential)
			hurry(&f, cmd.Flags(), "round-time", &e.RoundTime, 300*time.Millisecond)
			hurry(&f, cmd.Flags(), "rounds", &e.Rounds, 1)
			if err := e.Validate(); err != nil {
				return usagef("%v", err)
			}
			return a.benchPreads(cmd.Context(), &f, &e, profile)
		},
	}
	flags := cmd.Flags()
	flags.TextVar(&size, "size", size, "`BYTES` of the file")
	flags.TextVar(&positioned, "positioned", positioned, "`BYTES` of a positioned read")
	flags.TextVar(&sequential, "sequential", sequential, "`BYTES` of a sequential read")
	flags.IntSliceVar(&e.Beside, "beside", e.Beside, "`NUMBERS` of goroutines that read beside the sequential reader, each measured by itself")
	flags.IntSliceVar(&e.Alone, "alone", e.Alone, "`NUMBERS` of goroutines that read alone, each measured by itself")
	flags.StringSliceVar(&e.Paths, "path", e.Paths, "`PATHS` of the blocks: chunk, stream")
	flags.BoolVar(&e.Write, "write", e.Write, "measure also how such files are written")
	flags.StringVar(&profile, "profile", "", "write CPU profiles into this `DIR`: client.pprof, and datanode-0.pprof and so on")
	f.add(flags, &e.Rounds, &e.RoundTime, "take less than a minute: 1 round of 300ms")
	return cmd
}

func (a *app) benchPreads(ctx context.Context, f *contestFlags, e *bench.Preads, profile string) (err error) {
	dir, err := temporaryFolder("muster-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e.Dir = dir
	e.ServeNamespace = func(ctx context.Context, dir, keyFile string) (*bench.Process, error) {
		return a.startConfigured(ctx, dir, fmt.Sprintf("cluster: {key_file: %q}\n", keyFile), "up", "--datanodes=0")
	}
	e.ServeDatanode = func(ctx context.Context, dir, keyFile, locations string) (*bench.Process, error) {
		args := []string{"datanode"}
		if profile != "" {
			args = append(args, "--cpu-profile", filepath.Join(profile, filepath.Base(dir)+".pprof"))
		}
		return a.startConfigured(ctx, dir, fmt.Sprintf("cluster: {key_file: %q}\nlocations: {server: %q}\n", keyFile, locations), args...)
	}
	e.ServeFile = func(ctx context.Context, file string) (*bench.Process, error) {
		return a.startChild(ctx, "bench", "serve-file", "--file", file)
	}
	if profile != "" {
		file, err := createIn(profile, "client.pprof")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		e.Profile = file
	}
	e.Progress = a.benchProgress(ctx)
	results, err := e.Run(ctx)
	if err != nil {
		return err
	}
	if f.output.format == formatJSON {
		return printMeasurements(a, results, formatJSON)
	}
	fmt.Fprintf(a.stdout, "a file of %s; positioned reads of %s, sequential ones of %s, %s of %v\n\n", humanize.IBytes(uint64(e.Size)), humanize.IBytes(uint64(e.Positioned)), humanize.IBytes(uint64(e.Sequential)), english(e.Rounds, "round"), e.RoundTime)
	judged := printMeasurements(a, results, formatText)
	return errors.Join(a.printPreadsBytes(results), judged)
}

// printPreadsBytes prints the bytes of all readers together, and how that is to bare TCP.
func (a *app) printPreadsBytes(results []bench.PreadsMeasurement) error {
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\ncase\tgoroutines\tarm\tops to tcp\tsequential MB/s\tall MB/s\tall to tcp\t\n")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", r.Case, r.Goroutines, r.Arm, times(r.ToTCP), whole(r.Beside), whole(r.Total), times(r.TotalTCP))
	}
	return t.Flush()
}

// newBenchServeFileCommand is what the experiment with positioned reads starts.
func newBenchServeFileCommand(a *app) *cobra.Command {
	var (
		path, listen string
		parent       parentFlags
	)
	cmd := &cobra.Command{
		Use:    "serve-file --file FILE",
		Short:  "Serve ranges of a file over bare TCP",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return parent.run(cmd.Context(), a.stdin, func(ctx context.Context) error { return a.serveFile(ctx, path, listen) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "file", "", "`FILE` to serve")
	flags.StringVar(&listen, "listen", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0: any")
	parent.add(flags)
	return cmd
}

func (a *app) serveFile(ctx context.Context, path, listen string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, "muster is ready on %s, ranges of %s\n", lis.Addr(), path); err != nil {
		return errors.Join(err, lis.Close())
	}
	return (&bench.FileServer{File: file}).Serve(ctx, lis)
}

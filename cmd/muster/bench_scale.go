package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
)

// scaleFlags are what muster bench scale is told.
type scaleFlags struct {
	output      outputFlags
	directories int
	files       int // in all
	callers     int
	hot         int
	data        string
	keep        bool
	quick       bool
}

func newBenchScaleCommand(a *app) *cobra.Command {
	var f scaleFlags
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Fill, open and list a large tree",
		Long: `Fill a table of partition directories by batches of commands from several callers, kill the
server and open what it left, stop it in good order and open it again, and list all
directories by one stream over a loopback connection: cold, with nothing in the memory of the
server, and then hot. The server runs in a process of its own, configured as muster up is by
default; GOMEMLIMIT and GOGC are passed on to it. What "resident" says is the most memory that
it had at any time.

The store is made in a temporary folder, which is removed afterwards, or in the folder named
by --data, which must be empty or missing; 10,000,000 files take about 1 GB of disk.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseServer(cmd); err != nil {
				return err
			}
			f.hurry(cmd.Flags().Changed)
			s, err := f.experiment()
			if err != nil {
				return err
			}
			return a.benchScale(cmd.Context(), &f, s)
		},
	}
	flags := cmd.Flags()
	f.output.addOutput(flags, formatText, formatJSON)
	flags.IntVar(&f.directories, "directories", 1_000_000, "`NUMBER` of partition directories")
	flags.IntVar(&f.files, "files", 10_000_000, "`NUMBER` of files in all, the same in each directory")
	flags.IntVar(&f.callers, "callers", 8, "`NUMBER` of callers that fill the table")
	flags.IntVar(&f.hot, "hot", 3, "`NUMBER` of hot listings")
	flags.BoolVar(&f.quick, "quick", false, "take less than a minute: 50,000 directories, 500,000 files")
	flags.StringVar(&f.data, "data", "", "`DIR` of the store")
	flags.BoolVar(&f.keep, "keep", false, "keep the store; --data says where")
	return cmd
}

// hurry makes the choices of --quick, unless they are made.
func (f *scaleFlags) hurry(changed func(flag string) bool) {
	if f.quick && !changed("directories") && !changed("files") {
		f.directories, f.files = 50_000, 500_000
	}
}

// experiment returns the experiment that the flags ask for, without a folder.
func (f *scaleFlags) experiment() (*bench.Scale, error) {
	if f.directories < 1 || f.files < f.directories || f.files%f.directories != 0 {
		return nil, usagef("--files %d and --directories %d: each directory has the same number of files, at least 1, so --files must be a multiple of --directories", f.files, f.directories)
	}
	if f.keep && f.data == "" {
		return nil, usagef("--keep needs --data DIR, the folder to keep")
	}
	s := &bench.Scale{
		Table:   bench.Table{Root: "/warehouse/events", Partitions: f.directories, Files: f.files / f.directories},
		Callers: f.callers, Hot: f.hot,
	}
	if err := s.Validate(); err != nil {
		return nil, usagef("%v", err)
	}
	return s, nil
}

func (a *app) benchScale(ctx context.Context, f *scaleFlags, s *bench.Scale) (err error) {
	dir, remove, err := scaleFolder(f)
	if err != nil {
		return err
	}
	s.Dir = dir
	defer func() { err = errors.Join(err, remove()) }()
	s.Serve = func(ctx context.Context, dir string) (*bench.Process, error) {
		return a.startChild(ctx, "up", "--listen", "127.0.0.1:0", "--datanodes", "0", "--log-level", "warn", "--data", dir)
	}
	s.Progress = a.benchProgress(ctx)
	r, err := s.Run(ctx)
	if err != nil {
		return err
	}
	if f.output.format == formatJSON {
		return printMeasurements(a, r.Measurements(), formatJSON)
	}
	err = a.printScale(&r)
	if err == nil && !r.RowsEqual {
		err = errors.New("a listing brought other rows than were filled in")
	}
	return err
}

// scaleFolder makes the folder of the store. remove takes away what is to be.
func scaleFolder(f *scaleFlags) (dir string, remove func() error, err error) {
	nothing := func() error { return nil }
	if f.data == "" {
		dir, err = temporaryFolder("muster-scale-")
		if err != nil {
			return "", nothing, err
		}
		return dir, func() error { return os.RemoveAll(dir) }, nil
	}
	if dir, err = filepath.Abs(f.data); err != nil {
		return "", nothing, err
	}
	old, err := os.ReadDir(dir)
	switch {
	case err == nil && len(old) > 0:
		return "", nothing, usagef("--data %s: the folder is not empty", f.data)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", nothing, err
	case f.keep:
		return dir, nothing, nil
	case err == nil:
		return dir, func() error { return removeContents(dir) }, nil
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// removeContents empties a folder that is somebody else's.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

func (a *app) printScale(r *bench.ScaleResult) error {
	fmt.Fprintf(a.stdout, "%s directories, %s files\n\n", humanize.Comma(int64(r.Directories)), humanize.Comma(int64(r.Files)))
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(what, text string) { fmt.Fprintf(t, "%s\t%s\n", what, text) }
	line("filled by "+english(r.Callers, "caller"), seconds(r.Fill)+", "+whole(r.FillRate)+" inodes/s, each batch durable; resident at most "+size(r.FillMemory))
	line("store", size(r.StoreBytes))
	line("open after a kill", seconds(r.OpenKilled))
	line("open after a stop", seconds(r.Open)+", process start included")
	listed := func(l *bench.ScaleListing) string {
		return fmt.Sprintf("%s, %s statuses/s, %s µs a status (CPU: server %s, client %s), first row after %s ms",
			seconds(l.Took), whole(l.Rate), short(l.Micros), short(l.CPUServer), short(l.CPUClient), short(l.First))
	}
	line("listed cold", listed(&r.Cold))
	line("listed hot", listed(&r.Hot))
	line("images", fmt.Sprintf("%s in %s", whole(r.Images), size(r.ImageBytes)))
	line("resident at most", size(r.Memory))
	return t.Flush()
}

func seconds(f bench.Figure) string { return short(f) + " s" }

// size writes a number of bytes.
func size(f bench.Figure) string {
	if !f.Known() {
		return "-"
	}
	return humanize.IBytes(uint64(f))
}

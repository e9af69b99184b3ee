package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func newImportCommand(a *app) *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import [--data] [--update] SRC /dst",
		Short: "Bring in a real tree, or its metadata",
		Long: `Bring the directories, files and links below the folder SRC of this machine in below /dst:
names, sizes, times, permissions and, for a superuser, owners. File data stays where it
is, unless --data is given: then it is copied to the datanodes. /dst is made if it is missing, with its parents, and must be empty unless --update is
given: then what is as in SRC already is left alone, what differs is replaced, and what is
only in /dst stays. So an import that was interrupted goes on with --update; with --data a file whose data is not there differs.

With --data a file appears when all of it is durable. One that somebody writes while it is
copied is named on standard error and left out, as it was before.

What cannot be brought in (names that are not UTF-8, sockets, devices and pipes, folders
that cannot be read) is named on standard error, and makes the exit code 1.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeAfter(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importTree(cmd.Context(), args[0], resolve(args[1]), flags)
		},
	}
	cmd.Flags().BoolVar(&flags.update, "update", false, "bring an existing tree up to date")
	cmd.Flags().BoolVar(&flags.data, "data", false, "copy the data of files as well")
	cmd.Flags().IntVar(&flags.parallel, "parallel", importCopies, "`NUMBER` of files that are copied at once, with --data")
	return cmd
}

// importFlags are those of import.
type importFlags struct {
	update, data bool
	parallel     int // files; with data
}

// How many files an import copies at once: as a default, and at most.
const (
	importCopies    = 8
	maxImportCopies = 256
)

func (a *app) importTree(ctx context.Context, source, target string, flags importFlags) error {
	start := time.Now()
	if flags.data && (flags.parallel < 1 || flags.parallel > maxImportCopies) {
		return fmt.Errorf("--parallel %d: use 1 to %d", flags.parallel, maxImportCopies)
	}
	info, err := os.Stat(source) // SRC itself may be a link
	if err != nil {
		return sourceError(source, err)
	}
	if !info.IsDir() {
		return sourceError(source, muster.ErrNotDirectory)
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return err
	}
	im := &importer{app: a, client: c, importFlags: flags}
	if caps.Superuser {
		im.owners = newOwnerNames()
	}
	root, err := im.root(ctx, source, target, info)
	if err != nil {
		return err
	}
	if im.data {
		im.progress = a.startCopyProgress(ctx, &im.copied)
	} else {
		im.progress = a.startProgress(ctx)
	}
	err = im.run(ctx, root)
	im.progress.stop()
	if err != nil {
		a.errorf("stopped; with --update it goes on from there")
		return err
	}
	return im.summary(time.Since(start))
}

// root prepares the target and returns the folder to begin with.
func (im *importer) root(ctx context.Context, source, target string, info fs.FileInfo) (*folder, error) {
	f := &folder{source: source, want: im.entry(info)}
	f.path = target
	there, err := im.client.Stat(ctx, target)
	switch {
	case errors.Is(err, muster.ErrNotFound):
		made := muster.Mkdir{Path: target, Mode: f.want.Mode | ownerAll, Parents: true, Owner: f.want.Owner, Group: f.want.Group}
		if _, err = im.client.Apply(ctx, made); err == nil {
			f.touched = true
			im.done.add(f.want, 1)
		}
	case err == nil && !there.IsDir():
		err = muster.ErrNotDirectory
	case err == nil && !im.update:
		err = refuseEntries(ctx, im.client, target)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", shown(target), reason(err))
	}
	if f.touched {
		return f, nil
	}
	f.exists, f.there = true, there.Entry
	if im.unchangedEntry(f) {
		im.unchanged++
	}
	return f, nil
}

// refuseEntries fails unless the directory is empty.
func refuseEntries(ctx context.Context, c *client.Client, dir string) error {
	batch, err := c.Page(ctx, []string{dir}, nil, client.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	if batch.Len() > 0 {
		return fmt.Errorf("%w; --update brings it up to date", muster.ErrNotEmpty)
	}
	for _, outcome := range batch.Outcomes {
		if err := outcome.Err(); err != nil {
			return err
		}
	}
	return nil
}

// sourceError is an error of a path on this machine.
func sourceError(path string, err error) error {
	return fmt.Errorf("%s: %s", shown(path), reason(err))
}

// summary prints what was done.
func (im *importer) summary(took time.Duration) error {
	text := fmt.Sprintf("imported %s in %.1f s", im.done, took.Seconds())
	if im.unchanged > 0 {
		text += fmt.Sprintf(", %d unchanged", im.unchanged)
	}
	if im.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", im.skipped)
	}
	_, err := fmt.Fprintln(im.app.stdout, text)
	return err
}

// tally counts entries.
type tally struct{ directories, files, links, bytes int64 }

// add counts e n times; n is -1 to take it back.
func (t *tally) add(e muster.Entry, n int64) {
	switch e.Kind {
	case muster.Directory:
		t.directories += n
	case muster.File:
		t.files += n
		t.bytes += n * e.Length
	case muster.Link:
		t.links += n
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d directories, %d files, %d links, %d bytes", t.directories, t.files, t.links, t.bytes)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// copies copies the data of files, several at once. One goroutine adds files, takes those that are
// done, and waits.
type copies struct {
	client *client.Client
	group  *errgroup.Group
	ctx    context.Context // of the group: ends with the first error that is not of one file
	bytes  *atomic.Int64   // that were read, for the progress

	mu    sync.Mutex
	ended []copied // guarded by mu
}

// copied is a file that was copied, or was not.
type copied struct {
	*folder
	err error
}

func newCopies(ctx context.Context, c *client.Client, parallel int, bytes *atomic.Int64) *copies {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	return &copies{client: c, group: group, ctx: ctx, bytes: bytes}
}

// add copies a file sooner or later. It waits while enough others are being copied, and fails after one
// has failed in a way that would fail all.
func (c *copies) add(f *folder, exact bool) error {
	c.group.Go(func() error {
		err := c.copy(c.ctx, f, exact)
		if err != nil && (c.ctx.Err() != nil || errors.Is(err, muster.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown)) {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = append(c.ended, copied{f, err})
		return nil
	})
	return c.ctx.Err()
}

// take returns the files that were done since the last time.
func (c *copies) take() []copied {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := c.ended
	c.ended = nil
	return ended
}

// errChanged is why a file is not brought in that somebody writes.
var errChanged = errors.New("it changed while it was copied")

// copy copies a file: all of it, or nothing. If there is something else in its place, that goes first. An
// exact one has the final mode at once.
func (c *copies) copy(ctx context.Context, f *folder, exact bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	source, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer source.Close()
	before, err := source.Stat()
	switch {
	case err != nil:
		return err
	case !before.Mode().IsRegular():
		return errChanged
	}
	if f.there.Kind != 0 && f.there.Kind != muster.File {
		if _, err := c.client.Apply(ctx, muster.Delete{Path: f.path}); err != nil {
			return err
		}
	}
	f.want.Length, f.want.MTime = before.Size(), before.ModTime().UnixMilli() // may be younger than the folder's list
	o := client.WriteOptions{Mode: 0o600, MTime: time.UnixMilli(f.want.MTime), Atomic: true, Overwrite: f.there.Kind == muster.File}
	if exact {
		o.Mode = fs.FileMode(f.want.Mode)
	}
	w, err := c.client.CreateFile(context.WithoutCancel(ctx), f.path, o) // or else there might be a file that nobody aborts
	if err != nil {
		return err
	}
	return c.fill(ctx, w, source, before)
}

// abortTime bounds the removal of what was written of a file.
const abortTime = 10 * time.Second

// fill writes a file that was begun, and ends it.
func (c *copies) fill(ctx context.Context, w *client.FileWriter, source *os.File, before os.FileInfo) error {
	abort := func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		_ = w.Abort(cleaning) // there is an error already; what is left has a name that listings know
	}
	aborted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { abort(); close(aborted) }) // ends a write that waits
	n, err := w.ReadFrom(&countedReader{source, c.bytes})
	after, statErr := source.Stat()
	if err == nil {
		err = statErr
	}
	if err == nil && (n != before.Size() || after.Size() != n || !after.ModTime().Equal(before.ModTime())) {
		err = errChanged
	}
	if !stop() {
		<-aborted
		return ctx.Err()
	}
	if err != nil {
		abort()
		return err
	}
	return w.Close()
}

// countedReader counts what is read.
type countedReader struct {
	io.Reader
	bytes *atomic.Int64
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.bytes.Add(int64(n))
	return n, err
}

// copyChild has the data of a file copied.
func (im *importer) copyChild(copies *copies, parent, child *folder) error {
	parent.touched, child.touched = true, true
	return copies.add(child, im.exact(child))
}

// exact says whether a file gets all attributes when it is written.
func (im *importer) exact(f *folder) bool {
	return im.owners == nil && f.want.Mode&^0o777 == 0 && f.want.Mode != 0
}

// collect counts or reports the files that were copied since the last time, and gives them the rest of
// their attributes.
func (im *importer) collect(copies *copies, calls *calls) error {
	var errs []error
	for _, f := range copies.take() {
		if f.err != nil {
			im.skip(f.named(), reason(f.err))
			continue
		}
		im.done.add(f.want, 1)
		if !im.exact(f.folder) {
			errs = append(errs, calls.add(change{f.path, []muster.Command{f.attributes(im.owners != nil)}}))
		}
	}
	return errors.Join(errs...)
}

// named is the path that a message about the file names: where it went wrong.
func (f *copied) named() string {
	var local *os.PathError
	if errors.Is(f.err, errChanged) || errors.As(f.err, &local) && local.Path == f.source {
		return f.source
	}
	return f.path
}

// hasData says whether all bytes of a file are in blocks.
func hasData(e *muster.Entry) bool {
	left := e.Length
	for _, b := range e.Blocks {
		left -= b.Length
	}
	return left == 0 && e.Flags&muster.FlagWriting == 0
}

// startCopyProgress counts the entries and the bytes of an import until stop is called.
func (a *app) startCopyProgress(ctx context.Context, bytes *atomic.Int64) *progress {
	return a.show(ctx, 0, mpb.SpinnerStyle().PositionLeft(), mpb.BarWidth(1), mpb.AppendDecorators(
		decor.CurrentNoUnit(" %d entries, "),
		decor.Any(func(decor.Statistics) string { return fmt.Sprintf("%s copied, ", humanSize(bytes.Load())) }),
		decor.Elapsed(decor.ET_STYLE_GO)))
}

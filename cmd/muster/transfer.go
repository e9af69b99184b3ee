package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// copySource is what put, get and cp copy from: this machine, or Muster. Its methods are safe for
// concurrent use.
type copySource interface {
	// stat follows a link. The kind is 0 for what is none.
	stat(ctx context.Context, path string) (muster.Entry, error)
	// walk hands out what is below a directory: each directory before what is in it, which
	// follows only if visit wants it. What cannot be read is given to fail. An error is one
	// of the whole walk.
	walk(ctx context.Context, dir item, visit visitFunc, fail func(path string, err error)) error
	// open opens a file at an offset. Reading ends with ctx.
	open(ctx context.Context, it item, offset int64) (io.ReadCloser, error)
	// checksum returns the CRC-32C of a file.
	checksum(ctx context.Context, path string) (uint32, error)
}

// visitFunc is told of an entry of dir, and says what it is for the walk, and whether to go down into it.
type visitFunc func(dir item, from string, e muster.Entry) (it item, down bool)

// copyTarget is what they copy to. It replaces what exists only if it was made to, and never a
// directory. Its methods are safe for concurrent use, but for settle.
type copyTarget interface {
	// child returns the path of an entry of a directory.
	child(dir, name string) (string, error)
	// lstat does not follow links.
	lstat(ctx context.Context, path string) (muster.Entry, error)
	// mkdir makes a directory that its owner can write into until it is settled.
	mkdir(ctx context.Context, it item) error
	link(ctx context.Context, it item) error
	// write makes a file: whole, or not at all. open opens the source at an offset.
	write(ctx context.Context, it item, open opener) error
	// settle gives directories their modes and times, once all is in them.
	settle(ctx context.Context, dirs []item, fail func(path string, err error)) error
	checksum(ctx context.Context, path string) (uint32, error)
	// shown is a path as messages have it.
	shown(path string) string
}

type opener func(offset int64) (io.ReadCloser, error)

// item is an entry that is copied.
type item struct {
	muster.Entry        // as it is in the source; the name as there
	from, to     string // paths, as source and target have them
	made         bool   // a directory that was not there before
}

// transfer copies trees. One goroutine walks and makes directories and links, others copy
// files.
type transfer struct {
	*app
	*copyFlags
	did      string // what the verb has done, for the summary
	many     bool   // sources
	source   copySource
	target   copyTarget
	progress *transferProgress

	files chan *item      // that were found and are to be copied
	dirs  []item          // of the target, parents first
	roots map[uint64]bool // inode ids of the directories that roots are copied to; for cp

	giveUp context.CancelCauseFunc // ends all copying

	mu        sync.Mutex // guards what follows, and the app's output
	done      tally
	unchanged int
	bad       int
	outage    int // failures in a row since something could not be reached
}

// maxOutage is how many failures in a row, since something could not be reached, end all: each
// takes its time, and there may be a million more.
const maxOutage = 32

// run copies the roots, whose entries are known, and prints what it did. How all else went is
// on standard error.
func (t *transfer) run(ctx context.Context, roots []item) error {
	start := time.Now()
	ctx, t.giveUp = context.WithCancelCause(ctx)
	defer t.giveUp(nil)
	t.roots = make(map[uint64]bool)
	t.files = make(chan *item, walkAhead)
	t.progress = t.startTransfer(ctx)
	var workers sync.WaitGroup
	for range t.parallel {
		workers.Go(func() { t.work(ctx) })
	}
	err := t.all(ctx, roots)
	close(t.files)
	workers.Wait()
	if err == nil && ctx.Err() == nil {
		err = t.target.settle(ctx, t.dirs, t.fail)
	}
	t.progress.stop()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if t.recursive {
			t.errorf("stopped after %s", t.done)
		}
		return err
	}
	return t.summary(time.Since(start))
}

// walkAhead is how many files are found before the first of them are copied, so that people see
// how much there is.
const walkAhead = 1 << 16

// work copies files.
func (t *transfer) work(ctx context.Context) {
	for it := range t.files {
		t.finish(ctx, *it, t.copyFile)
		t.progress.done()
	}
}

func (t *transfer) all(ctx context.Context, roots []item) error {
	taken := make(map[string]bool)
	for _, root := range roots {
		if taken[root.to] {
			t.fail(root.from, fmt.Errorf("to %s: another source of this command goes there", shown(t.target.shown(root.to))))
			continue
		}
		taken[root.to] = true
		if root.Kind != muster.Directory {
			t.one(ctx, root)
			continue
		}
		if !t.recursive {
			t.fail(root.from, fmt.Errorf("%w; -r copies it and all below it", muster.ErrIsDirectory))
			continue
		}
		root, ok := t.directory(ctx, root)
		if !ok || !t.apart(ctx, root) {
			continue
		}
		if err := t.source.walk(ctx, root, t.visit(ctx), t.fail); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// apart remembers where a tree goes, so that it is not copied into itself, by whatever link.
func (t *transfer) apart(ctx context.Context, root item) bool {
	if root.ID == 0 {
		return true // of this machine
	}
	there, err := t.target.lstat(ctx, root.to)
	switch {
	case err != nil:
		t.fail(root.from, err)
	case there.ID == root.ID:
		t.fail(root.from, fmt.Errorf("to %s: it is the same directory", shown(t.target.shown(root.to))))
	default:
		t.roots[there.ID] = true
		return true
	}
	return false
}

func (t *transfer) visit(ctx context.Context) visitFunc {
	return func(dir item, from string, e muster.Entry) (item, bool) {
		it := item{Entry: e, from: from}
		var err error
		if it.to, err = t.target.child(dir.to, e.Name); err != nil {
			t.fail(from, err)
			return it, false
		}
		if e.Kind != muster.Directory {
			t.one(ctx, it)
			return it, false
		}
		if t.roots[e.ID] {
			t.fail(from, errors.New("passed over: it is what is copied to"))
			return it, false
		}
		return t.directory(ctx, it)
	}
}

// directory makes a directory, unless it is there. If that fails, what is in it is left out.
func (t *transfer) directory(ctx context.Context, it item) (item, bool) {
	err := t.target.mkdir(ctx, it)
	it.made = err == nil
	if errors.Is(err, fs.ErrExist) {
		var there muster.Entry
		if there, err = t.target.lstat(ctx, it.to); err == nil && there.Kind != muster.Directory {
			err = fmt.Errorf("%w; a directory does not replace it", muster.ErrNotDirectory)
		}
	}
	if err != nil {
		t.fail(it.from, t.toTarget(it, err))
		return it, false
	}
	t.dirs = append(t.dirs, it)
	if it.made {
		t.count(it)
	}
	return it, true
}

// one copies what is no directory; a file sooner or later.
func (t *transfer) one(ctx context.Context, it item) {
	switch it.Kind {
	case muster.Link:
		t.finish(ctx, it, t.copyLink)
	case muster.File:
		t.progress.found(it.Length)
		t.files <- &it
	default:
		t.fail(it.from, fmt.Errorf("skipped: it is %s", it.Target)) // which says what, see localSource
	}
}

// finish copies something, unless it is there already, and counts or reports it.
func (t *transfer) finish(ctx context.Context, it item, make func(context.Context, item) error) {
	same, err := t.there(ctx, it)
	switch {
	case err != nil:
	case same:
		t.progress.skip(it.Length)
		t.mu.Lock()
		t.unchanged++
		t.mu.Unlock()
		return
	default:
		err = make(ctx, it)
	}
	if err == nil {
		t.count(it)
		return
	}
	if ctx.Err() != nil {
		err = ctx.Err() // whatever it led to
	}
	t.fail(it.from, err)
}

func (t *transfer) copyLink(ctx context.Context, it item) error {
	return t.toTarget(it, t.target.link(ctx, it))
}

func (t *transfer) copyFile(ctx context.Context, it item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error // of the source
	err := t.target.write(ctx, it, func(offset int64) (io.ReadCloser, error) {
		r, err := t.source.open(ctx, it, offset)
		if err != nil {
			failed = err
			return nil, err
		}
		t.progress.skip(offset)
		return &intake{ReadCloser: r, ctx: ctx, progress: t.progress, err: &failed}, nil
	})
	if failed != nil {
		return failed
	}
	return t.toTarget(it, err)
}

// there says whether --resume passes over something.
func (t *transfer) there(ctx context.Context, it item) (bool, error) {
	if !t.resume {
		return false, nil
	}
	e, err := t.target.lstat(ctx, it.to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, t.toTarget(it, err)
	case e.Kind != it.Kind || it.Kind == muster.Link || e.Length != it.Length || !t.checksum:
		return e.Kind == it.Kind && e.Target == it.Target && e.Length == it.Length && (it.Kind == muster.Link || e.MTime == it.MTime), nil
	}
	want, err := t.source.checksum(ctx, it.from)
	if err != nil {
		return false, err
	}
	got, err := t.target.checksum(ctx, it.to)
	return got == want, t.toTarget(it, err)
}

// toTarget names the target in an error of it.
func (t *transfer) toTarget(it item, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist) && !t.force && it.Kind != muster.Directory:
		return fmt.Errorf("to %s: %w; -f replaces it", shown(t.target.shown(it.to)), muster.ErrExists)
	}
	return fmt.Errorf("to %s: %w", shown(t.target.shown(it.to)), bare(err))
}

func (t *transfer) count(it item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done.add(it.Entry, 1)
	t.outage = 0
}

// fail reports what failed. What fails since the run was interrupted is not reported.
func (t *transfer) fail(path string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bad++
	t.app.fail(path, err)
	if muster.CodeOf(err) == muster.ErrUnavailable {
		if t.outage++; t.outage == maxOutage {
			t.giveUp(fmt.Errorf("%w: given up after %d failures in a row", muster.ErrUnavailable, maxOutage))
		}
	}
}

// transferSummary is what -o json has.
type transferSummary struct {
	Directories int64   `json:"directories"`
	Files       int64   `json:"files"`
	Links       int64   `json:"links"`
	Bytes       int64   `json:"bytes"`
	Unchanged   int     `json:"unchanged"`
	Failed      int     `json:"failed"`
	Seconds     float64 `json:"seconds"`
}

// summary prints what was done, of trees and of several files.
func (t *transfer) summary(took time.Duration) error {
	if t.output.format == formatJSON {
		return json.NewEncoder(t.stdout).Encode(transferSummary{
			t.done.directories, t.done.files, t.done.links, t.done.bytes, t.unchanged, t.bad, took.Seconds(),
		})
	}
	if !t.recursive && !t.many {
		return nil
	}
	text := fmt.Sprintf("%s %s in %.1f s", t.did, t.done, took.Seconds())
	if t.unchanged > 0 {
		text += fmt.Sprintf(", %d unchanged", t.unchanged)
	}
	if t.bad > 0 {
		text += fmt.Sprintf(", %d failed", t.bad)
	}
	_, err := fmt.Fprintln(t.stdout, text)
	return err
}

package namespace

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// Tree is a tree of inodes in one folder. It is safe for concurrent use.
type Tree struct {
	opts Options
	db   *pebble.DB
	lock io.Closer // of the folder
	fs   *failStop

	// mu guards view and down. It is held for taking and swapping the reference, never
	// over I/O or a wait.
	mu   sync.RWMutex
	view *View          // what readers get; nil once down
	down bool           // closed or failed
	live sync.WaitGroup // views not closed yet

	loads     loads
	readers   sync.Pool // of *Reader
	committer committer
	janitor   janitor
	stop      chan struct{} // closed by Close
	closing   sync.Once
	closed    error          // of the first Close
	running   sync.WaitGroup // the tree's own goroutines

	trouble  chan struct{} // capacity 1: background work of the store failed
	troubled atomic.Int64  // ns; when that was logged last
	counters counters
}

// counters count since Open.
type counters struct {
	views, gets, seeks, commits, refusals, syncs atomic.Uint64
	loads, loadedRows                            atomic.Uint64
}

// Close stops the tree: calls in the queue fail with ErrUnavailable. It waits for the views
// that are out, so release them. If the tree had failed, Close returns why.
func (t *Tree) Close() error {
	t.closing.Do(func() { t.closed = t.shut() })
	return t.closed
}

func (t *Tree) shut() error {
	close(t.stop)
	t.running.Wait()
	t.takeDown()
	t.live.Wait()
	if t.fs.failure() == nil {
		t.flush()
	}
	return t.release()
}

// flush writes what is in memory into tables, so that the next Open finds no log to replay. The
// store tries for ever; failing once is enough here, and no loss.
func (t *Tree) flush() {
	select {
	case <-t.trouble: // an old one
	default:
	}
	flushed, err := t.db.AsyncFlush()
	if err != nil {
		t.opts.Logger.Warn("flushing at close failed", "error", err)
		return
	}
	select {
	case <-flushed:
	case <-t.trouble:
	case <-t.fs.tripped:
	}
}

// release closes the store and gives the folder back.
func (t *Tree) release() error {
	var err error
	close(t.fs.closing)
	if !t.fs.wedged.Load() {
		err = storeError(t.db.Close())
	}
	if lockErr := t.lock.Close(); err == nil && lockErr != nil {
		err = fmt.Errorf("%w: unlock: %v", muster.ErrInternal, lockErr)
	}
	if failed := t.fs.failure(); failed != nil {
		return failed
	}
	return err
}

// refusal is the error of a call that comes when there is no view.
func (t *Tree) refusal() error {
	if err := t.fs.failure(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the tree is closed", muster.ErrUnavailable)
}

// watch takes the view away when the store fails, and says so once.
func (t *Tree) watch() {
	select {
	case <-t.fs.tripped:
	case <-t.stop:
		return
	}
	t.takeDown()
	err := t.fs.failure()
	t.opts.Logger.Error("the store failed; every call is refused until the folder is opened again", "error", err)
	if t.opts.OnFatal != nil {
		t.opts.OnFatal(err)
	}
}

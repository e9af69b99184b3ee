package namespace

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// Tree is a tree of inodes in one folder. It is safe for concurrent use.
type Tree struct {
	opts  Options
	store *store.Store
	db    *pebble.DB // the store's

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
	t.store.Flush()
	return t.store.Close()
}

// refusal is the error of a call that comes when there is no view.
func (t *Tree) refusal() error {
	if err := t.store.Failure(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the tree is closed", muster.ErrUnavailable)
}

// watch takes the view away when the store fails, and says so once.
func (t *Tree) watch() {
	select {
	case <-t.store.Failed():
	case <-t.stop:
		return
	}
	t.takeDown()
	err := t.store.Failure()
	t.opts.Logger.Error("the store failed; every call is refused until the folder is opened again", "error", err)
	if t.opts.OnFatal != nil {
		t.opts.OnFatal(err)
	}
}

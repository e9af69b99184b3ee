package namespace

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// View is one durable state of the tree. It is safe for concurrent use and never changes.
// Release it after the last reader of it is closed; a view that is kept holds back
// compaction.
type View struct {
	tree *Tree
	snap *pebble.Snapshot
	meta meta
	root atomic.Pointer[[]byte] // the root's row, once it was read
	refs atomic.Int64
}

// View returns the newest durable state. It takes the tree's read lock, once; nothing done
// with the view takes it again.
func (t *Tree) View() (*View, error) {
	v, err := t.currentView()
	if err == nil {
		t.counters.views.Add(1)
	}
	return v, err
}

func (t *Tree) currentView() (*View, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.view == nil {
		return nil, t.refusal()
	}
	t.view.refs.Add(1)
	return t.view, nil
}

// newView makes the view of what was applied last, with one reference.
func (t *Tree) newView(m meta) *View {
	v := &View{tree: t, snap: t.db.NewSnapshot(), meta: m}
	v.refs.Store(1)
	t.live.Add(1)
	return v
}

// publish makes v the view that readers get, unless the tree is down. What it changed leaves
// the images before.
func (t *Tree) publish(v *View, c *touched) {
	t.loads.advance(v, c)
	t.mu.Lock()
	old := t.view
	if t.down {
		old = v
	} else {
		t.view = v
	}
	t.mu.Unlock()
	if old != nil {
		old.Release()
	}
}

// takeDown takes the view away for good.
func (t *Tree) takeDown() {
	t.mu.Lock()
	old := t.view
	t.view, t.down = nil, true
	t.mu.Unlock()
	t.loads.takeDown()
	if old != nil {
		old.Release()
	}
}

// Txid returns the txid of the last command that the view shows.
func (v *View) Txid() uint64 { return v.meta.txid }

// Release gives one reference back; the last one closes the view.
func (v *View) Release() {
	switch n := v.refs.Add(-1); {
	case n > 0:
	case n < 0:
		panic("namespace: view released more often than taken")
	default:
		defer v.tree.live.Done()
		if v.tree.store.Wedged() {
			return // closing would wait for a lock that nobody gives back
		}
		if err := v.snap.Close(); err != nil {
			v.tree.opts.Logger.Warn("closing a snapshot failed", "error", err)
		}
	}
}

// Resolve walks one path; to walk many, use a Reader, whose Resolve it is.
func (v *View) Resolve(caller *muster.Identity, path string, follow bool) (Resolved, error) {
	r := v.NewReader(caller)
	defer r.Close()
	return r.Resolve(path, follow)
}

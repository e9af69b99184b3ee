package namespace

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
)

// TestALoadThatACommitTouchedIsNotPublished, when it was registered before the commit and read the
// state before it.
func TestALoadThatACommitTouchedIsNotPublished(t *testing.T) {
	for _, c := range commits {
		t.Run(c.what, func(t *testing.T) {
			tree, dir, parent := commitTree(t)
			tree.loads.cache.Evict(func(uint64) bool { return true })
			f := loadOf(t, tree, dir, parent)
			mustApply(t, tree, c.command)
			f.publish()
			if got := tree.cached(dir); got != c.image {
				t.Errorf("the directory is published: %v, want %v", got, c.image)
			}
			if got := tree.cached(parent); got != c.parent {
				t.Errorf("the parent is published: %v, want %v", got, c.parent)
			}
			if got := tree.cached(headKey | dir); got != c.top {
				t.Errorf("the head is published: %v, want %v", got, c.top)
			}
		})
	}
}

// inFlight is a load, step by step: begun and read, not yet published.
type inFlight struct {
	tree *Tree
	load loading
	read []stretch
	item [][]byte
}

// loadOf loads whole directories and the heads of them.
func loadOf(t *testing.T, tree *Tree, dirs ...uint64) *inFlight {
	t.Helper()
	slices.Sort(dirs)
	f := &inFlight{tree: tree, load: loading{most: imageRows}}
	for _, dir := range dirs {
		f.load.flight.wants = append(f.load.flight.wants, want{dir: dir})
		f.load.flight.heads = append(f.load.flight.heads, head{id: dir})
	}
	f.run(t, plan{})
	return f
}

func (f *inFlight) run(t *testing.T, p plan) {
	t.Helper()
	f.load.view = f.tree.loads.begin(&f.load.flight)
	for i := range f.load.flight.wants {
		w := &f.load.flight.wants[i]
		s, err := f.load.read(w, p)
		if err != nil {
			t.Fatal(err)
		}
		s.high = slices.Clone(s.high)
		f.read, f.item = append(f.read, s), append(f.item, f.load.packer.appendItem(nil))
	}
	for i := range f.load.flight.heads {
		h := &f.load.flight.heads[i]
		if err := f.load.record(h.id); err != nil {
			t.Fatal(err)
		}
		h.ok, h.Head, h.since = true, Head{f.load.rec.mtime, f.load.rec.changedAt}, f.load.rec.recordAt
	}
	if err := f.load.close(); err != nil {
		t.Fatal(err)
	}
}

func (f *inFlight) publish() {
	for i := range f.read {
		f.tree.loads.publish(&f.load.flight.wants[i], &f.read[i], f.item[i])
	}
	f.tree.loads.publishHeads(f.load.flight.heads)
	f.tree.loads.end(&f.load.flight)
}

// TestALoadBetweenTheStepsOfACommit: once a commit has dropped what it touches, and before its view
// can be had, what readers load is of the new state. Readers of the old one do not see it.
func TestALoadBetweenTheStepsOfACommit(t *testing.T) {
	tree, dir, _ := commitTree(t)
	tree.mu.RLock() // the commit stops where it swaps the view
	old := tree.view
	old.refs.Add(1)
	done := make(chan error, 1)
	go func() {
		_, err := tryApply(t, tree, muster.Create{Path: "/p/d/new"})
		done <- err
	}()
	for tree.cached(dir) || tree.newest() == old {
		runtime.Gosched()
	}
	r := old.NewReader(&root)
	if got := list(t, r, "/p/d"); !slices.Equal(got, []string{"f", "sub", "w"}) {
		t.Errorf("the old view shows %q", got)
	}
	r.Close()
	old.Release()
	if !tree.cached(dir) {
		t.Error("the new state is not published")
	}
	tree.mu.RUnlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	reading(t, tree, root, func(r *Reader) {
		cost := r.cost(func() {
			if got := list(t, r, "/p/d"); !slices.Equal(got, []string{"f", "new", "sub", "w"}) {
				t.Errorf("the new view shows %q", got)
			}
		})
		if cost != (reads{}) {
			t.Errorf("it costs %+v", cost)
		}
	})
}

func (t *Tree) newest() *View {
	t.loads.mu.Lock()
	defer t.loads.mu.Unlock()
	return t.loads.newest
}

// TestAnOldViewNeitherPublishesNorSeesWhatIsNewer.
func TestAnOldViewNeitherPublishesNorSeesWhatIsNewer(t *testing.T) {
	tree, dir, _ := commitTree(t)
	v, err := tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	mustApply(t, tree, muster.Create{Path: "/p/d/new"}, muster.SetAttr{Path: "/p/d", MTime: new(int64(7))})
	for range 2 { // the second time, what is newer is in memory
		r := v.NewReader(&root)
		if got := list(t, r, "/p/d"); !slices.Equal(got, []string{"f", "sub", "w"}) {
			t.Errorf("the old view shows %q", got)
		}
		heads := make([]Head, 1)
		if err := r.Heads([]uint64{dir}, heads); err != nil || heads[0].MTime == 7 || heads[0].ChangedAt != 1 {
			t.Errorf("the old view shows %+v, %v", heads[0], err)
		}
		r.Close()
	}
	if got := names(t, tree, "/p/d"); !slices.Equal(got, []string{"f", "new", "sub", "w"}) {
		t.Errorf("the new view shows %q", got)
	}
	var m image
	item, since, ok := tree.loads.cache.Get(dir, math.MaxUint64)
	if ok {
		m.open(item)
	}
	if since != 2 || m.n != 4 {
		t.Errorf("in memory is %v, since %d", ok, since)
	}
}

// TestANameThatIsMadeAnewIsAnotherDirectory.
func TestANameThatIsMadeAnewIsAnotherDirectory(t *testing.T) {
	tree, dir, _ := commitTree(t)
	mustApply(t, tree, muster.Delete{Path: "/p/d", Recursive: true}, muster.Create{Path: "/p/d/other", Parents: true})
	if got := names(t, tree, "/p/d"); !slices.Equal(got, []string{"other"}) || idOf(t, tree, "/p/d") == dir {
		t.Errorf("it shows %q", got)
	}
}

// TestReclaimIsNeverSeen: while a deleted directory is reclaimed, by single rows or by a range, an older view
// shows all of it, and nothing of it stays in memory.
func TestReclaimIsNeverSeen(t *testing.T) {
	for _, files := range []int{20, 600} {
		t.Run(fmt.Sprintf("files=%d", files), func(t *testing.T) {
			tree, steps := openIdle(t, Options{ReclaimStep: 10, ImageBytes: 1 << 20})
			load(t, tree, "/t", 1, files)
			dir := idOf(t, tree, "/t/d000000")
			v, err := tree.View()
			if err != nil {
				t.Fatal(err)
			}
			defer v.Release()
			mustApply(t, tree, muster.Delete{Path: "/t", Recursive: true})
			for tree.Stats().Reclaiming > 0 {
				r := v.NewReader(&root)
				got := list(t, r, "/t/d000000")
				r.Close()
				if len(got) != files {
					t.Fatalf("the old view shows %d files", len(got))
				}
				steps(1)
			}
			if tree.cached(dir) {
				t.Error("its image is still in memory")
			}
		})
	}
}

// TestALoadDuringAReclaimIsNotPublished.
func TestALoadDuringAReclaimIsNotPublished(t *testing.T) {
	tree, steps := openIdle(t, Options{ReclaimStep: 1000, ImageBytes: 1 << 20})
	load(t, tree, "/t", 1, 300)
	dir := idOf(t, tree, "/t/d000000")
	f := loadOf(t, tree, dir)
	mustApply(t, tree, muster.Delete{Path: "/t", Recursive: true})
	for tree.Stats().Reclaiming > 0 {
		steps(1)
	}
	f.publish()
	if tree.cached(dir) {
		t.Error("it is published")
	}
}

// TestARangeIsMarkedByNames: a commit keeps a load of a range from being published only if it
// touches a name in it.
func TestARangeIsMarkedByNames(t *testing.T) {
	for name, published := range map[string]bool{"f000000": true, "f000099x": true, "f000100": false, "f000105": false, "f000119x": false, "f000120": true, "f000500": true} {
		tree := openMem(t, Options{ImageBytes: 1 << 20})
		load(t, tree, "/t", 1, 1000)
		dir := idOf(t, tree, "/t/d000000")
		f := &inFlight{tree: tree, load: loading{most: imageRows}}
		f.load.flight.wants = []want{{dir: dir, low: []byte("f000100"), high: []byte("f000120")}}
		f.run(t, plan{known: true})
		mustApply(t, tree, muster.Create{Path: "/t/d000000/" + name, Overwrite: true})
		f.publish()
		if got := tree.cached(rangeKey | 1); got != published {
			t.Errorf("after %s: published %v, want %v", name, got, published)
		}
	}
}

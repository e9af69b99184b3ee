package namespace_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// history is a tree that writers change at random while readers read pages of it. Afterwards the
// accepted requests are replayed in the order of their txids, and each page must be what the
// oracle has at the page's txid.
//
// Each request makes a file in /clock too, whose mtime is its stamp.
type history struct {
	tree  *namespace.Tree
	clock atomic.Int64

	mu       sync.Mutex
	guide    *oracle // about what there is, for requests that have a chance
	accepted []accepted
	pages    []page
}

type accepted struct {
	request namespace.Request
	clock   string
	txid    uint64
}

// page is what a reader saw in one view.
type page struct {
	txid uint64
	dirs []listed
}

type listed struct {
	path    string
	code    muster.Code
	own     status
	entries []status
}

const (
	historyWriters = 3
	historyReaders = 3
	historyRounds  = 40 // requests of a writer
)

func newHistory(t *testing.T, o namespace.Options) *history {
	h := &history{}
	h.clock.Store(1_000_000)
	o.FS, o.Superuser, o.CacheBytes, o.MemTableBytes, o.ReclaimStep = vfs.NewMem(), superuser, 1<<20, 64<<10, 2
	o.Now = func() time.Time { return time.UnixMilli(h.clock.Add(1)) }
	h.guide = newOracle(superuser, h.clock.Load()+1)
	tree, err := namespace.Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	h.tree = tree
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	h.apply(t.Context(), "", muster.Mkdir{Path: "/clock"})
	return h
}

func (h *history) apply(ctx context.Context, clock string, commands ...muster.Command) error {
	r := namespace.Request{Caller: boss, Commands: commands}
	applied, err := h.tree.Apply(ctx, r)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accepted = append(h.accepted, accepted{r, clock, applied.Txid})
	return nil
}

func (h *history) write(ctx context.Context, w int, rng *rand.Rand) error {
	g := generator{pick: rng.IntN, paths: true}
	for i := range historyRounds {
		clock := fmt.Sprintf("%d-%d", w, i)
		h.mu.Lock()
		commands := g.request(h.guide).Commands
		h.mu.Unlock()
		err := h.apply(ctx, clock, append([]muster.Command{muster.Create{Path: "/clock/" + clock}}, commands...)...)
		var refused *muster.CommandError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.guide.apply(boss, 0, 0, commands...)
		h.mu.Unlock()
	}
	return nil
}

// read reads pages until the writers are done.
func (h *history) read(rng *rand.Rand, done *atomic.Bool) error {
	g := generator{pick: rng.IntN}
	for rounds := 0; rounds < 3 || !done.Load(); rounds++ {
		h.mu.Lock()
		paths := []string{"/", "/clock"}
		for range rng.IntN(12) {
			paths = append(paths, g.path(h.guide))
		}
		h.mu.Unlock()
		view, err := h.tree.View()
		if err != nil {
			return err
		}
		if rng.IntN(4) == 0 { // an old view beside new images
			for txid := view.Txid(); h.tree.Stats().Txid < txid+3 && !done.Load(); {
				time.Sleep(100 * time.Microsecond)
			}
		}
		p, err := readPage(view, paths)
		view.Release()
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.pages = append(h.pages, p)
		h.mu.Unlock()
	}
	return nil
}

// readPage lists paths as a page does: all are resolved, then loaded, then scanned.
func readPage(view *namespace.View, paths []string) (page, error) {
	r := view.NewReader(&boss)
	defer r.Close()
	p := page{txid: view.Txid()}
	res, found := make([]namespace.Resolved, len(paths)), make([]error, len(paths))
	for i, path := range paths {
		res[i], found[i] = r.Resolve(path, true)
	}
	r.Load(res)
	for i, path := range paths {
		l := listed{path: path, code: muster.CodeOf(found[i])}
		if l.code == muster.OK {
			if err := l.read(r, &res[i]); err != nil {
				return p, fmt.Errorf("%q: %w", path, err)
			}
		}
		p.dirs = append(p.dirs, l)
	}
	return p, nil
}

func (l *listed) read(r *namespace.Reader, res *namespace.Resolved) error {
	var row muster.Row
	if err := r.Row(res, &row, true); err != nil {
		return err
	}
	if l.own.Entry = row.Entry(); row.Kind != muster.Directory {
		return nil
	}
	ids := []uint64{res.ID()}
	if err := r.Scan(res, "", true); err != nil {
		return err
	}
	for r.Next(&row) {
		l.entries = append(l.entries, status{Entry: row.Entry()})
		if row.Kind == muster.Directory {
			ids = append(ids, row.ID)
		}
	}
	heads := make([]namespace.Head, len(ids))
	if err := cmp.Or(r.Err(), r.Heads(ids, heads)); err != nil {
		return err
	}
	l.own.changedAt, heads = heads[0].ChangedAt, heads[1:]
	for i := range l.entries {
		if e := &l.entries[i]; e.Kind == muster.Directory {
			e.MTime, e.changedAt, heads = heads[0].MTime, heads[0].ChangedAt, heads[1:]
		}
	}
	if changedAt, known := r.ChangedAt(res); known && changedAt != l.own.changedAt {
		return fmt.Errorf("changed at %d, and %d by its head", changedAt, l.own.changedAt)
	}
	return nil
}

// want is what should have been read.
func (l *listed) want(o *oracle) listed {
	n, code := o.resolve(&boss, l.path, true)
	w := listed{path: l.path, code: code}
	if code != muster.OK {
		return w
	}
	w.own = status{n.Entry, n.changedAt}
	w.own.Name = ""
	if n.Kind == muster.Directory {
		for _, name := range o.names(n.ID) {
			child := o.nodes[n.children[name]]
			w.entries = append(w.entries, status{child.Entry, child.changedAt})
		}
	}
	return w
}

func (l *listed) differs(w listed) error {
	if l.code != w.code {
		return fmt.Errorf("%s, want %s", l.code.Name(), w.code.Name())
	}
	if err := same(l.own.Entry, w.own.Entry); err != nil {
		return fmt.Errorf("its own row: %w", err)
	}
	if l.own.changedAt != w.own.changedAt {
		return fmt.Errorf("changed at %d, want %d", l.own.changedAt, w.own.changedAt)
	}
	for i := range min(len(l.entries), len(w.entries)) {
		if err := same(l.entries[i].Entry, w.entries[i].Entry); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if l.entries[i].changedAt != w.entries[i].changedAt {
			return fmt.Errorf("%q changed at %d, want %d", l.entries[i].Name, l.entries[i].changedAt, w.entries[i].changedAt)
		}
	}
	if len(l.entries) != len(w.entries) {
		return fmt.Errorf("%d rows, want %d", len(l.entries), len(w.entries))
	}
	return nil
}

// check replays the requests and compares the pages.
func (h *history) check(t *testing.T) {
	stamps := map[string]int64{}
	view, err := h.tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Release()
	last, err := readPage(view, []string{"/clock"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range last.dirs[0].entries {
		stamps[e.Name] = e.MTime
	}
	slices.SortFunc(h.accepted, func(a, b accepted) int { return cmp.Compare(a.txid, b.txid) })
	slices.SortStableFunc(h.pages, func(a, b page) int { return cmp.Compare(a.txid, b.txid) })
	o := newOracle(superuser, 1_000_001)
	stamps[""] = 1_000_002
	pages := h.pages
	for i, a := range h.accepted {
		if a.txid != uint64(i+1) {
			t.Fatalf("txid %d is the %d. request's", a.txid, i+1)
		}
		if _, index, code := o.apply(boss, stamps[a.clock], a.txid, a.request.Commands...); code != muster.OK {
			t.Fatalf("the oracle refuses command %d of %s: %s", index, describe(a.request), code.Name())
		}
		for ; len(pages) > 0 && pages[0].txid == a.txid; pages = pages[1:] {
			for _, l := range pages[0].dirs {
				if err := l.differs(l.want(o)); err != nil {
					t.Fatalf("txid %d, %q: %v\nafter %s\n%s", a.txid, l.path, err, describe(a.request), o)
				}
			}
		}
	}
	if len(pages) > 0 {
		t.Fatalf("a page of txid %d, and the last was %d", pages[0].txid, len(h.accepted))
	}
}

// TestEachPageIsOneStateOfTheHistory, whatever the budget of images is, whether directories are
// held whole or in ranges, and while images are evicted at random.
func TestEachPageIsOneStateOfTheHistory(t *testing.T) {
	for name, o := range map[string]namespace.Options{
		"plenty": {ImageBytes: 64 << 20},
		"ranges": namespace.Options{ImageBytes: 64 << 20}.SmallImages(8),
		"tiny":   namespace.Options{ImageBytes: 8 << 10}.SmallImages(16),
		"none":   {ImageBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			overSeeds(t, 6, func(t *testing.T, rng *rand.Rand) { testHistory(t, rng, o) })
		})
	}
}

func testHistory(t *testing.T, rng *rand.Rand, o namespace.Options) {
	h := newHistory(t, o)
	var done atomic.Bool
	writers, ctx := errgroup.WithContext(t.Context())
	for w := range historyWriters {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		writers.Go(func() error { return h.write(ctx, w, rng) })
	}
	var readers errgroup.Group
	for range historyReaders {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		readers.Go(func() error { return h.read(rng, &done) })
	}
	evicting := rand.New(rand.NewPCG(rng.Uint64(), 0))
	readers.Go(func() error {
		for !done.Load() {
			h.tree.EvictImages(func(uint64) bool { return evicting.IntN(4) == 0 })
			time.Sleep(200 * time.Microsecond)
		}
		return nil
	})
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	done.Store(true)
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	if !t.Failed() {
		h.check(t)
	}
}

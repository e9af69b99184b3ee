package listing_test

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

var (
	root    = &muster.Identity{User: "root"}
	alice   = &muster.Identity{User: "alice", Groups: []string{"users"}}
	testKey = bytes.Repeat([]byte{7}, 32)
)

// bubble runs f in a bubble of synctest and with a store in it. Pebble keeps channels in
// pools, and nobody outside may use those of a bubble: two collections empty the pools.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer func() {
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, f)
}

// world is a tree in memory and what a test does with it.
type world struct {
	testing.TB
	tree *namespace.Tree
}

func newWorld(t testing.TB) *world { return openWorld(t, vfs.NewMem()) }

func openWorld(t testing.TB, fs vfs.FS) *world {
	t.Helper()
	return openTree(t, namespace.Options{FS: fs, Superuser: root.User, CacheBytes: 8 << 20, MemTableBytes: 4 << 20})
}

func openTree(t testing.TB, o namespace.Options) *world {
	t.Helper()
	tree, err := namespace.Open("tree", withImages(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return &world{TB: t, tree: tree}
}

// do applies commands as root, each batch as one.
func (w *world) do(commands ...muster.Command) []uint64 {
	w.Helper()
	var ids []uint64
	for batch := range slices.Chunk(commands, muster.MaxBatchCommands/10) {
		done, err := w.tree.Apply(w.Context(), namespace.Request{Caller: *root, Commands: batch})
		if err != nil {
			w.Fatal(err)
		}
		ids = append(ids, done.IDs...)
	}
	return ids
}

// build makes directories (ending in a slash), links ("path -> target") and empty files.
func (w *world) build(entries ...string) {
	w.Helper()
	var commands []muster.Command
	for _, e := range entries {
		commands = append(commands, command(e))
	}
	w.do(commands...)
}

func command(entry string) muster.Command {
	if path, target, ok := strings.Cut(entry, " -> "); ok {
		return muster.Symlink{Path: path, Target: target}
	}
	if dir, ok := strings.CutSuffix(entry, "/"); ok {
		return muster.Mkdir{Path: dir, Mode: 0o755, Parents: true}
	}
	return muster.Create{Path: entry, Mode: 0o644, Replication: muster.Replicated(3), BlockSize: 128 << 20, Parents: true}
}

func (w *world) lister(c listing.Config) *listing.Lister {
	w.Helper()
	if c.Key == nil {
		c.Key = testKey
	}
	l, err := listing.New(w.tree, c)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// row is a row with the index of its path.
type row struct {
	Index uint32
	muster.Entry
}

// listed is what a listing gave, over all its messages.
type listed struct {
	rows     []row
	outcomes []muster.Outcome
	messages int
	perPath  map[uint32]uint64 // number of rows by index of their path
	first    uint64            // index of the first outcome
	resumed  bool              // inside the first path: rows of it came with another call
}

// names gives the rows' names in order, those of the path at index only.
func (l *listed) names(index int) []string {
	names := []string{}
	for _, r := range l.rows {
		if r.Index == uint32(index) {
			names = append(names, r.Name)
		}
	}
	return names
}

// add takes a message in, and checks that rows and outcomes come in order, that no row
// follows its path's outcome and that each outcome counts its path's rows.
func (l *listed) add(t testing.TB, m *listing.Message, columns rows.Columns) {
	t.Helper()
	batch, err := rows.Decode(bytes.Clone(m.Frame), columns.Normal())
	if err != nil {
		t.Fatalf("decode the message's rows: %v", err)
	}
	if len(m.Frame) > rows.MaxFrame {
		t.Errorf("frame of %d bytes", len(m.Frame))
	}
	if l.perPath == nil {
		l.perPath = map[uint32]uint64{}
	}
	open := l.first + uint64(len(l.outcomes)) // paths before it have ended
	for i := range batch.Len() {
		r := row{batch.PathIndex(i), batch.Entry(i)}
		if uint64(r.Index) < open {
			t.Errorf("row %q of path %d after the path's outcome", r.Name, r.Index)
		}
		if n := len(l.rows); n > 0 && l.rows[n-1].Index == r.Index && l.rows[n-1].Name >= r.Name || n > 0 && l.rows[n-1].Index > r.Index {
			t.Errorf("row %d %q after %d %q", r.Index, r.Name, l.rows[n-1].Index, l.rows[n-1].Name)
		}
		l.rows = append(l.rows, r)
		l.perPath[r.Index]++
	}
	for _, o := range m.Outcomes {
		if want := l.first + uint64(len(l.outcomes)); o.Index != want {
			t.Fatalf("outcome of path %d; want that of %d", o.Index, want)
		}
		if n := l.perPath[uint32(o.Index)]; o.Rows != n && (!l.resumed || o.Index != l.first || o.Rows < n) {
			t.Errorf("path %d: outcome says %d rows; there were %d", o.Index, o.Rows, n)
		}
		if (o.Code == muster.OK) != (o.Message == "") {
			t.Errorf("path %d: code %v with message %q", o.Index, o.Code, o.Message)
		}
		l.outcomes = append(l.outcomes, o)
	}
	if m.Done && len(m.Cursor) > 0 {
		t.Errorf("done with a cursor")
	}
	l.messages++
}

// page lists one page and returns it as the test's to keep; nil with an error.
func page(ctx context.Context, l *listing.Lister, caller *muster.Identity, paths []string, o listing.Options, cursor []byte) (*listing.Message, error) {
	var kept *listing.Message
	err := l.Page(ctx, caller, paths, o, cursor, func(m *listing.Message) error {
		own := *m
		own.Frame, own.Outcomes, own.Cursor = slices.Clone(m.Frame), slices.Clone(m.Outcomes), slices.Clone(m.Cursor)
		own.Nodes = slices.Clone(m.Nodes)
		kept = &own
		return nil
	})
	return kept, err
}

// pages lists paths page by page to the end.
func pages(t testing.TB, l *listing.Lister, caller *muster.Identity, paths []string, o listing.Options) *listed {
	t.Helper()
	var got listed
	var cursor []byte
	for {
		m, err := page(context.Background(), l, caller, paths, o, cursor)
		if err != nil {
			t.Fatalf("page %d of %q, %+v: %v", got.messages, paths, o, err)
		}
		before := len(got.rows)
		got.add(t, m, o.Columns)
		if n := len(got.rows) - before; o.Limit > 0 && n > o.Limit {
			t.Errorf("page of %d entries, limit %d", n, o.Limit)
		}
		if m.Done {
			break
		}
		if bytes.Equal(cursor, m.Cursor) {
			t.Fatalf("page %d of %q, %+v: no progress", got.messages, paths, o)
		}
		cursor = m.Cursor
	}
	if len(got.outcomes) != len(paths) {
		t.Errorf("%d outcomes of %d paths", len(got.outcomes), len(paths))
	}
	return &got
}

// feedOf hands out paths in chunks.
func feedOf(paths []string, chunk int) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) {
		if len(paths) == 0 {
			return nil, io.EOF
		}
		n := min(chunk, len(paths))
		part := paths[:n:n]
		paths = paths[n:]
		return part, nil
	}
}

// lockstep hands out paths one by one, each after the outcome of the one before was sent:
// so each has messages of its own. send takes messages on to f.
func lockstep(paths []string, f func(*listing.Message) error) (next func(context.Context) ([]string, error), send func(*listing.Message) error) {
	given := 0
	turn := make(chan struct{}, len(paths)+1)
	turn <- struct{}{}
	next = func(ctx context.Context) ([]string, error) {
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if given == len(paths) {
			return nil, io.EOF
		}
		given++
		return paths[given-1 : given : given], nil
	}
	send = func(m *listing.Message) error {
		err := f(m)
		for range m.Outcomes {
			turn <- struct{}{}
		}
		return err
	}
	return next, send
}

// stream lists paths by one stream, chunk paths at a time.
func stream(t testing.TB, l *listing.Lister, caller *muster.Identity, paths []string, o listing.Options, chunk int) *listed {
	t.Helper()
	got, err := resume(t, l, caller, paths, o, chunk, nil, 0)
	if err != nil {
		t.Fatalf("stream of %q, %+v: %v", paths, o, err)
	}
	return got
}

// resume goes on with a stream: paths are those from the cursor's index on.
func resume(t testing.TB, l *listing.Lister, caller *muster.Identity, paths []string, o listing.Options, chunk int, cursor []byte, index uint64) (*listed, error) {
	t.Helper()
	got := listed{first: index}
	outcomes, done := len(paths), false
	if len(cursor) > 1 && cursor[1] == 2 { // past its path, which comes first
		got.first++
		outcomes--
	} else {
		got.resumed = len(cursor) > 1
	}
	err := l.Stream(context.Background(), caller, o, cursor, feedOf(paths, chunk), func(m *listing.Message) error {
		if done {
			t.Errorf("a message after the last")
		}
		done = m.Done
		got.add(t, m, o.Columns)
		if o.Consistency == muster.ConsistencySnapshot && len(m.Cursor) > 0 {
			t.Errorf("a snapshot stream sent a cursor")
		}
		if m.Done && (m.TotalRows != uint64(len(got.rows)) || m.TotalOutcomes != uint64(len(got.outcomes))) {
			t.Errorf("totals %d rows, %d outcomes; sent %d and %d", m.TotalRows, m.TotalOutcomes, len(got.rows), len(got.outcomes))
		}
		return nil
	})
	if err == nil && (!done || len(got.outcomes) != outcomes) {
		t.Errorf("done %v, %d outcomes of %d paths", done, len(got.outcomes), len(paths))
	}
	return &got, err
}

// both lists by pages and by stream, wants the same of both and returns it.
func both(t testing.TB, l *listing.Lister, caller *muster.Identity, paths []string, o listing.Options) *listed {
	t.Helper()
	p, s := pages(t, l, caller, paths, o), stream(t, l, caller, paths, o, 3)
	sameListing(t, "stream against pages", s, p)
	sameListing(t, "pages once more", pages(t, l, caller, paths, o), p) // now what can be in memory is
	return p
}

func sameListing(t testing.TB, what string, got, want *listed) {
	t.Helper()
	sameList(t, what, "row", got.rows, want.rows)
	sameList(t, what, "outcome", got.outcomes, want.outcomes)
}

// sameList compares two lists and shows the first difference.
func sameList[T any](t testing.TB, what, element string, got, want []T) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%s: %s %d is\n%#v\nwant\n%#v", what, element, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d %ss, want %d", what, len(got), element, len(want))
	}
}

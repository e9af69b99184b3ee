package listing_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// restarted opens the tree of fs anew and gives it to f with a new lister of the same key,
// whose bounds differ with i.
func restarted(t *testing.T, fs vfs.FS, i int, f func(l *listing.Lister)) {
	t.Helper()
	tree, err := namespace.Open("tree", withImages(namespace.Options{FS: fs, Superuser: root.User}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	}()
	l, err := listing.New(tree, listing.Config{Key: bytes.Clone(testKey), Limit: 5 + i, MaxPaths: 10 + i})
	if err != nil {
		t.Fatal(err)
	}
	f(l)
}

// A cursor is good after a restart and on another server of the same cluster key: here
// each page, and each message of a stream, is asked of a newly opened tree and a new lister.
func TestCursorWorksAfterARestartAndOnAnotherServer(t *testing.T) {
	fs := vfs.NewMem()
	w := openWorld(t, fs)
	w.build(filesIn("/a", 7)...)
	w.build(filesIn("/b", 4)...)
	w.build(filesIn("/large", 200)...)
	paths, o := []string{"/a", "/missing", "/b", "/large", "/b"}, listing.Options{Limit: 2}
	want := pages(t, w.lister(listing.Config{}), root, paths, o)
	w.tree.Close()

	t.Run("pages", func(t *testing.T) {
		var got listed
		var cursor []byte
		for i, done := 0, false; !done; i++ {
			restarted(t, fs, i, func(l *listing.Lister) {
				m := onePage(t, l, paths, o, cursor)
				got.add(t, m, 0)
				cursor, done = m.Cursor, m.Done
			})
		}
		sameListing(t, "with restarts", &got, want)
	})
	t.Run("stream", func(t *testing.T) {
		var got listed
		var cursor []byte
		index, inside := uint64(0), 0
		for i, done := 0, false; !done; i++ {
			restarted(t, fs, i, func(l *listing.Lister) {
				err := l.Stream(t.Context(), root, o, cursor, feedOf(paths[index:], 1), func(m *listing.Message) error {
					got.add(t, m, 0)
					cursor, index, done = bytes.Clone(m.Cursor), m.CursorIndex, m.Done
					if done {
						return nil
					}
					return errStop
				})
				if !done && !errors.Is(err, errStop) || done && err != nil {
					t.Fatal(err)
				}
			})
			if !done && index == uint64(len(got.outcomes)) {
				inside++
			}
		}
		sameListing(t, "with restarts", &got, want)
		if inside < 2 {
			t.Errorf("broken %d times inside a path, want 2 or more", inside)
		}
	})
}

// cut lists one page of a call whose cursor is then inside /b, at index 1, and one whose
// cursor is past it.
func cut(t *testing.T) (l *listing.Lister, paths []string, o listing.Options, within, past []byte) {
	w := newWorld(t)
	w.build(filesIn("/a", 2)...)
	w.build(filesIn("/b", 4)...)
	w.build(filesIn("/c/d", 4)...)
	l = w.lister(listing.Config{})
	paths, o = []string{"/a", "/b", "/c/d", "/c"}, listing.Options{Limit: 3}
	within = onePage(t, l, paths, o, nil).Cursor
	past = onePage(t, l, paths, o, within).Cursor
	return l, paths, o, within, past
}

// wantBadCursor wants both kinds of call to fail with INVALID_CURSOR and to send nothing.
// The stream gets the paths from index 1 on, as for the cursors of cut: they are right, so
// that the cursor's content is all that it can be refused for.
func wantBadCursor(t *testing.T, what string, l *listing.Lister, paths []string, o listing.Options, cursor []byte) {
	t.Helper()
	if m, err := page(t.Context(), l, root, paths, o, cursor); !errors.Is(err, muster.ErrCursor) || m != nil {
		t.Errorf("%s: page: %v, %v", what, m, err)
	}
	got, err := resume(t, l, root, paths[1:], o, 2, cursor, 1)
	if !errors.Is(err, muster.ErrCursor) || got.messages != 0 {
		t.Errorf("%s: stream: %d messages, %v", what, got.messages, err)
	}
}

func TestDamagedAndForeignCursorsFailTheWholeCall(t *testing.T) {
	l, paths, o, within, _ := cut(t)
	for bit := range len(within) * 8 {
		damaged := bytes.Clone(within)
		damaged[bit/8] ^= 1 << (bit % 8)
		wantBadCursor(t, fmt.Sprintf("bit %d", bit), l, paths, o, damaged)
	}
	for n := 1; n < len(within); n++ {
		wantBadCursor(t, fmt.Sprintf("%d bytes", n), l, paths, o, within[:n])
	}
	random := rand.NewChaCha8([32]byte{1})
	for n := range 400 {
		noise := make([]byte, n+1)
		random.Read(noise)
		wantBadCursor(t, "random bytes", l, paths, o, noise)
	}

	w := newWorld(t)
	foreign := w.lister(listing.Config{Key: bytes.Repeat([]byte{8}, 32)})
	wantBadCursor(t, "another cluster's", foreign, paths, o, within)
}

func TestCursorOfOtherOptionsFailsTheWholeCall(t *testing.T) {
	l, paths, o, within, _ := cut(t)
	for what, change := range map[string]func(*listing.Options){
		"limit":    func(o *listing.Options) { o.Limit = 4 },
		"columns":  func(o *listing.Options) { o.Columns = rows.ColKind },
		"blocks":   func(o *listing.Options) { o.Columns = rows.AllColumns },
		"hidden":   func(o *listing.Options) { o.Hidden = muster.HiddenSpark },
		"own":      func(o *listing.Options) { o.Own = true },
		"defaults": func(o *listing.Options) { *o = listing.Options{} },
	} {
		other := o
		change(&other)
		wantBadCursor(t, what, l, paths, other, within)
	}
	o.Consistency = muster.ConsistencySnapshot
	if _, err := resume(t, l, root, paths[1:], o, 2, within, 1); !errors.Is(err, muster.ErrCursor) || !strings.Contains(err.Error(), "snapshot") {
		t.Error(err)
	}
}

func TestPageCursorIsBoundToThePathsUpToItsIndex(t *testing.T) {
	l, paths, o, within, past := cut(t)
	bad := map[string][]string{
		"reordered":              {"/b", "/a", "/c/d", "/c"},
		"its own path changed":   {"/a", "/c", "/c/d", "/c"},
		"an earlier one changed": {"/A", "/b", "/c/d", "/c"},
		"an earlier one cleaned": {"/a/", "/b", "/c/d", "/c"},
		"one left out":           {"/b", "/c/d", "/c"},
		"one put in":             {"/a", "/a", "/b", "/c/d", "/c"},
		"moved over a separator": {"/a/", "b", "/c/d", "/c"},
		"joined":                 {"/a/b", "/c/d", "/c"},
		"index too large":        {"/a"},
	}
	for what, other := range bad {
		if m, err := page(t.Context(), l, root, other, o, within); !errors.Is(err, muster.ErrCursor) || m != nil {
			t.Errorf("%s: %v, %v", what, m, err)
		}
		if m, err := page(t.Context(), l, root, other, o, past); !errors.Is(err, muster.ErrCursor) || m != nil {
			t.Errorf("%s, cursor past the path: %v, %v", what, m, err)
		}
	}
	// The paths after the index are free.
	for _, other := range [][]string{paths[:2], {"/a", "/b", "/c"}, {"/a", "/b", "/missing", "/missing", "/x"}} {
		if _, err := page(t.Context(), l, root, other, o, within); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}

func TestResumedStreamIsBoundToItsFirstPath(t *testing.T) {
	l, paths, o, within, _ := cut(t)
	for _, other := range [][]string{paths, paths[2:], {"/b/"}, {""}, {"b"}, nil} {
		got, err := resume(t, l, root, other, o, 10, within, 1)
		if !errors.Is(err, muster.ErrCursor) || got.messages != 0 {
			t.Errorf("%q: %d messages, %v", other, got.messages, err)
		}
	}
	got, err := resume(t, l, root, paths[1:], o, 10, within, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.outcomes[0].Rows != 4 { // rows of the first page count too
		t.Errorf("%+v", got.outcomes[0])
	}
}

// errStop ends a stream where a test wants it.
var errStop = errors.New("stop")

// A stream that breaks after any of its messages goes on from that message's cursor, with
// the paths from the cursor's index on, and gives what an unbroken one gives.
func TestStreamBrokenAfterAnyMessageGoesOnFromItsCursor(t *testing.T) {
	tree := newRandomTree(t, 11, 60)
	tree.build(filesIn("/large", 700)...)
	paths := append([]string{"/large"}, tree.paths()...)
	l := tree.lister(listing.Config{})
	o := listing.Options{Limit: 50, Hidden: muster.HiddenHive}
	want := pages(t, l, root, paths, o)
	for stop := 1; ; stop++ {
		var got listed
		var cursor []byte
		var index uint64
		next, send := lockstep(paths, func(m *listing.Message) error {
			got.add(t, m, 0)
			cursor, index = bytes.Clone(m.Cursor), m.CursorIndex
			if got.messages == stop {
				return errStop
			}
			return nil
		})
		err := l.Stream(t.Context(), root, o, nil, next, send)
		if err == nil { // that was its last message
			if stop < len(paths)+3 {
				t.Errorf("%d messages are too few for this test", stop)
			}
			break
		}
		if !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		if len(cursor) > 0 {
			err = l.Stream(t.Context(), root, o, cursor, feedOf(paths[index:], 4), func(m *listing.Message) error {
				got.add(t, m, 0)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		sameListing(t, fmt.Sprintf("broken after message %d", stop), &got, want)
	}
}

// The last message may be lost: the stream is then resumed with a path that is finished.
func TestStreamResumedAtItsEndIsDone(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f")
	l, paths := w.lister(listing.Config{}), []string{"/d"}
	var cursor []byte
	next, send := lockstep(paths, func(m *listing.Message) error {
		if m.Done {
			return errStop
		}
		cursor = bytes.Clone(m.Cursor)
		return nil
	})
	if err := l.Stream(t.Context(), root, listing.Options{}, nil, next, send); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	messages := 0
	err := l.Stream(t.Context(), root, listing.Options{}, cursor, feedOf(paths, 1), func(m *listing.Message) error {
		messages++
		if !m.Done || m.TotalRows != 0 || m.TotalOutcomes != 0 || len(m.Frame) != 0 || len(m.Outcomes) != 0 {
			t.Errorf("%+v", m)
		}
		return nil
	})
	if err != nil || messages != 1 {
		t.Errorf("%d messages, %v", messages, err)
	}
}

// A stream's cursor is good for a page call of all paths, and the other way round.
func TestPagesGoOnWhereAStreamBroke(t *testing.T) {
	l, paths, o, within, past := cut(t)
	want := pages(t, l, root, paths, o)
	for _, cursor := range [][]byte{within, past} {
		m := onePage(t, l, paths, o, cursor)
		got, err := resume(t, l, root, paths[1:], o, 1, cursor, 1)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := rows.Decode(m.Frame, 0)
		if got.rows[0].Entry.Name != first.Name(0) {
			t.Errorf("the stream goes on at %q, the page at %q", got.rows[0].Name, first.Name(0))
		}
		last := want.rows[len(want.rows)-1]
		if end := got.rows[len(got.rows)-1]; end.Name != last.Name || end.Index != last.Index {
			t.Errorf("ends with %+v, want %+v", end, last)
		}
	}
}

// between lists /d, which has f0 to f4, with a limit of 2, does something between the first
// page and the rest, and gives the names and outcomes of /d and of /after.
func between(t *testing.T, change func(w *world)) *listed {
	t.Helper()
	w := newWorld(t)
	w.build("/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4", "/after/x", "/other/f9")
	l, paths, o := w.lister(listing.Config{}), []string{"/d", "/after"}, listing.Options{Limit: 2}
	var got listed
	m := onePage(t, l, paths, o, nil)
	got.add(t, m, 0)
	change(w)
	cursor := bytes.Clone(m.Cursor)
	for !m.Done {
		m = onePage(t, l, paths, o, m.Cursor)
		got.add(t, m, 0)
	}
	wantOK(t, &got, 1)
	if names := got.names(1); !slices.Equal(names, []string{"x"}) {
		t.Errorf("/after has %q", names)
	}
	s, err := resume(t, l, root, paths, o, 1, cursor, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.outcomes[0] != got.outcomes[0] {
		t.Errorf("the stream's outcome is %+v, the page's %+v", s.outcomes[0], got.outcomes[0])
	}
	return &got
}

func TestDirectoryChangedBetweenPages(t *testing.T) {
	first := []string{"f0", "f1"}
	all := []string{"f0", "f1", "f2", "f3", "f4"}
	deny := uint16(0o700)
	tests := []struct {
		name   string
		change []muster.Command
		code   muster.Code
		names  []string
	}{
		{"deleted", []muster.Command{muster.Delete{Path: "/d", Recursive: true}}, muster.ErrNotFound, first},
		{"renamed", []muster.Command{muster.Rename{From: "/d", To: "/e"}}, muster.ErrNotFound, first},
		{"renamed and back", []muster.Command{muster.Rename{From: "/d", To: "/e"}, muster.Rename{From: "/e", To: "/d"}}, muster.OK, all},
		{"replaced by a directory", []muster.Command{muster.Rename{From: "/d", To: "/e"}, muster.Rename{From: "/other", To: "/d"}}, muster.ErrChanged, first},
		{"replaced by a file", []muster.Command{muster.Delete{Path: "/d", Recursive: true}, command("/d")}, muster.ErrChanged, first},
		{"replaced by a link to a directory", []muster.Command{muster.Rename{From: "/d", To: "/e"}, command("/d -> other")}, muster.ErrChanged, first},
		{"replaced by a link to itself", []muster.Command{muster.Rename{From: "/d", To: "/e"}, command("/d -> e")}, muster.OK, all},
		{"an ancestor became a file", []muster.Command{muster.Delete{Path: "/d", Recursive: true}, command("/d -> after/x/y")}, muster.ErrNotDirectory, first},
		{"the cursor's name deleted", []muster.Command{muster.Delete{Path: "/d/f1"}}, muster.OK, all},
		{"the next name deleted", []muster.Command{muster.Delete{Path: "/d/f2"}}, muster.OK, []string{"f0", "f1", "f3", "f4"}},
		{"all the rest deleted", []muster.Command{muster.Delete{Path: "/d/f2"}, muster.Delete{Path: "/d/f3"}, muster.Delete{Path: "/d/f4"}}, muster.OK, first},
		{"names added before the cursor", []muster.Command{command("/d/a"), command("/d/f0b")}, muster.OK, all},
		{"names added after the cursor", []muster.Command{command("/d/f1b"), command("/d/z")}, muster.OK, []string{"f0", "f1", "f1b", "f2", "f3", "f4", "z"}},
		{"a listed name moved behind the cursor", []muster.Command{muster.Rename{From: "/d/f0", To: "/d/g0"}}, muster.OK, append(slices.Clone(all), "g0")},
		{"mode changed", []muster.Command{muster.SetAttr{Path: "/d", Mode: &deny}}, muster.OK, all},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := between(t, func(w *world) { w.do(test.change...) })
			if test.code == muster.OK {
				wantOK(t, got, 0)
			} else {
				wantFailure(t, got, 0, test.code, `"/d"`)
			}
			if names := got.names(0); !slices.Equal(names, test.names) {
				t.Errorf("%q, want %q", names, test.names)
			}
		})
	}
}

// A cursor binds no user: who goes on must have the rights then.
func TestPermissionsAreCheckedAnewOnEachPage(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/d", 5)...)
	l, paths, o := w.lister(listing.Config{}), []string{"/d"}, listing.Options{Limit: 2}
	cursor := onePage(t, l, paths, o, nil).Cursor
	mode := uint16(0o700)
	w.do(muster.SetAttr{Path: "/d", Mode: &mode})
	m, err := page(t.Context(), l, alice, paths, o, cursor)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Frame) != 0 || len(m.Outcomes) != 1 || m.Outcomes[0].Code != muster.ErrPermission || m.Outcomes[0].Rows != 2 {
		t.Errorf("%+v", m)
	}
}

// A path that a page did not get to is not pinned: what it names when its turn comes is
// what is listed.
func TestPathThatNothingWasTakenFromMayBeReplaced(t *testing.T) {
	w := newWorld(t)
	w.build("/a/f", "/b", "/other/g")
	l, paths := w.lister(listing.Config{PageBytes: 1}), []string{"/a", "/b"}
	var got listed
	m := onePage(t, l, paths, listing.Options{}, nil)
	got.add(t, m, 0)
	for !m.Done {
		w.do(muster.Delete{Path: "/b", Recursive: true}, command("/b/"), command(fmt.Sprintf("/b/file%d", got.messages)))
		m = onePage(t, l, paths, listing.Options{}, m.Cursor)
		got.add(t, m, 0)
		if len(got.rows) > 1 {
			break
		}
	}
	if len(got.rows) != 2 || got.outcomes[0].Code != muster.OK {
		t.Errorf("%+v", got)
	}
}

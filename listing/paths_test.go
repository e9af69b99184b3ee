package listing_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
)

func TestEachBadPathFailsForItselfAlone(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f", "/file", "/dangling -> nowhere", "/loop -> /loop", "/tofile -> file", "/todir -> d")
	long := "/" + strings.Repeat("n", 256)
	tests := []struct {
		path  string
		code  muster.Code
		words []string
	}{
		{"", muster.ErrInvalid, []string{`""`, "empty"}},
		{"d/f", muster.ErrInvalid, []string{`"d/f"`, "relative"}},
		{"/d/\x00", muster.ErrInvalid, []string{"NUL"}},
		{"/d/\xff", muster.ErrInvalid, []string{`"/d/\xff"`, "UTF-8"}},
		{"/d/./f", muster.ErrInvalid, []string{`"/d/./f"`, `"."`}},
		{"/d/../f", muster.ErrInvalid, []string{`"/d/../f"`, `".."`}},
		{long, muster.ErrInvalid, []string{"256", "255"}},
		{strings.Repeat("/a", 4001), muster.ErrInvalid, []string{"8002", "8000"}},
		{strings.Repeat("/a", 1001), muster.ErrInvalid, []string{"1001", "1000"}},
		{"/missing", muster.ErrNotFound, []string{`"/missing"`, "no such file"}},
		{"/d/missing/below", muster.ErrNotFound, []string{`"/d/missing/below"`}},
		{"/file/below", muster.ErrNotDirectory, []string{`"/file/below"`, "not a directory"}},
		{"/tofile/below", muster.ErrNotDirectory, []string{`"/tofile/below"`}},
		{"/dangling", muster.ErrNotFound, []string{`"/dangling"`}},
		{"/loop", muster.ErrLinkLoop, []string{`"/loop"`, "symbolic links"}},
		{"/loop/x", muster.ErrLinkLoop, []string{`"/loop/x"`}},
	}
	l := w.lister(listing.Config{})
	var paths []string
	for _, test := range tests {
		paths = append(paths, "/d", test.path)
	}
	got := both(t, l, root, append(paths, "/d"), listing.Options{})
	for i, test := range tests {
		wantFailure(t, got, 2*i+1, test.code, test.words...)
	}
	for i := 0; i < len(got.outcomes); i += 2 {
		wantOK(t, got, i)
		if names := got.names(i); !slices.Equal(names, []string{"f"}) {
			t.Errorf("path %d has %q", i, names)
		}
	}
	if len(got.rows) != len(tests)+1 {
		t.Errorf("%d rows", len(got.rows))
	}
}

func TestPathsAtTheirBoundsAreListed(t *testing.T) {
	w := newWorld(t)
	name, deep := "/"+strings.Repeat("n", 255), strings.Repeat("/a", 1000)
	w.build(name+"/f", deep+"/")
	got := both(t, w.lister(listing.Config{}), root, []string{name, deep, strings.Repeat("/", 8000)}, listing.Options{})
	for i, want := range []int{1, 0, 2} {
		wantOK(t, got, i)
		if n := len(got.names(i)); n != want {
			t.Errorf("path %d has %d rows", i, n)
		}
	}
}

func TestSlashesCollapseAndTheRootIsListed(t *testing.T) {
	w := newWorld(t)
	w.build("/d/e/f")
	got := both(t, w.lister(listing.Config{}), root, []string{"/", "//", "/d/e", "/d/e/", "//d///e//"}, listing.Options{})
	for i, want := range []string{"d", "d", "f", "f", "f"} {
		wantOK(t, got, i)
		if names := got.names(i); !slices.Equal(names, []string{want}) {
			t.Errorf("path %d has %q", i, names)
		}
	}
}

// Names are names: nothing in them is parsed, and dot names of upstream mean nothing.
func TestNamesAreNeverParsed(t *testing.T) {
	w := newWorld(t)
	dirs := []string{"/%2F", "/a:b", "/ds=1 2", "/new\nline", "/.snapshot", "/.reserved", "/.reserved/raw", "/ü", "/\u0080"}
	for _, dir := range dirs {
		w.build(dir + "/f")
	}
	got := both(t, w.lister(listing.Config{}), root, dirs, listing.Options{})
	for i := range dirs {
		wantOK(t, got, i)
		if names := got.names(i); !slices.Contains(names, "f") {
			t.Errorf("%q has %q", dirs[i], names)
		}
	}
}

// Plain byte order, whatever the limit cuts between: bytes of 0x80 and more come last.
func TestNamesOfHighBytesAroundAPageBorder(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "z", "~", "\u0080", "\u00e9", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff"}
	for _, name := range names {
		w.build("/d/" + name)
	}
	if !slices.IsSorted(names) {
		t.Fatal("the test's names are not in byte order")
	}
	for limit := 1; limit <= len(names)+1; limit++ {
		got := both(t, w.lister(listing.Config{}), root, []string{"/d"}, listing.Options{Limit: limit})
		if got := got.names(0); !slices.Equal(got, names) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}

func TestLinksAreFollowedInLastPlaceAndOnTheWayButNotAmongChildren(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f", "/d/sub/g", "/file", "/todir -> d", "/d/tosub -> sub", "/d/tofile -> ../file", "/d/dangling -> gone")
	l := w.lister(listing.Config{})
	paths := []string{"/todir", "/todir/tosub", "/d/tofile"}
	got := both(t, l, root, paths, listing.Options{})
	if names := got.names(0); !slices.Equal(names, []string{"dangling", "f", "sub", "tofile", "tosub"}) {
		t.Error(names)
	}
	if names := got.names(1); !slices.Equal(names, []string{"g"}) {
		t.Error(names)
	}
	last := got.rows[len(got.rows)-1]
	if last.Index != 2 || last.Kind != muster.File || last.Name != "" {
		t.Errorf("a link to a file gave %+v", last)
	}
	if dangling := got.rows[0]; dangling.Kind != muster.Link || dangling.Target != "gone" {
		t.Errorf("a dangling child is %+v", dangling)
	}
}

func TestOwnEntriesOfPathsDoNotFollowLinks(t *testing.T) {
	w := newWorld(t)
	w.build("/d/f", "/file", "/todir -> d", "/dangling -> gone")
	paths := []string{"/d", "/file", "/todir", "/dangling", "/todir/f", "/", "/missing"}
	got := both(t, w.lister(listing.Config{}), root, paths, listing.Options{Own: true, Limit: 2})
	kinds := []muster.Kind{muster.Directory, muster.File, muster.Link, muster.Link, muster.File, muster.Directory}
	if len(got.rows) != len(kinds) {
		t.Fatalf("%+v", got.rows)
	}
	for i, r := range got.rows {
		wantOK(t, got, i)
		if int(r.Index) != i || r.Kind != kinds[i] || r.Name != "" {
			t.Errorf("%q is %+v", paths[i], r)
		}
	}
	wantFailure(t, got, 6, muster.ErrNotFound, `"/missing"`)
	for i, o := range got.outcomes {
		if isDir := i == 0 || i == 5; (o.ChangedAt != 0) != isDir {
			t.Errorf("%q: changed at %d", paths[i], o.ChangedAt)
		}
	}
}

func TestDeniedPathsInTheMiddleOfACall(t *testing.T) {
	w := newWorld(t)
	w.build("/open/f", "/closed/dir/f", "/noread/f", "/noexec/f")
	for path, mode := range map[string]uint16{"/closed": 0o700, "/noread": 0o711, "/noexec": 0o744} {
		w.do(muster.SetAttr{Path: path, Mode: &mode})
	}
	l := w.lister(listing.Config{})
	paths := []string{"/open", "/closed", "/closed/dir", "/noread", "/noread/f", "/noexec", "/noexec/f", "/closed/missing", "/open"}
	got := both(t, l, alice, paths, listing.Options{})
	for i, denial := range []string{
		"", "read and execute on /closed", "execute on /closed", "read and execute on /noread", "",
		"read and execute on /noexec", "execute on /noexec", "execute on /closed", "",
	} {
		if denial == "" {
			wantOK(t, got, i)
			continue
		}
		wantFailure(t, got, i, muster.ErrPermission, strconv.Quote(paths[i]), "permission denied", `user "alice" needs `+denial, "(root:supergroup drwx")
	}
	if len(got.rows) != 3 {
		t.Errorf("%+v", got.rows)
	}
	// The own entry of a path needs no right but to get there.
	own := both(t, l, alice, paths, listing.Options{Own: true})
	for i, denied := range []bool{false, false, true, false, false, false, true, true, false} {
		if (own.outcomes[i].Code == muster.ErrPermission) != denied {
			t.Errorf("%q: %+v", paths[i], own.outcomes[i])
		}
	}
	super := both(t, l, &muster.Identity{User: "x", Groups: []string{muster.Supergroup}}, paths[:7], listing.Options{})
	for i := range super.outcomes {
		wantOK(t, super, i)
	}
}

// An outcome's changed_at is the txid of the last change to a directory's children, and
// its txid that of the view: a cache knows from them whether what it holds is current.
func TestOutcomesTellWhenADirectoryChanged(t *testing.T) {
	w := newWorld(t)
	w.build("/d/", "/d/sub/", "/other/")
	l := w.lister(listing.Config{})
	changedAt := func() (uint64, uint64) {
		o := both(t, l, root, []string{"/d"}, listing.Options{}).outcomes[0]
		return o.ChangedAt, o.Txid
	}
	before, _ := changedAt()
	w.build("/other/f", "/d/sub/f")
	if after, txid := changedAt(); after != before || txid <= before {
		t.Errorf("changes elsewhere: %d -> %d at %d", before, after, txid)
	}
	w.build("/d/f")
	after, txid := changedAt()
	if after <= before || after != txid {
		t.Errorf("a new child: %d -> %d at %d", before, after, txid)
	}
	mode := uint16(0o600)
	w.do(muster.SetAttr{Path: "/d/f", Mode: &mode})
	if again, _ := changedAt(); again <= after {
		t.Errorf("a child's new mode: %d -> %d", after, again)
	}
}

// Every failure is either the path's or the call's: one that is not in the list of path
// failures must never be reported as a path's.
func TestClosedTreeFailsTheWholeCall(t *testing.T) {
	w := newWorld(t)
	l := w.lister(listing.Config{})
	if err := w.tree.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := page(t.Context(), l, root, []string{"/"}, listing.Options{}, nil)
	if !errors.Is(err, muster.ErrUnavailable) {
		t.Error(err)
	}
	for _, c := range []muster.Consistency{muster.ConsistencyPage, muster.ConsistencySnapshot} {
		if _, err := resume(t, l, root, []string{"/"}, listing.Options{Consistency: c}, 1, nil, 0); !errors.Is(err, muster.ErrUnavailable) {
			t.Error(err)
		}
	}
}

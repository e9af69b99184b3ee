package listing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// filesIn names n files of a directory.
func filesIn(dir string, n int) []string {
	files := make([]string, n)
	for i := range files {
		files[i] = fmt.Sprintf("%s/f%05d", dir, i)
	}
	return files
}

// onePage lists the first page after cursor.
func onePage(t testing.TB, l *listing.Lister, paths []string, o listing.Options, cursor []byte) *listing.Message {
	t.Helper()
	m, err := page(t.Context(), l, root, paths, o, cursor)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rowsOf(t testing.TB, m *listing.Message, c rows.Columns) int {
	t.Helper()
	b, err := rows.Decode(m.Frame, c.Normal())
	if err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestPageNeverHoldsMoreThanItsLimit(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/a", 6)...)
	w.build(filesIn("/b", 7)...)
	l := w.lister(listing.Config{})
	// Upstream would return 13: it tests the limit of 7 after each whole directory.
	if n := rowsOf(t, onePage(t, l, []string{"/a", "/b"}, listing.Options{Limit: 7}, nil), 0); n != 7 {
		t.Errorf("%d rows", n)
	}
}

func TestLimitReachedExactlyAtAnEndWastesNoPage(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/a", 5)...)
	w.build(filesIn("/b", 5)...)
	w.build("/file", "/empty/")
	l := w.lister(listing.Config{})
	tests := []struct {
		name     string
		paths    []string
		limit    int
		messages int
		first    int // outcomes of the first page
	}{
		{"of a directory", []string{"/a", "/b"}, 5, 2, 1},
		{"of the last directory", []string{"/a", "/b"}, 10, 1, 2},
		{"of a file", []string{"/file", "/a"}, 1, 6, 1},
		{"of the last path, a file", []string{"/a", "/file"}, 6, 1, 2},
		{"of a directory before an empty one", []string{"/a", "/empty"}, 5, 2, 1},
		{"one short of the end", []string{"/a"}, 4, 2, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := listing.Options{Limit: test.limit}
			if n := len(onePage(t, l, test.paths, o, nil).Outcomes); n != test.first {
				t.Errorf("%d outcomes on the first page, want %d", n, test.first)
			}
			got := both(t, l, root, test.paths, o)
			if got.messages != test.messages {
				t.Errorf("%d pages, want %d", got.messages, test.messages)
			}
		})
	}
}

func TestPathCountAtItsBoundAndOverIt(t *testing.T) {
	w := newWorld(t)
	l := w.lister(listing.Config{MaxPaths: 3})
	paths := []string{"/", "/", "/", "/"}
	if _, err := page(t.Context(), l, root, paths[:3], listing.Options{}, nil); err != nil {
		t.Error(err)
	}
	_, err := page(t.Context(), l, root, paths, listing.Options{}, nil)
	if !errors.Is(err, muster.ErrLimit) || !strings.Contains(err.Error(), "4, at most 3") {
		t.Error(err)
	}
}

func TestPageEndsAfterAThousandPaths(t *testing.T) {
	w := newWorld(t)
	l := w.lister(listing.Config{MaxPaths: 5000})
	paths := slices.Repeat([]string{"/"}, 2500)
	if n := len(onePage(t, l, paths, listing.Options{}, nil).Outcomes); n != 1000 {
		t.Errorf("%d outcomes", n)
	}
	if got := both(t, l, root, paths, listing.Options{}); got.messages != 3 {
		t.Errorf("%d pages", got.messages)
	}
}

func TestPageOfHiddenNamesEndsAndMakesProgress(t *testing.T) {
	w := newWorld(t)
	var hidden []string
	for i := range 95 {
		hidden = append(hidden, fmt.Sprintf("/d/.h%03d", i))
	}
	w.build(hidden...)
	w.build("/d/seen", "/e/.hidden")
	l := w.lister(listing.Config{})
	o := listing.Options{Limit: 2, Hidden: muster.HiddenHive}
	paths := []string{"/d", "/e"}

	first := onePage(t, l, paths, o, nil)
	if n := rowsOf(t, first, 0); n != 0 || len(first.Outcomes) != 0 || first.Done {
		t.Errorf("first page: %d rows, outcomes %v", n, first.Outcomes)
	}
	got := both(t, l, root, paths, o)
	if names := got.names(0); !slices.Equal(names, []string{"seen"}) {
		t.Error(names)
	}
	if got.messages != 5 { // 96 + 1 names by 20
		t.Errorf("%d pages", got.messages)
	}
	if got := both(t, l, root, []string{"/e/.hidden"}, o); len(got.rows) != 1 {
		t.Errorf("a given path was hidden")
	}
	o.Own = true
	if got := both(t, l, root, []string{"/e/.hidden", "/d/.h001"}, o); len(got.rows) != 2 {
		t.Errorf("a given path was hidden")
	}
}

// The byte budget is an upper bound of a page; only its first row may be larger.
func TestByteBudgetHoldsForRowsOfManyBlocks(t *testing.T) {
	w := newWorld(t)
	blocks := make([]muster.Block, muster.MaxBlocks)
	for i := range blocks {
		blocks[i] = muster.Block{Container: uint64(i), LocalID: uint64(i), Length: 1}
	}
	var paths []string
	for i := range 8 {
		c := muster.Create{Path: fmt.Sprintf("/big/%d", i), Parents: true, Length: muster.MaxBlocks, Replication: muster.Replicated(1), BlockSize: 1, Blocks: blocks}
		w.do(c)
		paths = append(paths, c.Path)
	}
	o := listing.Options{Columns: rows.AllColumns}
	for _, budget := range []int{1, 0} {
		l := w.lister(listing.Config{PageBytes: budget})
		for _, paths := range [][]string{{"/big"}, paths} {
			err := l.Stream(t.Context(), root, o, nil, feedOf(paths, 100), func(m *listing.Message) error {
				if len(m.Frame) > 1<<20-64<<10 {
					t.Errorf("frame of %d bytes", len(m.Frame))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got := both(t, l, root, paths, o)
			for _, r := range got.rows {
				if len(r.Blocks) != muster.MaxBlocks {
					t.Errorf("%q has %d blocks", r.Name, len(r.Blocks))
				}
			}
			if len(got.rows) != 8 {
				t.Errorf("%d rows", len(got.rows))
			}
		}
	}
	m := onePage(t, w.lister(listing.Config{PageBytes: 100}), paths, o, nil)
	if n := rowsOf(t, m, o.Columns); n != 1 {
		t.Errorf("%d rows on a page of 100 bytes", n)
	}
}

// Failures carry text, so they count as bytes: long paths cannot blow up a message.
func TestByteBudgetHoldsForFailures(t *testing.T) {
	w := newWorld(t)
	l := w.lister(listing.Config{PageBytes: 64 << 10})
	var paths []string
	for i := range 300 {
		paths = append(paths, fmt.Sprintf("/%s/%d", strings.Repeat("\u0080/", 2000), i))
	}
	size := func(m *listing.Message) (n int) {
		for _, o := range m.Outcomes {
			n += len(o.Message)
		}
		return n
	}
	m := onePage(t, l, paths, listing.Options{}, nil)
	if n := size(m); n > 66<<10 || m.Done {
		t.Errorf("%d bytes of messages, done %v", n, m.Done)
	}
	err := l.Stream(t.Context(), root, listing.Options{}, nil, feedOf(paths, 1000), func(m *listing.Message) error {
		if n := size(m); n > 512<<10 {
			t.Errorf("%d bytes of messages", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	both(t, l, root, paths, listing.Options{})
}

func TestLimitsAreClampedAndDefaulted(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/d", 30)...)
	l := w.lister(listing.Config{Limit: 10, MaxLimit: 20})
	for limit, want := range map[int]int{-1: 10, 0: 10, 1: 1, 20: 20, 21: 20, 1 << 30: 20} {
		if n := rowsOf(t, onePage(t, l, []string{"/d"}, listing.Options{Limit: limit}, nil), 0); n != want {
			t.Errorf("limit %d: %d rows, want %d", limit, n, want)
		}
	}
	if c := l.Config(); c.Limit != 10 || c.MaxLimit != 20 || c.MaxPaths != 1000 || c.PageBytes != 512<<10 || c.SnapshotAge != 5*time.Minute || c.Key != nil {
		t.Errorf("%+v", c)
	}
}

func TestBadConfigurationsNameValueAndBound(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		config listing.Config
		words  []string
	}{
		{listing.Config{MaxPaths: -1}, []string{"max paths -1", "1 to"}},
		{listing.Config{MaxPaths: 2_000_000}, []string{"max paths 2000000", "1000000"}},
		{listing.Config{Limit: -3}, []string{"limit -3", "10000"}},
		{listing.Config{Limit: 11, MaxLimit: 10}, []string{"limit 11", "10"}},
		{listing.Config{MaxLimit: 1_000_000}, []string{"max limit 1000000", "100000"}},
		{listing.Config{PageBytes: 1 << 20}, []string{"page bytes 1048576", "524288"}},
		{listing.Config{SnapshotAge: -time.Second}, []string{"snapshot age -1s", "1h"}},
		{listing.Config{SnapshotAge: 2 * time.Hour}, []string{"snapshot age 2h", "1h"}},
		{listing.Config{Key: []byte("short")}, []string{"5 bytes", "32"}},
		{listing.Config{}, []string{"0 bytes", "32"}},
	}
	for _, test := range tests {
		if test.config.Key == nil && test.words[0] != "0 bytes" {
			test.config.Key = testKey
		}
		_, err := listing.New(w.tree, test.config)
		if !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", test.config, err)
			continue
		}
		for _, word := range test.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
}

func TestBadOptionsFailTheWholeCallAndNameTheValue(t *testing.T) {
	w := newWorld(t)
	l := w.lister(listing.Config{})
	tests := []struct {
		options listing.Options
		words   []string
	}{
		{listing.Options{Columns: 1 << 20}, []string{"column"}},
		{listing.Options{Hidden: 3}, []string{"hidden preset 3", "spark"}},
		{listing.Options{Consistency: 2}, []string{"consistency 2", "snapshot"}},
	}
	for _, test := range tests {
		_, err := page(t.Context(), l, root, []string{"/"}, test.options, nil)
		_, streamErr := resume(t, l, root, []string{"/"}, test.options, 1, nil, 0)
		for _, err := range []error{err, streamErr} {
			if !errors.Is(err, muster.ErrInvalid) {
				t.Fatalf("%+v: %v", test.options, err)
			}
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		}
	}
	_, err := page(t.Context(), l, root, []string{"/"}, listing.Options{Consistency: muster.ConsistencySnapshot}, nil)
	if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), "streams") {
		t.Errorf("a snapshot page: %v", err)
	}
}

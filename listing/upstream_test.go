package listing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// upstreamTree is the fixture of HDFS-13616's own tests: two directories of three
// directories of five empty files, with a limit of 7 entries and of 30 paths.
func upstreamTree(t testing.TB) (l *listing.Lister, dirs, files []string) {
	w := newWorld(t)
	for d := range 2 {
		for s := range 3 {
			dir := fmt.Sprintf("/dir%d/subdir%d", d, s)
			dirs = append(dirs, dir)
			for f := range 5 {
				files = append(files, fmt.Sprintf("%s/file%d", dir, f))
			}
		}
	}
	w.build(files...)
	w.build("/emptydir/", "/noperms/nopermsfile")
	mode := uint16(0)
	w.do(
		muster.SetAttr{Path: "/noperms", Mode: &mode},
		muster.Create{
			Path: "/datafile", Mode: 0o644, Length: 1, Replication: muster.Replicated(1), BlockSize: 1 << 20,
			Blocks: []muster.Block{{Container: 11, LocalID: 12, Length: 1}},
		},
	)
	return w.lister(listing.Config{Limit: 7, MaxPaths: 30}), dirs, files
}

var fiveFiles = []string{"file0", "file1", "file2", "file3", "file4"}

// wantChildren wants each path to be ok with exactly the five files, in order.
func wantChildren(t *testing.T, got *listed, paths []string) {
	t.Helper()
	for i := range paths {
		wantOK(t, got, i)
		if names := got.names(i); !slices.Equal(names, fiveFiles) {
			t.Errorf("path %d has %q", i, names)
		}
	}
}

func wantOK(t *testing.T, got *listed, index int) {
	t.Helper()
	if o := got.outcomes[index]; o.Code != muster.OK {
		t.Errorf("path %d: %v: %s", index, o.Code, o.Message)
	}
}

// wantFailure wants a path's outcome to carry the code and all the words.
func wantFailure(t *testing.T, got *listed, index int, code muster.Code, words ...string) {
	t.Helper()
	o := got.outcomes[index]
	if o.Code != code {
		t.Errorf("path %d: %s %q; want %s", index, o.Code.Name(), o.Message, code.Name())
	}
	for _, word := range words {
		if !strings.Contains(o.Message, word) {
			t.Errorf("path %d: %q does not say %q", index, o.Message, word)
		}
	}
}

// wantFilesAlone wants each path to be a file, listed by one entry without a name.
func wantFilesAlone(t *testing.T, got *listed, paths []string) {
	t.Helper()
	if len(got.rows) != len(paths) {
		t.Fatalf("%d rows of %d files", len(got.rows), len(paths))
	}
	for i, r := range got.rows {
		wantOK(t, got, i)
		if int(r.Index) != i || r.Name != "" || r.Kind != muster.File {
			t.Errorf("row %d is %+v", i, r)
		}
	}
}

// The 20 cases of TestBatchedListDirectories, in its order. Cases 1 and 6 to 8 are about
// upstream's client; here they say what the service does.
func TestUpstreamCases(t *testing.T) {
	l, dirs, files := upstreamTree(t)
	list := func(t *testing.T, paths ...string) *listed {
		t.Helper()
		return both(t, l, alice, paths, listing.Options{})
	}

	t.Run("01 no paths", func(t *testing.T) {
		_, err := page(t.Context(), l, alice, nil, listing.Options{}, nil)
		if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), "no paths") {
			t.Error(err)
		}
		if _, err := resume(t, l, alice, nil, listing.Options{}, 1, nil, 0); !errors.Is(err, muster.ErrInvalid) {
			t.Error(err)
		}
	})
	t.Run("02 empty directory", func(t *testing.T) {
		got := list(t, "/emptydir")
		wantOK(t, got, 0)
		if len(got.rows) != 0 {
			t.Error(got.rows)
		}
	})
	t.Run("03 one file", func(t *testing.T) { wantFilesAlone(t, list(t, files[0]), files[:1]) })
	t.Run("04 missing", func(t *testing.T) {
		wantFailure(t, list(t, "/does/not/exist"), 0, muster.ErrNotFound, `"/does/not/exist"`)
	})
	t.Run("05 some are missing", func(t *testing.T) {
		got := list(t, "/missing0", dirs[0], dirs[1], "/missing1", dirs[2], dirs[3], "/missing2")
		for n, i := range []int{0, 3, 6} {
			wantFailure(t, got, i, muster.ErrNotFound, fmt.Sprintf(`"/missing%d"`, n))
		}
		for _, i := range []int{1, 2, 4, 5} {
			wantOK(t, got, i)
			if names := got.names(i); !slices.Equal(names, fiveFiles) {
				t.Error(names)
			}
		}
	})
	t.Run("06 relative directory", func(t *testing.T) {
		got := list(t, ".", "/dir0")
		wantFailure(t, got, 0, muster.ErrInvalid, `"."`, "relative")
		if names := got.names(1); !slices.Equal(names, []string{"subdir0", "subdir1", "subdir2"}) {
			t.Error(names)
		}
	})
	t.Run("07 relative path of files", func(t *testing.T) {
		got := list(t, "subdir0", "/dir0/subdir0")
		wantFailure(t, got, 0, muster.ErrInvalid, `"subdir0"`, "relative")
		if names := got.names(1); !slices.Equal(names, fiveFiles) {
			t.Error(names)
		}
	})
	t.Run("08 the root can be listed", func(t *testing.T) {
		if names := list(t, "/").names(0); !slices.Equal(names, []string{"datafile", "dir0", "dir1", "emptydir", "noperms"}) {
			t.Error(names)
		}
	})
	t.Run("09 one file of many", func(t *testing.T) { wantFilesAlone(t, list(t, files[17]), files[17:18]) })
	t.Run("10 fifteen files", func(t *testing.T) { wantFilesAlone(t, list(t, files[:15]...), files[:15]) })
	t.Run("11 thirty files", func(t *testing.T) { wantFilesAlone(t, list(t, files...), files) })
	t.Run("12 one directory", func(t *testing.T) { wantChildren(t, list(t, dirs[:1]...), dirs[:1]) })
	t.Run("13 three directories", func(t *testing.T) { wantChildren(t, list(t, dirs[:3]...), dirs[:3]) })
	t.Run("14 six directories", func(t *testing.T) {
		got := list(t, dirs...)
		wantChildren(t, got, dirs)
		if got.messages != 5 { // 30 entries by 7: no page is over the limit, no page is wasted
			t.Errorf("%d pages", got.messages)
		}
	})
	t.Run("15 too many paths", func(t *testing.T) {
		tooMany := append(slices.Clone(files), "/dir0")
		_, err := page(t.Context(), l, alice, tooMany, listing.Options{}, nil)
		if !errors.Is(err, muster.ErrLimit) || !strings.Contains(err.Error(), "too many paths: 31, at most 30") {
			t.Error(err)
		}
		if got := stream(t, l, alice, tooMany, listing.Options{}, 31); len(got.rows) != 33 { // a stream takes any number
			t.Errorf("%d rows", len(got.rows))
		}
	})
	t.Run("16 empty directories and a file", func(t *testing.T) {
		got := list(t, "/emptydir", files[0], "/emptydir")
		for i, want := range []int{0, 1, 0} {
			wantOK(t, got, i)
			if n := len(got.names(i)); n != want {
				t.Errorf("path %d has %d rows", i, n)
			}
		}
	})
	t.Run("17 the same paths twice", func(t *testing.T) {
		got := list(t, dirs[0], dirs[0], files[0], files[0])
		wantChildren(t, got, []string{dirs[0], dirs[0]})
		if len(got.rows) != 12 {
			t.Errorf("%d rows", len(got.rows))
		}
	})
	t.Run("18 blocks of a file", func(t *testing.T) {
		got := both(t, l, alice, []string{"/datafile"}, listing.Options{Columns: rows.AllColumns})
		want := []muster.Block{{Container: 11, LocalID: 12, Length: 1}}
		if len(got.rows) != 1 || !slices.Equal(got.rows[0].Blocks, want) {
			t.Error(got.rows)
		}
	})
	t.Run("19 inaccessible directory", func(t *testing.T) {
		wantFailure(t, list(t, "/noperms"), 0, muster.ErrPermission, `"/noperms"`, `"alice" needs read and execute on /noperms (root:supergroup d---------)`)
		wantOK(t, both(t, l, root, []string{"/noperms"}, listing.Options{}), 0)
	})
	t.Run("20 inaccessible file", func(t *testing.T) {
		wantFailure(t, list(t, "/noperms/nopermsfile"), 0, muster.ErrPermission, `"/noperms/nopermsfile"`, `"alice" needs execute on /noperms (root:supergroup d---------)`)
	})
}

package listing_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// damage closes the tree, truncates the value of each stored key that pick wants, and opens it again.
func damage(t *testing.T, fs vfs.FS, w *world, pick func(key []byte) bool) *world {
	t.Helper()
	if err := w.tree.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open(fs.PathJoin("tree", "store"), &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	iter, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for iter.First(); iter.Valid(); iter.Next() {
		if pick(iter.Key()) {
			if err := db.Set(iter.Key(), iter.Value()[:len(iter.Value())/2], pebble.Sync); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if damaged == 0 {
		t.Fatal("nothing to damage")
	}
	return openWorld(t, fs)
}

func TestDamagedRowMakesItsDirectoryCorruptAndNoOther(t *testing.T) {
	fs := vfs.NewMem()
	w := openWorld(t, fs)
	w.build("/a/f", "/d/f0", "/d/f1-broken", "/d/f2", "/z/f")
	w = damage(t, fs, w, func(key []byte) bool { return bytes.Contains(key, []byte("-broken")) })
	l := w.lister(listing.Config{})
	for _, limit := range []int{1, 2, 100} {
		got := both(t, l, root, []string{"/a", "/d", "/d/f1-broken", "/z"}, listing.Options{Limit: limit})
		wantOK(t, got, 0)
		wantOK(t, got, 3)
		wantFailure(t, got, 1, muster.ErrCorrupt, `"/d"`)
		wantFailure(t, got, 2, muster.ErrCorrupt, `"/d/f1-broken"`)
		if names := got.names(1); len(names) != 1 || names[0] != "f0" {
			t.Errorf("rows before the damage: %q", names)
		}
	}
}

// A directory's time and changed_at are in a record of its own, read at the end of a page:
// what needs a damaged one is corrupt, on whichever page, and nothing else is.
func TestDamagedRecordMakesWhatNeedsItCorruptAndNothingElse(t *testing.T) {
	fs := vfs.NewMem()
	w := openWorld(t, fs)
	w.build("/a/f", "/a/dir/", "/d/f0", "/d/f2", "/z/f")
	id := w.do(muster.Mkdir{Path: "/d/f1"})[0]
	w = damage(t, fs, w, func(key []byte) bool {
		return bytes.Equal(key, binary.BigEndian.AppendUint64([]byte{'i'}, id))
	})
	l, paths := w.lister(listing.Config{}), []string{"/a", "/d", "/d/f1", "/d", "/z"}
	for _, limit := range []int{1, 2, 3, 4, 100} {
		got := both(t, l, root, paths, listing.Options{Limit: limit})
		wantOK(t, got, 0)
		wantOK(t, got, 4)
		for i := 1; i <= 3; i++ {
			wantFailure(t, got, i, muster.ErrCorrupt, `"`+paths[i]+`"`)
		}
		untimed := both(t, l, root, paths, listing.Options{Limit: limit, Columns: rows.ColKind})
		for i, failed := range []bool{false, false, true, false, false} {
			if (untimed.outcomes[i].Code == muster.ErrCorrupt) != failed {
				t.Errorf("without times: %+v", untimed.outcomes[i])
			}
		}
		if names := untimed.names(1); !slices.Equal(names, []string{"f0", "f1", "f2"}) {
			t.Errorf("without times: %q", names)
		}
	}
}

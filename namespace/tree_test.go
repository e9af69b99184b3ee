package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

var root = muster.Identity{User: "root"}

// openMem opens a tree in memory whose superuser is root.
func openMem(t testing.TB, o Options) *Tree {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	o.Superuser = "root"
	tree, err := Open("tree", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

func tryAs(t testing.TB, tree *Tree, who muster.Identity, commands ...muster.Command) (muster.Applied, error) {
	return tree.Apply(context.Background(), Request{Caller: who, Commands: commands})
}

func tryApply(t testing.TB, tree *Tree, commands ...muster.Command) (muster.Applied, error) {
	return tryAs(t, tree, root, commands...)
}

func mustApply(t testing.TB, tree *Tree, commands ...muster.Command) muster.Applied {
	t.Helper()
	applied, err := tryApply(t, tree, commands...)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// reading calls read with a reader of the newest view.
func reading(t testing.TB, tree *Tree, who muster.Identity, read func(r *Reader)) {
	t.Helper()
	v, err := tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	r := v.NewReader(&who)
	defer r.Close()
	read(r)
}

// names lists a directory by its names.
func names(t testing.TB, tree *Tree, path string) []string {
	t.Helper()
	names, err := tryNames(tree, path)
	if err != nil {
		t.Fatalf("list %s: %v", path, err)
	}
	return names
}

func tryNames(tree *Tree, path string) (names []string, err error) {
	v, err := tree.View()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	r := v.NewReader(&root)
	defer r.Close()
	res, err := r.Resolve(path, true)
	if err == nil {
		err = r.Scan(&res, "", false)
	}
	var row muster.Row
	for err == nil && r.Next(&row) {
		names = append(names, string(row.Name))
	}
	return names, errors.Join(err, r.Err())
}

// stat returns the own entry of a path, links followed.
func stat(t testing.TB, tree *Tree, path string) (e muster.Entry) {
	t.Helper()
	reading(t, tree, root, func(r *Reader) {
		var row muster.Row
		res, err := r.Resolve(path, true)
		if err == nil {
			err = r.Row(&res, &row, true)
		}
		if err != nil {
			t.Fatalf("stat %s: %v", path, err)
		}
		e = row.Entry()
	})
	return e
}

// resolves returns the error of resolving a path as somebody.
func resolves(t testing.TB, tree *Tree, who muster.Identity, path string, follow bool) error {
	t.Helper()
	v, err := tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	_, err = v.Resolve(&who, path, follow)
	return err
}

// check fails unless the store is consistent.
func check(t testing.TB, tree *Tree) FsckSummary {
	t.Helper()
	sum, err := tree.Fsck(context.Background(), func(p Problem) error {
		t.Errorf("fsck: %+v", p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// load puts a directory with dirs directories of files files each straight into the store,
// for tests that need many.
func load(t testing.TB, tree *Tree, path string, dirs, files int) {
	t.Helper()
	mustApply(t, tree, muster.Mkdir{Path: path, Mode: 0o755})
	top := stat(t, tree, path).ID
	err := tree.committer.do(context.Background(), &call{ctx: context.Background(), done: make(chan struct{}), step: func(tx *txn) error {
		l := loader{tx: tx, b: tree.db.NewBatch()}
		rec, err := tx.record(top)
		if err != nil {
			return err
		}
		if err := tx.change(top, &rec, entryDelta{dirs, dirs}); err != nil {
			return err
		}
		for d := range dirs {
			id := l.add(top, fmt.Sprintf("d%06d", d), muster.Directory, uint64(files))
			for f := range files {
				l.add(id, fmt.Sprintf("f%06d", f), muster.File, 0)
			}
			if l.b.Len() > 4<<20 || d == dirs-1 {
				if err := l.b.Commit(pebble.NoSync); err != nil {
					return err
				}
				l.b = tree.db.NewBatch()
			}
		}
		return l.b.Close()
	}})
	if err != nil {
		t.Fatal(err)
	}
}

type loader struct {
	tx         *txn
	b          *pebble.Batch
	key, value []byte
}

func (l *loader) add(parent uint64, name string, kind muster.Kind, entries uint64) uint64 {
	id := l.tx.meta.nextID
	l.tx.meta.nextID++
	l.tx.meta.inodes++
	r := muster.Row{ID: id, Kind: kind, Mode: 0o755, Owner: []byte("root"), Group: []byte("supergroup")}
	l.key, l.value = appendRowKey(l.key[:0], parent, name), appendRow(l.value[:0], &r, blockList{})
	l.b.Set(l.key, l.value, nil)
	rec := record{kind: kind, parent: parent, name: []byte(name), entries: entries}
	l.key, l.value = appendIDKey(l.key[:0], tagRecord, id), appendRecord(l.value[:0], &rec)
	l.b.Set(l.key, l.value, nil)
	return id
}

// TestStoreBytesCountTheLog: what was just written is on disk, though in no table yet.
func TestStoreBytesCountTheLog(t *testing.T) {
	tree := openMem(t, Options{})
	before := tree.Stats().StoreBytes
	const most = 100 * muster.MaxPathBytes
	for i := range most / muster.MaxPathBytes {
		mustApply(t, tree, muster.Symlink{Path: fmt.Sprintf("/l%d", i), Target: strings.Repeat("t", muster.MaxPathBytes)})
	}
	if after := tree.Stats().StoreBytes; before == 0 || after < before+most || after > before+2*most {
		t.Errorf("%d bytes, then %d after writing %d", before, after, most)
	}
	if err := tree.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if after := tree.Stats().StoreBytes; after < before {
		t.Errorf("%d bytes in a table", after)
	}
}

func TestCommandsSmoke(t *testing.T) {
	tree := openMem(t, Options{})
	a := mustApply(t, tree,
		muster.Mkdir{Path: "/a/b/c", Mode: 0o755, Parents: true},
		muster.Create{Path: "/a/b/f", Mode: 0o644, Length: 10},
		muster.Symlink{Path: "/a/l", Target: "b"},
		muster.Rename{From: "/a/b/f", To: "/a/g"},
		muster.SetAttr{Path: "/a/g", Mode: new(uint16(0o600))},
	)
	if a.Txid != 1 || !slices.Equal(a.IDs, []uint64{4, 5, 6, 5, 5}) {
		t.Errorf("applied %+v", a)
	}
	if got := names(t, tree, "/a"); !slices.Equal(got, []string{"b", "g", "l"}) {
		t.Errorf("names %q", got)
	}
	if got := names(t, tree, "/a/l"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("names through the link %q", got)
	}
	check(t, tree)
}

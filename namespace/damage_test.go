package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble"
	logs "github.com/cockroachdb/pebble/record"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// TestDamagedFilesGiveErrorsAndNeverWrongRows flips a bit of each file, in many places, and cuts it
// short: opening fails as corrupt, or a read does, or everything is as it was.
func TestDamagedFilesGiveErrorsAndNeverWrongRows(t *testing.T) {
	all := closedTree(t)
	failed := 0
	for path, text := range all {
		if text == "" {
			continue
		}
		damage := map[string]string{"cut": text[:len(text)-1], "half": text[:len(text)/2], "empty": ""}
		for at := 0; at < len(text); at += 1 + len(text)/40 {
			b := []byte(text)
			b[at] ^= 1 << (at % 8)
			damage[fmt.Sprintf("bit of byte %d", at)] = string(b)
		}
		for what, text := range damage {
			damaged := maps.Clone(all)
			damaged[path] = text
			tree, err := Open("tree", Options{FS: restore(t, damaged), Superuser: "root"})
			if err == nil {
				err = readTen(tree)
				tree.Close()
			}
			if err != nil {
				failed++
			}
			if code := muster.CodeOf(err); err != nil && code != muster.ErrCorrupt && !(strings.HasSuffix(path, "FORMAT") && code == muster.ErrInvalid) {
				t.Errorf("%s, %s: %v (%v)", path, what, err, code.Name())
			}
		}
	}
	if failed < 50 {
		t.Errorf("only %d damages were noticed", failed)
	}
}

// crashedTree are the files of a tree whose process was killed: all is in the log, in records within
// a block and over many blocks. The last record ends where the log's zeros begin.
func crashedTree(t *testing.T) (all map[string]string, log string) {
	t.Helper()
	mem := vfs.NewMem()
	tree := openMem(t, Options{FS: mem})
	for i := range 20 {
		mustApply(t, tree, muster.Mkdir{Path: fmt.Sprintf("/small%d", i)})
		if i%5 == 4 {
			mustApply(t, tree, muster.Create{Path: fmt.Sprintf("/large%d", i), Length: 1 << 40, Replication: muster.Replicated(1), Blocks: sampleBlocks(150 * i)})
		}
	}
	all = files(t, mem, "tree")
	for path := range all {
		if strings.HasSuffix(path, ".log") && len(all[path]) > 100_000 {
			log = path
		}
	}
	if log == "" {
		t.Fatal("no log")
	}
	return all, log
}

// txidOf opens a tree of files and returns the newest txid.
func txidOf(t *testing.T, all map[string]string) (uint64, error) {
	t.Helper()
	tree, err := Open("tree", Options{FS: restore(t, all), Superuser: "root", idle: true})
	if err != nil {
		return 0, err
	}
	defer tree.Close()
	check(t, tree)
	return tree.Stats().Txid, nil
}

// Of the log's format.
const (
	recordHeadBytes = 11
	logBlockBytes   = 32 << 10
)

// lastRecord returns where the last record of a log begins and ends.
func lastRecord(t *testing.T, log string) (begin, end int) {
	t.Helper()
	var number uint64
	for i := range 4 {
		number |= uint64(log[7+i]) << (8 * i)
	}
	r := logs.NewReader(strings.NewReader(log), pebble.FileNum(number))
	for {
		at := int(r.Offset())
		chunks, err := r.Next()
		if err != nil {
			return begin, end
		}
		if _, err := io.Copy(io.Discard, chunks); err != nil {
			t.Fatal(err)
		}
		begin, end = at, int(r.Offset())
	}
}

// TestDamageInTheLogIsNoticed wherever a record follows that was written later: what was acknowledged
// is never lost in silence.
func TestDamageInTheLogIsNoticed(t *testing.T) {
	all, log := crashedTree(t)
	text := all[log]
	want, err := txidOf(t, all)
	if err != nil || want != 24 {
		t.Fatalf("undamaged: txid %d, %v", want, err)
	}
	last, _ := lastRecord(t, text)
	damage := func(what string, at int, change func(b []byte)) {
		b := []byte(text)
		change(b[at:last])
		damaged := maps.Clone(all)
		damaged[log] = string(b)
		if txid, err := txidOf(t, damaged); !errors.Is(err, muster.ErrCorrupt) || !strings.Contains(err.Error(), "log") {
			t.Errorf("%s of byte %d of %d: txid %d, %v", what, at, last, txid, err)
		}
	}
	for at := 0; at < last; at += 1 + min(at, last/100) {
		damage("a bit", at, func(b []byte) { b[0] ^= 1 << (at % 8) })
	}
	for bit := range 8 * recordHeadBytes {
		damage("a bit", bit/8, func(b []byte) { b[0] ^= 1 << (bit % 8) })
	}
	damage("zeros", 40_000, func(b []byte) { clear(b[:min(len(b), 5000)]) })
	damage("zeros", 0, func(b []byte) { clear(b) })
}

// TestALogCutShortIsNoDamage: a crash leaves the last record in any state, and it was not acknowledged.
func TestALogCutShortIsNoDamage(t *testing.T) {
	all, log := crashedTree(t)
	text := all[log]
	begin, end := lastRecord(t, text)
	if begin == 0 || end-begin < 2*logBlockBytes {
		t.Fatalf("the last record is from byte %d to %d", begin, end)
	}
	tear := func(what string, from, to int, cut bool) {
		b := []byte(text)
		if cut {
			b = b[:from]
		} else {
			clear(b[from:to])
		}
		torn := maps.Clone(all)
		torn[log] = string(b)
		if txid, err := txidOf(t, torn); err != nil || txid != 23 {
			t.Errorf("%s from byte %d to %d of a record from %d to %d: txid %d, %v", what, from, to, begin, end, txid, err)
		}
	}
	for at := begin; at < end; at += 1 + (end-begin)/20 {
		tear("cut", at, at, true)
		tear("zeros", at, end, false)
		tear("a page of zeros", at, min(at+4096, end), false)
	}
	tear("but for its last bytes, zeros", begin, end-9, false)
}

// TestCompactionsNeverHideDamage: wherever a table is damaged, its rows are read as they were or as
// corrupt, though the store tries to merge it with others; and it does not try again and again.
func TestCompactionsNeverHideDamage(t *testing.T) {
	mem := vfs.NewMem()
	tree, err := Open("tree", Options{FS: mem, Superuser: "root"})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 2000
	load(t, tree, "/t", 1, rows)
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	all := files(t, mem, "tree")
	var table string
	for path := range all {
		if strings.HasSuffix(path, ".sst") {
			table = path
		}
	}
	seen := 0
	for at := 10; at < len(all[table]); at += min(1+len(all[table])/60, max(1, len(all[table])-at-20)) {
		damaged := maps.Clone(all)
		b := []byte(all[table])
		b[at] ^= 1
		damaged[table] = string(b)
		if err := compactAndRead(t, damaged, rows); err != nil {
			if seen++; !errors.Is(err, muster.ErrCorrupt) {
				t.Errorf("byte %d of %d: %v", at, len(b), err)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d damages were seen", seen)
	}
}

// compactAndRead opens a tree of files, has its tables merged, or not, and then checks it and
// reads a directory of so many entries.
func compactAndRead(t *testing.T, all map[string]string, entries int) error {
	t.Helper()
	heard := &troubles{}
	tree, err := Open("tree", Options{FS: restore(t, all), Superuser: "root", Logger: slog.New(heard)})
	if err != nil {
		return err
	}
	defer tree.Close()
	for heard.seen.Load() == 0 && tree.db.Metrics().Compact.Count == 0 {
		if err := errors.Join(t.Context().Err(), tree.db.Set(metaKey(), appendMeta(nil, &tree.committer.meta), pebble.Sync), tree.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if heard.failed.Load() && !tree.store.Pausing() {
		t.Error("a compaction that failed is tried again at once")
	}
	if list, err := tryNames(tree, "/t/d000000"); err != nil || len(list) != entries {
		return fmt.Errorf("%d names: %w", len(list), cmp.Or(err, error(muster.ErrInternal)))
	}
	_, err = tree.Fsck(t.Context(), func(p Problem) error { return fmt.Errorf("%+v", p) })
	return err
}

// troubles hears of what the store could not do in the background.
type troubles struct {
	slog.Handler
	seen   atomic.Int64
	failed atomic.Bool
}

func (l *troubles) Enabled(context.Context, slog.Level) bool { return true }

func (l *troubles) Handle(_ context.Context, r slog.Record) error {
	failed := strings.Contains(r.Message, "background work failed")
	if failed {
		l.failed.Store(true)
	}
	if failed || strings.Contains(r.Message, "a table is damaged") {
		l.seen.Add(1)
	}
	return nil
}

// readTen reads the tree of closedTree.
func readTen(tree *Tree) error {
	v, err := tree.View()
	if err != nil {
		return err
	}
	defer v.Release()
	r := v.NewReader(&root)
	defer r.Close()
	res, err := r.Resolve("/", true)
	if err == nil {
		err = r.Scan(&res, "", true)
	}
	if err != nil {
		return err
	}
	n := 0
	for row := (muster.Row{}); r.Next(&row); n++ {
		if string(row.Name) != fmt.Sprintf("f%d", n) || row.Length != int64(n) {
			return fmt.Errorf("wrong row %q of length %d", row.Name, row.Length)
		}
	}
	if r.Err() == nil && n != 10 {
		return fmt.Errorf("%d rows", n)
	}
	return r.Err()
}

// TestRowsThatDoNotDecodeAreErrors, wherever they are met; others are read as ever.
func TestRowsThatDoNotDecodeAreErrors(t *testing.T) {
	tree := openMem(t, Options{})
	ids := mustApply(t, tree, muster.Create{Path: "/a"}, muster.Create{Path: "/b"}, muster.Mkdir{Path: "/d", Mode: 0o755}).IDs
	row := appendRow(nil, &muster.Row{ID: 2, Kind: muster.File, Owner: []byte("o"), Group: []byte("g")}, blockList{})
	row[0] = 9
	poke(t, tree, appendRowKey(nil, rootID, "a"), row)
	poke(t, tree, appendIDKey(nil, tagRecord, ids[2]), []byte{9})
	if err := resolves(t, tree, root, "/a", true); !errors.Is(err, muster.ErrCorrupt) || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("resolve: %v", err)
	}
	for _, c := range []muster.Command{muster.Delete{Path: "/a"}, muster.Rename{From: "/a", To: "/x"}, muster.SetAttr{Path: "/a", Mode: new(uint16(1))}, muster.Create{Path: "/d/x"}} {
		if _, err := tryApply(t, tree, c); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	reading(t, tree, root, func(r *Reader) {
		res, err := r.Resolve("/", true)
		if err == nil {
			err = r.Scan(&res, "", false)
		}
		var got muster.Row
		if err != nil || r.Next(&got) || !errors.Is(r.Err(), muster.ErrCorrupt) {
			t.Errorf("scan: %v, then %v", err, r.Err())
		}
		if r.Next(&got) || r.Err() == nil {
			t.Error("a scan goes on after an error")
		}
		if err := r.Scan(&res, "a", false); err != nil || !r.Next(&got) || string(got.Name) != "b" {
			t.Errorf("past it: %v, %q", err, got.Name)
		}
		if err := r.Heads([]uint64{got.ID}, make([]Head, 1)); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("head of a file: %v", err)
		}
		if err := r.Heads([]uint64{999}, make([]Head, 1)); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("head of nothing: %v", err)
		}
		if res, err = r.Resolve("/d", true); err != nil {
			t.Fatal(err)
		}
		if err := r.Row(&res, &got, false); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("row of a directory: %v", err)
		}
	})
}

// TestNamesThatCannotBeAreErrors: a key is checked like a row.
func TestNamesThatCannotBeAreErrors(t *testing.T) {
	for _, name := range []string{"a/b", "\xff", ".", "..", "n\x00", strings.Repeat("n", 256)} {
		tree := openMem(t, Options{})
		poke(t, tree, appendRowKey(nil, rootID, name), appendRow(nil, &muster.Row{ID: 2, Kind: muster.File, Owner: []byte("o"), Group: []byte("g")}, blockList{}))
		reading(t, tree, root, func(r *Reader) {
			res, err := r.Resolve("/", true)
			if err == nil {
				err = r.Scan(&res, "", false)
			}
			if row := (muster.Row{}); err != nil || r.Next(&row) || !errors.Is(r.Err(), muster.ErrCorrupt) {
				t.Errorf("%.10q: %v, %v", name, err, r.Err())
			}
		})
	}
}

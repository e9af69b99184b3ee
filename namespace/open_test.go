package namespace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// files reads all files below a folder.
func files(t testing.TB, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	list, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			maps.Copy(all, files(t, fs, path))
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all[path] = string(b)
	}
	return all
}

// restore makes a file system of files.
func restore(t testing.TB, all map[string]string) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	for path, text := range all {
		if err := fs.MkdirAll(fs.PathDir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(path)
		if err == nil {
			_, err = io.WriteString(f, text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// closedTree are the files of a tree of ten files, all of it in tables.
func closedTree(t testing.TB) map[string]string {
	t.Helper()
	mem := vfs.NewMem()
	tree, err := Open("tree", Options{FS: mem, Superuser: "root"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		mustApply(t, tree, muster.Create{Path: fmt.Sprintf("/f%d", i), Length: int64(i)})
	}
	if err := tree.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	return files(t, mem, "tree")
}

// TestFormatsThatAreNotOursAreRefusedUntouched: a newer version, and what is none.
func TestFormatsThatAreNotOursAreRefusedUntouched(t *testing.T) {
	for text, want := range map[string]struct {
		code muster.Code
		says string
	}{
		"muster namespace 3\n":   {muster.ErrInvalid, "version 3"},
		"muster namespace 999\n": {muster.ErrInvalid, "up to 2"},
		"muster namespace 0\n":   {muster.ErrCorrupt, "FORMAT"},
		"muster namespace 1":     {muster.ErrCorrupt, "FORMAT"},
		"":                       {muster.ErrCorrupt, "FORMAT"},
		strings.Repeat("x", 999): {muster.ErrCorrupt, "FORMAT"},
	} {
		all := closedTree(t)
		all["tree/FORMAT"] = text
		fs := restore(t, all)
		_, err := Open("tree", Options{FS: fs, Superuser: "root"})
		if !errors.Is(err, want.code) || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), `"tree"`) {
			t.Errorf("%.30q: %v", text, err)
		}
		if after := files(t, fs, "tree"); !maps.Equal(after, all) {
			t.Errorf("%.30q: the folder changed", text)
		}
	}
}

// TestAnOlderFormatBecomesTheNewOne when it is opened, before anything is written; a crash on the
// way does not matter.
func TestAnOlderFormatBecomesTheNewOne(t *testing.T) {
	mem := vfs.NewStrictMem()
	tree, err := Open("tree", Options{FS: mem, Superuser: "root"})
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, tree, muster.Create{Path: "/f"})
	old := appendMeta(nil, &tree.committer.meta)[:oldMetaLen]
	old[0] = 1
	if err := tree.db.Set(metaKey(), old, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	all := files(t, mem, "tree")
	if all["tree/FORMAT"] != "muster namespace 2\n" {
		t.Fatalf("a new folder has the format %q", all["tree/FORMAT"])
	}
	all["tree/FORMAT"] = "muster namespace 1\n"
	for range 2 { // the second time the counters are still as they were
		fs := restore(t, all)
		tree, err := Open("tree", Options{FS: fs, Superuser: "root", idle: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Close(); err != nil {
			t.Fatal(err)
		}
		all = files(t, fs, "tree")
		if got := all["tree/FORMAT"]; got != "muster namespace 2\n" {
			t.Errorf("the format is %q", got)
		}
		tree = openMem(t, Options{FS: fs})
		mustApply(t, tree, start("/w"), add(0, 0, 1))
		if sum := check(t, tree); sum.Files != 2 || tree.Stats().Writing != 1 {
			t.Errorf("%+v", sum)
		}
	}
	// One that cannot be made new is not opened, and stays as it is.
	all["tree/FORMAT"] = "muster namespace 1\n"
	fs := restore(t, all)
	broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op, path string) error {
		if op == errorfs.OpRename && strings.HasSuffix(path, "FORMAT.tmp") {
			return errorfs.ErrInjected
		}
		return nil
	}))
	if _, err := Open("tree", Options{FS: broken, Superuser: "root"}); !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "FORMAT") {
		t.Errorf("%v", err)
	}
	if got := files(t, fs, "tree")["tree/FORMAT"]; got != "muster namespace 1\n" {
		t.Errorf("the format is %q", got)
	}
}

// TestTheStoreIsPrivate: other users of the machine do not read it past all permissions.
func TestTheStoreIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "too")
	tree, err := Open(dir, Options{Superuser: "root"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	info, err := os.Stat(filepath.Join(dir, store.Dir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the store's folder is %v, %v", info.Mode(), err)
	}
}

// TestAFileIsNoFolder: neither a file, nor a path through one, nor a file where the store would be; each
// is named and left as it is.
func TestAFileIsNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(t.TempDir(), store.Dir)
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, names := range map[string]string{
		file: file, file + "/": file, filepath.Join(file, "in"): file, filepath.Join(file, "far", "in"): file,
		link: link, filepath.Dir(taken): taken,
	} {
		_, err := Open(dir, Options{Superuser: "root"})
		if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), names+" is not a directory") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, path := range []string{file, taken} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// TestAFolderThatCannotBeLockedHasNoOwner to be stopped.
func TestAFolderThatCannotBeLockedHasNoOwner(t *testing.T) {
	disk := errorfs.InjectorFunc(func(op errorfs.Op, path string) error {
		if strings.HasSuffix(path, "LOCK") {
			return &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
		}
		return nil
	})
	_, err := Open("tree", Options{FS: errorfs.Wrap(vfs.NewMem(), disk), Superuser: "root"})
	if !errors.Is(err, muster.ErrUnavailable) || strings.Contains(err.Error(), "owns") || !strings.Contains(err.Error(), "permission denied") {
		t.Error(err)
	}
}

// TestAFolderHasOneOwner, on disk and within a process too, until the owner closes.
func TestAFolderHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, Options{Superuser: "root"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, Options{Superuser: "root"})
	if !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "owns") {
		t.Errorf("second owner: %v", err)
	}
	mustApply(t, first, muster.Mkdir{Path: "/still"})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir, Options{Superuser: "root"})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, second, "/"); !slices.Equal(got, []string{"still"}) {
		t.Errorf("names %q", got)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

// countReads counts the reads of all files but logs. Those are read whole, and have no more than a few
// memory tables hold, whatever the tree's size.
type countReads struct{ n atomic.Int64 }

func (c *countReads) MaybeError(op errorfs.Op, path string) error {
	if !strings.HasSuffix(path, ".log") && (op == errorfs.OpFileRead || op == errorfs.OpFileReadAt) {
		c.n.Add(1)
	}
	return nil
}

// TestOpeningReadsTheSameWhateverTheSize: no more of the files than of those of a small tree, but for
// what the store itself reads of each of a few tables.
func TestOpeningReadsTheSameWhateverTheSize(t *testing.T) {
	var reads []int64
	for _, dirs := range []int{10, 1000} {
		mem, disk := vfs.NewMem(), &countReads{}
		tree, err := Open("tree", Options{FS: mem, Superuser: "root"})
		if err != nil {
			t.Fatal(err)
		}
		load(t, tree, "/t", dirs, 99)
		inodes := tree.Stats().Inodes
		if err := tree.Close(); err != nil {
			t.Fatal(err)
		}
		tree = openMem(t, Options{FS: errorfs.Wrap(mem, disk)})
		reads = append(reads, disk.n.Load())
		if s := tree.Stats(); s.Inodes != inodes || s.Inodes < uint64(dirs)*100 || s.Gets+s.Seeks != 1 {
			t.Errorf("%d inodes, want %d; %d gets and %d seeks, want 1 together", s.Inodes, inodes, s.Gets, s.Seeks)
		}
	}
	const more = 40 // a scan of the larger tree makes hundreds
	if t.Logf("reads at open: %d", reads); reads[1] > reads[0]+more {
		t.Errorf("opening made %d reads of files for 1,000 inodes, and %d for 100,000", reads[0], reads[1])
	}
}

// TestANewFolderIsDurable with all its parents, and what it was before when its making fails anywhere.
func TestANewFolderIsDurable(t *testing.T) {
	for _, dir := range []string{"tree", "a/b/tree", "/a/b/tree/"} {
		mem := vfs.NewStrictMem()
		tree, err := Open(dir, Options{FS: mem, Superuser: "root"})
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, tree, muster.Mkdir{Path: "/d"})
		mem.SetIgnoreSyncs(true)
		tree.Close()
		mem.ResetToSyncedState()
		mem.SetIgnoreSyncs(false)
		tree, err = Open(dir, Options{FS: mem, Superuser: "root"})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(t, tree, "/"); !slices.Equal(got, []string{"d"}) {
			t.Errorf("%s: %q", dir, got)
		}
		tree.Close()
	}
}

// failAt is a disk whose n-th write fails, and all after it.
type failAt struct{ left atomic.Int64 }

func (f *failAt) MaybeError(op errorfs.Op, _ string) error {
	if op.OpKind() == errorfs.OpKindWrite && op != errorfs.OpFileClose && f.left.Add(-1) < 0 {
		return errorfs.ErrInjected
	}
	return nil
}

// TestMakingAFolderMayFailAnywhere: afterwards it can be made again.
func TestMakingAFolderMayFailAnywhere(t *testing.T) {
	for n := int64(0); ; n++ {
		mem, disk := vfs.NewStrictMem(), &failAt{}
		disk.left.Store(n)
		tree, err := Open("tree", Options{FS: errorfs.Wrap(mem, disk), Superuser: "root"})
		if err == nil {
			tree.Close()
		} else if code := muster.CodeOf(err); code == muster.ErrInternal || code == muster.ErrNotFound {
			t.Errorf("write %d: %v (%v)", n, err, code.Name())
		}
		mem.ResetToSyncedState()
		again, err := Open("tree", Options{FS: mem, Superuser: "root"})
		if err != nil {
			t.Fatalf("after a failure at write %d: %v", n, err)
		}
		check(t, again)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if disk.left.Load() > 0 {
			return // it was not reached
		}
	}
}

// TestPartsThatAreMissing: a format file without its store, and a store in use without its format file.
func TestPartsThatAreMissing(t *testing.T) {
	all := closedTree(t)
	for name, drop := range map[string]func(path string) bool{
		"the store's folder": func(path string) bool { return path != "tree/FORMAT" },
		"the store's files":  func(path string) bool { return path != "tree/FORMAT" && !strings.HasSuffix(path, "LOCK") },
		"the format file":    func(path string) bool { return path == "tree/FORMAT" },
		"tables":             func(path string) bool { return strings.HasSuffix(path, ".sst") },
		"the manifest":       func(path string) bool { return strings.Contains(path, "/MANIFEST") },
	} {
		left := maps.Clone(all)
		maps.DeleteFunc(left, func(path, _ string) bool { return drop(path) })
		_, err := Open("tree", Options{FS: restore(t, left), Superuser: "root"})
		if !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestOptionsAreValidated(t *testing.T) {
	for _, o := range []Options{{CacheBytes: -1}, {MemTableBytes: 1}, {MemTableBytes: 1 << 40}, {RequestAge: -1}, {RequestMax: -1}, {ReclaimStep: -1}, {ReclaimStep: 1 << 30}, {Superuser: "\xff"}} {
		if _, err := Open("tree", func() Options { o.FS = vfs.NewMem(); return o }()); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	tree, err := Open("tree", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	tree.Close()
	if _, err := tree.View(); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("view of a closed tree: %v", err)
	}
	if _, err := tryApply(t, tree, muster.Mkdir{Path: "/x"}); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("apply to a closed tree: %v", err)
	}
	if _, err := tree.Fsck(t.Context(), func(p Problem) error { return fmt.Errorf("%+v", p) }); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("fsck of a closed tree: %v", err)
	}
	if tree.Stats().Txid != 0 || tree.Close() != nil {
		t.Error("a closed tree has counters, or closes badly again")
	}
}

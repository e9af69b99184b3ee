package client_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func TestFSPassesFstest(t *testing.T) {
	c := connect(t)
	plant(t, c, "/top/dir/sub/deep/file", "/top/dir/empty/", "/top/file", "/top/x y", "/top/z=1/a%20b", "/top/link -> dir",
		"/top/dir/up -> ../file", "/root-link -> top")
	for root, expected := range map[string]string{
		"/": "top/dir/sub/deep/file", "/top": "dir/up", "/root-link": "z=1/a%20b", "/top/": "dir/empty",
	} {
		t.Run(root, func(t *testing.T) {
			if err := fstest.TestFS(c.FS(t.Context(), root), expected); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFSPassesFstestOnRandomTrees(t *testing.T) {
	c := connect(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	twins(t, c, rand.New(rand.NewPCG(seed, 3)))
	must(t, c.WalkDir(t.Context(), "/t", func(path string, d fs.DirEntry, err error) error {
		if d.Type() == fs.ModeSymlink { // leads nowhere, and fstest opens all there is
			must(t, c.Remove(t.Context(), path))
		}
		return err
	}))
	plant(t, c, "/t/there")
	if err := fstest.TestFS(c.FS(t.Context(), "/t"), "there"); err != nil {
		t.Fatal(err)
	}
}

func TestFSErrorsCarryTheNameThatWasAskedFor(t *testing.T) {
	c := connect(t)
	plant(t, c, "/top/full #10", "/top/dir/")
	fsys := c.FS(t.Context(), "/top")
	open := func(name string) error { _, err := fsys.Open(name); return err }
	readDir := func(name string) error { _, err := fs.ReadDir(fsys, name); return err }
	readLink := func(name string) error { _, err := fs.ReadLink(fsys, name); return err }
	dir, err := fsys.Open("dir")
	must(t, err)
	_, readErr := dir.Read(nil)
	must(t, dir.Close())
	for _, test := range []struct {
		err  error
		want error
		name string
	}{
		{open("full"), muster.ErrNoData, "full"},
		{open("no"), fs.ErrNotExist, "no"},
		{open("/top"), fs.ErrInvalid, "/top"},
		{open("../x"), fs.ErrInvalid, "../x"},
		{readDir("full"), muster.ErrNotDirectory, "full"},
		{readDir("no"), fs.ErrNotExist, "no"},
		{readLink("dir"), fs.ErrInvalid, "dir"},
		{readErr, muster.ErrIsDirectory, "dir"},
		{dir.Close(), fs.ErrClosed, "dir"},
	} {
		var at *fs.PathError
		if !errors.Is(test.err, test.want) || !errors.As(test.err, &at) || at.Path != test.name {
			t.Errorf("got %v, want %v of %s", test.err, test.want, test.name)
		}
	}
}

func TestFSWorksWithTheFunctionsOfIoFs(t *testing.T) {
	c := connect(t)
	plant(t, c, "/top/a/x.csv", "/top/b/y.csv", "/top/b/z", "/outside.csv")
	fsys := c.FS(t.Context(), "/top")
	var walked []string
	must(t, fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		walked = append(walked, path+" "+d.Name())
		return err
	}))
	same(t, walked, []string{". .", "a a", "a/x.csv x.csv", "b b", "b/y.csv y.csv", "b/z z"})
	found, err := fs.Glob(fsys, "*/*.csv")
	must(t, err)
	same(t, found, []string{"a/x.csv", "b/y.csv"})
	sub, err := fs.Sub(fsys, "b")
	must(t, err)
	if b, err := fs.ReadFile(sub, "z"); err != nil || len(b) != 0 {
		t.Errorf("an empty file: %q, %v", b, err)
	}
}

func TestGlobOfAnFSFindsWhatGlobOfIoFsFinds(t *testing.T) {
	c := connect(t)
	plant(t, c, "/top/a/x.csv", "/top/b/y.csv", "/top/b/z", "/outside.csv")
	for _, root := range []string{"/top", "/", "/missing", "/top/b/z"} {
		fsys := c.FS(t.Context(), root)
		plain := struct{ fs.FS }{fsys} // no Glob of its own
		for _, pattern := range []string{
			"", ".", "..", "*", "*/*", "*/*.csv", "a", "a/x.csv", "b/[xy].csv", `\a`, "missing", "missing/*", "a/x.csv/*",
			"./*", "/", "/top/a", "/*", "a/", "*/", "../*", "a//x.csv", "a/./x.csv", "a/../b", "[", "a/[", "[a/b]", "\xff*",
			strings.Repeat("x", 300), strings.Repeat("x/", 1001) + "y",
		} {
			want, wantErr := fs.Glob(plain, pattern)
			got, err := fs.Glob(fsys, pattern)
			if !slices.Equal(got, want) || !errors.Is(err, wantErr) {
				t.Errorf("%.20q in %s: %q, %v; want %q, %v", pattern, root, got, err, want, wantErr)
			}
		}
	}
}

func TestOpenDirectoryIsReadInPieces(t *testing.T) {
	c := connect(t)
	want := names("", 2500)
	plant(t, c, names("/d/", 2500)...)
	f, err := c.FS(t.Context(), "/").Open("d")
	must(t, err)
	defer f.Close()
	dir := f.(fs.ReadDirFile)
	var got []string
	for {
		entries, err := dir.ReadDir(700)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err == io.EOF {
			break
		}
		must(t, err)
		if len(entries) == 0 || len(entries) > 700 {
			t.Fatalf("%d entries", len(entries))
		}
	}
	same(t, got, want)
	if rest, err := dir.ReadDir(-1); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %v, %v", rest, err)
	}
}

func TestReadDirIsSortedByBytesAndComplete(t *testing.T) {
	c := connect(t)
	want := []string{"A", "a", "a ", "a-", "a.", "a0", "aa", "b", "é", "日"}
	for _, name := range want {
		plant(t, c, "/d/"+name)
	}
	entries, err := c.ReadDir(t.Context(), "/d")
	must(t, err)
	var got []string
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		if _, ok := info.(*client.Info); !ok || info.Name() != e.Name() || !strings.HasPrefix(info.(*client.Info).Path, "/d/") {
			t.Errorf("info %#v", info)
		}
		got = append(got, e.Name())
	}
	if !slices.IsSorted(got) {
		t.Errorf("order %q", got)
	}
	same(t, got, want)
}

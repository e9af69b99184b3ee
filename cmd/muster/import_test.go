package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/configs"
	"github.com/muster-fs/muster/server"
)

// startApp returns an app that talks to a server of its own, as a superuser.
func startApp(t *testing.T) *app {
	t.Helper()
	return startAppIn(t, t.TempDir())
}

// startAppIn is startApp with the server's data in dir.
func startAppIn(t *testing.T, dir string) *app {
	t.Helper()
	return startAppOn(t, server.Options{Dir: dir})
}

// startAppOn is startApp with another server.
func startAppOn(t *testing.T, o server.Options) *app {
	t.Helper()
	s, err := server.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{stdin: strings.NewReader(""), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), config: configs.Default(), verb: "import"}
	a.config.Client.Server = s.Addr().String()
	t.Cleanup(func() {
		if a.dialled != nil {
			if err := a.dialled.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

// describe returns what must be equal on both sides.
func describe(mode fs.FileMode, size int64, mtime time.Time, target string) string {
	switch mode.Type() {
	case fs.ModeDir:
		size = 0
	case fs.ModeSymlink:
		return fmt.Sprintf("link to %s, %d", target, mtime.UnixMilli())
	}
	return fmt.Sprintf("%v %d bytes, %d", mode&(fs.ModeType|fs.ModePerm|fs.ModeSticky), size, mtime.UnixMilli())
}

// realTree describes the entries of a tree of this machine, by the path below it.
func realTree(t *testing.T, root string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(path)
		tree[strings.TrimPrefix(path, root)] = describe(info.Mode(), info.Size(), info.ModTime(), target)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// importedTree describes the entries of a tree of Muster, listed by one stream.
func importedTree(t *testing.T, a *app, root string) map[string]string {
	t.Helper()
	c, err := a.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]string{}
	add := func(info client.Info) {
		tree[strings.TrimPrefix(info.Path, root)] = describe(info.Mode(), info.Size(), info.ModTime(), info.Entry.Target)
	}
	info, err := c.Lstat(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	add(info)
	all, err := client.Collect(c.Walk(t.Context(), root, client.ListOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all {
		add(info)
	}
	return tree
}

func compareTrees(t *testing.T, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			t.Errorf("%q is %s, want %s", path, got[path], want[path])
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%q should not be there", path)
		}
	}
}

// makeTree fills dir with a random tree of n entries: names with bytes of all kinds,
// links, odd modes and times.
func makeTree(t *testing.T, random *rand.Rand, dir string, n int) {
	t.Helper()
	names := []string{"a", "part=1", "part=10", "z z", "%41", "a:b", "line\nline", "é", "-x", ".hidden", "'q'", "\U0001F600"}
	dirs := []string{dir}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		path := filepath.Join(dirs[random.IntN(len(dirs))], fmt.Sprint(names[random.IntN(len(names))], i))
		switch random.IntN(4) {
		case 0:
			check(os.Mkdir(path, 0o755))
			dirs = append(dirs, path)
			continue
		case 1:
			check(os.Symlink(names[random.IntN(len(names))], path))
			continue
		}
		check(os.WriteFile(path, make([]byte, random.IntN(100)), 0o600))
		check(os.Chmod(path, fs.FileMode(random.IntN(0o1000))))
		check(os.Chtimes(path, time.Time{}, time.UnixMicro(random.Int64N(2e15))))
	}
	for _, d := range slices.Backward(dirs) {
		mode := fs.FileMode(random.IntN(0o1000)) | 0o500
		if random.IntN(2) == 0 {
			mode |= fs.ModeSticky
		}
		check(os.Chmod(d, mode))
		check(os.Chtimes(d, time.Time{}, time.UnixMicro(random.Int64N(2e15))))
	}
	t.Cleanup(func() { // for the removal of the folder
		for _, d := range dirs {
			_ = os.Chmod(d, 0o700)
		}
	})
}

func newRandom(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestImportedTreeEqualsTheSource(t *testing.T) {
	source := t.TempDir()
	makeTree(t, newRandom(t), source, 1200) // more than one call, and several levels
	for _, user := range []string{"", "alice"} {
		a := startApp(t)
		if user != "" {
			if _, err := mustClient(t, a).Apply(t.Context(), muster.Mkdir{Path: "/home", Mode: 0o777}); err != nil {
				t.Fatal(err)
			}
			a.dialled = a.dialled.As(user)
		}
		if err := a.importTree(t.Context(), source, "/home/tree", importFlags{}); err != nil || a.failed {
			t.Fatalf("%v; %s", err, a.stderr)
		}
		compareTrees(t, importedAsRoot(t, a, "/home/tree"), realTree(t, source))
	}
}

func TestGOROOTIsImportedAsItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("many files")
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	source, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	a := startApp(t)
	if err := a.importTree(t.Context(), source, "/goroot", importFlags{}); err != nil || a.failed {
		t.Fatalf("%v; %s", err, a.stderr)
	}
	t.Log(a.stdout)
	compareTrees(t, importedTree(t, a, "/goroot"), realTree(t, source))
}

func mustClient(t *testing.T, a *app) *client.Client {
	t.Helper()
	c, err := a.client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// importedAsRoot reads the tree as the server's own user, who may see all of it.
func importedAsRoot(t *testing.T, a *app, root string) map[string]string {
	t.Helper()
	b := &app{config: a.config}
	defer func() { _ = mustClient(t, b).Close() }()
	return importedTree(t, b, root)
}

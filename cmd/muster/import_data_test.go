package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// startAppWithDisks is startApp with three datanodes.
func startAppWithDisks(t *testing.T) *app {
	t.Helper()
	return startAppOn(t, server.Options{Dir: t.TempDir(), Datanodes: server.LocalDatanodes{
		Count: 3, Options: server.DatanodeOptions{Store: store.Options{Reserve: 1 << 20}},
	}})
}

// fillFiles writes random bytes into the files of a tree, of a few lengths, and keeps their times.
func fillFiles(t *testing.T, random *rand.Rand, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b := make([]byte, []int{0, 1, 100, 16 << 10, 40_000, 1 << 20}[random.IntN(6)])
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return err
		}
		if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
			return err
		}
		return os.Chmod(path, info.Mode()|0o400) // whoever runs the test has to read it
	})
	if err != nil {
		t.Fatal(err)
	}
}

// compareData compares the bytes of all files below source with those in Muster.
func compareData(t *testing.T, a *app, source, target string) {
	t.Helper()
	c := mustClient(t, a)
	err := filepath.WalkDir(source, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := c.Open(t.Context(), target+strings.TrimPrefix(path, source))
		if err != nil {
			return err
		}
		defer f.Close()
		got, err := io.ReadAll(f)
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("%q has %d bytes that differ from %d", path, len(got), len(want))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestImportedDataEqualsTheSource, also when the import is interrupted again and again.
func TestImportedDataEqualsTheSource(t *testing.T) {
	random, source := newRandom(t), t.TempDir()
	makeTree(t, random, source, 300)
	fillFiles(t, random, source)
	want := realTree(t, source)
	a := startAppWithDisks(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, cancel)
		_ = a.importTree(ctx, source, "/tree", importFlags{data: true, update: true, parallel: 1 + random.IntN(8)})
		cancel()
	}
	a.failed, a.stderr = false, new(bytes.Buffer)
	if err := a.importTree(t.Context(), source, "/tree", importFlags{data: true, update: true, parallel: 4}); err != nil || a.failed {
		t.Fatalf("%v; %s", err, a.stderr)
	}
	compareTrees(t, importedTree(t, a, "/tree"), want)
	compareData(t, a, source, "/tree")
	summary, err := mustClient(t, a).FsckBlocks(t.Context(), "/", func(p client.Problem) error { t.Errorf("%+v", p); return nil })
	if err != nil || summary.Blocks == 0 {
		t.Errorf("%+v, %v", summary, err)
	}
	out := new(bytes.Buffer)
	a.stdout = out
	if err := a.importTree(t.Context(), source, "/tree", importFlags{data: true, update: true, parallel: 4}); err != nil || !strings.HasPrefix(out.String(), "imported 0 directories, 0 files, 0 links, 0 bytes in") {
		t.Errorf("once more: %v, %s", err, out)
	}
}

// TestAFileThatChangesIsNotBroughtIn: nothing of it appears, and what was there before stays.
func TestAFileThatChangesIsNotBroughtIn(t *testing.T) {
	a := startAppWithDisks(t)
	c := mustClient(t, a)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for name, change := range map[string]func() error{
		"longer":  func() error { return os.WriteFile(path, make([]byte, 200_001), 0o600) },
		"shorter": func() error { return os.Truncate(path, 5) },
		"touched": func() error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) },
	} {
		if err := os.WriteFile(path, make([]byte, 200_000), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(t.Context(), muster.Mkdir{Path: "/" + name, Mode: 0o755}, muster.Create{Path: "/" + name + "/f", Mode: 0o600, Length: 7}); err != nil {
			t.Fatal(err)
		}
		source, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		before, err := source.Stat()
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.CreateFile(t.Context(), "/"+name+"/f", client.WriteOptions{Atomic: true, Overwrite: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		copies := newCopies(t.Context(), c, 1, new(atomic.Int64))
		if err := copies.fill(t.Context(), w, source, before); err != errChanged {
			t.Errorf("%s: %v", name, err)
		}
		_ = source.Close()
		all, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/" + name}), client.ListOptions{}))
		if err != nil || len(all) != 1 || all[0].Entry.Length != 7 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}

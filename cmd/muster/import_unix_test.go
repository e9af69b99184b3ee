//go:build unix

package main

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cancelOnWrite ends a context when something is written.
type cancelOnWrite struct{ cancel context.CancelFunc }

func (w cancelOnWrite) Write(p []byte) (int, error) {
	w.cancel()
	return len(p), nil
}

func TestInterruptedImportGoesOnWithUpdate(t *testing.T) {
	random := newRandom(t)
	for range 2 {
		source := t.TempDir()
		makeTree(t, random, source, 600)
		a := startApp(t)

		// A pipe is skipped with a message, and that is when the import is interrupted.
		want := realTree(t, source)
		dirs := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(path string) bool { return want[path][0] != 'd' })
		place := source + dirs[random.IntN(len(dirs))]
		before, err := os.Stat(place)
		if err != nil {
			t.Fatal(err)
		}
		pipe := filepath.Join(place, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Skip("no pipes: ", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a.stderr = cancelOnWrite{cancel}
		if err := a.importTree(ctx, source, "/tree", importFlags{}); err == nil {
			t.Fatal("the import was not interrupted")
		}
		if err := os.Remove(pipe); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(place, time.Time{}, before.ModTime()); err != nil {
			t.Fatal(err)
		}

		a.stderr, a.failed = new(bytes.Buffer), false
		if err := a.importTree(t.Context(), source, "/tree", importFlags{update: true}); err != nil || a.failed {
			t.Fatalf("%v; %s", err, a.stderr)
		}
		compareTrees(t, importedTree(t, a, "/tree"), want)

		// Once more finds nothing to do.
		out := new(bytes.Buffer)
		a.stdout = out
		if err := a.importTree(t.Context(), source, "/tree", importFlags{update: true}); err != nil {
			t.Fatal(err)
		}
		if want := "imported 0 directories, 0 files, 0 links, 0 bytes in"; !strings.HasPrefix(out.String(), want) {
			t.Errorf("the third run printed %s", out)
		}
	}
}

// doOnWrite does something when something is written, and keeps what is.
type doOnWrite struct {
	bytes.Buffer
	do func()
}

func (w *doOnWrite) Write(p []byte) (int, error) {
	w.do()
	return w.Buffer.Write(p)
}

func TestAFolderThatCannotBeReadIsSkippedAndTheRestIsNot(t *testing.T) {
	source := t.TempDir()
	closed := filepath.Join(source, "closed")
	for _, dir := range []string{closed, filepath.Join(source, "open", "inner")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A pipe is skipped with a message, and that is when the folder goes. Whoever runs
	// the tests may be root, who can read any folder that is there.
	if err := syscall.Mkfifo(filepath.Join(source, "pipe"), 0o600); err != nil {
		t.Skip("no pipes: ", err)
	}
	a := startApp(t)
	stderr := &doOnWrite{do: func() { _ = os.RemoveAll(closed) }}
	stdout := new(bytes.Buffer)
	a.stderr, a.stdout = stderr, stdout
	if err := a.importTree(t.Context(), source, "/tree", importFlags{}); err != nil || !a.failed {
		t.Errorf("error %v, failed %v", err, a.failed)
	}
	want := "muster: import: " + source + "/pipe: skipped: it is a pipe\n" +
		"muster: import: " + closed + ": skipped: no such file or directory\n"
	if stderr.String() != want {
		t.Errorf("it says\n%swant\n%s", stderr, want)
	}
	if !strings.HasSuffix(stdout.String(), ", 2 skipped\n") {
		t.Errorf("it printed %s", stdout)
	}
	if tree := importedTree(t, a, "/tree"); len(tree) != 4 || tree["/open/inner"] == "" {
		t.Errorf("the tree is %v", tree)
	}
}

func TestASocketIsSkippedAndNamed(t *testing.T) {
	source := t.TempDir()
	t.Chdir(source) // the path of a socket must be short
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Skip("no sockets: ", err)
	}
	defer func() { _ = socket.Close() }() // removes it
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a := startApp(t)
	stdout, stderr := new(bytes.Buffer), new(bytes.Buffer)
	a.stdout, a.stderr = stdout, stderr
	if err := a.importTree(t.Context(), source, "/tree", importFlags{}); err != nil || !a.failed {
		t.Errorf("error %v, failed %v", err, a.failed)
	}
	if want := "muster: import: " + source + "/socket: skipped: it is a socket\n"; stderr.String() != want {
		t.Errorf("it says\n%swant\n%s", stderr, want)
	}
	if !strings.HasPrefix(stdout.String(), "imported 1 directories, 1 files, 0 links, ") || !strings.HasSuffix(stdout.String(), ", 1 skipped\n") {
		t.Errorf("it printed %s", stdout)
	}
	want := realTree(t, source)
	delete(want, "/socket")
	compareTrees(t, importedTree(t, a, "/tree"), want)
}

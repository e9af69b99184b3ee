package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/configs"
	"github.com/muster-fs/muster/server"
)

// startDataApp returns an app that talks to a server with datanodes.
func startDataApp(t *testing.T) *app {
	t.Helper()
	s, err := server.Start(t.Context(), server.Options{
		Dir: t.TempDir(), Datanodes: server.LocalDatanodes{Count: 3, Options: server.DatanodeOptions{Store: store.Options{Reserve: 1 << 20}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{stdin: strings.NewReader(""), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), config: configs.Default()}
	a.config.Client.Server = s.Addr().String()
	t.Cleanup(func() {
		err := mustClient(t, a).Close()
		if err = errors.Join(err, s.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return a
}

func mustRun(t *testing.T, a *app, err error) {
	t.Helper()
	if err != nil || a.failed {
		t.Fatalf("%v; %s", err, a.stderr)
	}
}

// fillTree writes data into the files of a tree.
func fillTree(t *testing.T, random *rand.Rand, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data := make([]byte, random.IntN(40_000))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		_ = os.Chmod(path, 0o600)
		return errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, info.Mode()), os.Chtimes(path, info.ModTime(), info.ModTime()))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTreesAreTheSameAfterTwoCopies and after another within Muster: names, bytes, modes, times
// and links.
func TestTreesAreTheSameAfterTwoCopies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files that their owner may not read are for root")
	}
	random := newRandom(t)
	source := filepath.Join(t.TempDir(), "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	makeTree(t, random, source, 300)
	fillTree(t, random, source)
	a := startDataApp(t)
	flags := copyFlags{recursive: true, keep: true, parallel: 4}
	p := &putter{app: a, flags: flags}
	mustRun(t, a, p.run(t.Context(), []string{source, "/tree"}))
	compareTrees(t, importedTree(t, a, "/tree"), realTree(t, source))
	c := &copier{app: a, flags: flags}
	mustRun(t, a, c.run(t.Context(), []string{"/tree", "/copy"}))
	compareTrees(t, importedTree(t, a, "/copy"), realTree(t, source))
	got := filepath.Join(t.TempDir(), "got")
	g := &getter{app: a, flags: flags}
	mustRun(t, a, g.run(t.Context(), []string{"/copy", got}))
	compareTrees(t, realTree(t, got), realTree(t, source))
	if out, err := exec.Command("diff", "-r", "--no-dereference", source, got).CombinedOutput(); err != nil {
		t.Errorf("diff: %v\n%s", err, out)
	}
}

// stopping is a source whose reader stops the run after some bytes, and that remembers where it
// was opened.
type stopping struct {
	remoteSource
	after   int64
	stop    context.CancelFunc
	offsets *[]int64
}

func (s stopping) open(ctx context.Context, it item, offset int64) (io.ReadCloser, error) {
	*s.offsets = append(*s.offsets, offset)
	r, err := s.remoteSource.open(ctx, it, offset)
	if err != nil || s.stop == nil {
		return r, err
	}
	return &stoppingReader{r, s}, nil
}

type stoppingReader struct {
	io.ReadCloser
	stopping
}

func (r *stoppingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), max(1, r.after))])
	if r.after -= int64(n); r.after <= 0 {
		r.stop()
	}
	return n, err
}

// TestAnInterruptedCopyLeavesNothingHalf of what it was writing; a get with --resume keeps what
// it has, and goes on there.
func TestAnInterruptedCopyLeavesNothingHalf(t *testing.T) {
	a := startDataApp(t)
	c := mustClient(t, a)
	data := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	w, err := c.Create(t.Context(), "/file")
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, resume := range []bool{false, true} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		flags := copyFlags{resume: resume, parallel: 1}
		source := remoteSource{c}
		local := &localTarget{root: root, flags: &flags, sourceChecksum: source.checksum}
		remote := &remoteTarget{app: a, client: c, flags: &flags, options: client.WriteOptions{Atomic: true}}
		var offsets []int64
		run := func(target copyTarget, to string, stop int64) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			from := stopping{source, stop, nil, &offsets}
			if stop > 0 {
				from.stop = cancel
			}
			tr := &transfer{app: a, copyFlags: &flags, source: from, target: target}
			it, err := tr.root(ctx, "/file", to, false, "file")
			if err != nil {
				t.Fatal(err)
			}
			return tr.run(ctx, []item{it})
		}
		if err := run(remote, "/copy", 1_000_000); !errors.Is(err, context.Canceled) {
			t.Errorf("cp: %v", err)
		}
		if names := namesIn(t, c, "/"); names != "file" {
			t.Errorf("cp left %s", names)
		}
		if err := run(local, "got", 1_000_000); !errors.Is(err, context.Canceled) {
			t.Errorf("get: %v", err)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "[^.]*"))
		parts, _ := filepath.Glob(filepath.Join(dir, ".*"+partSuffix))
		kept := 0
		if resume {
			kept = 1
		}
		if len(left) != 0 || len(parts) != kept {
			t.Fatalf("resume %v: left %v and %v", resume, left, parts)
		}
		offsets = nil
		if err := run(local, "got", 0); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "got")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if len(offsets) != 1 || resume != (offsets[0] > 0) {
			t.Errorf("resume %v: opened at %v", resume, offsets)
		}
		if parts, _ := filepath.Glob(filepath.Join(dir, ".*")); len(parts) > 0 {
			t.Errorf("left %v", parts)
		}
	}
}

// counting is a source that stops the run when so many files were opened.
type counting struct {
	localSource
	left *atomic.Int64
	stop context.CancelFunc
}

func (s counting) open(ctx context.Context, it item, offset int64) (io.ReadCloser, error) {
	if s.left.Add(-1) == 0 {
		s.stop()
	}
	return s.localSource.open(ctx, it, offset)
}

// TestAnInterruptedPutLeavesNoTemporaryFiles wherever the interruption finds it.
func TestAnInterruptedPutLeavesNoTemporaryFiles(t *testing.T) {
	a := startDataApp(t)
	c, dir := mustClient(t, a), t.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("data"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		flags := copyFlags{recursive: true, parallel: 8}
		var left atomic.Int64
		left.Store(int64(7*round + 1))
		to := fmt.Sprint("/", round)
		tr := &transfer{app: a, copyFlags: &flags, source: counting{stop: cancel, left: &left},
			target: &remoteTarget{app: a, client: c, flags: &flags, options: client.WriteOptions{Atomic: true}}}
		root, err := tr.root(ctx, dir, to, false, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.run(ctx, []item{root}); !errors.Is(err, context.Canceled) {
			t.Errorf("round %d: %v", round, err)
		}
		for _, name := range strings.Fields(namesIn(t, c, to)) {
			if strings.HasPrefix(name, ".") {
				t.Errorf("round %d left %s", round, name)
			}
		}
		cancel()
	}
}

// namesIn returns what is in a directory.
func namesIn(t *testing.T, c *client.Client, dir string) string {
	t.Helper()
	var names []string
	for b, err := range c.Pages(t.Context(), dir, client.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len() {
			names = append(names, b.Name(i))
		}
	}
	return strings.Join(names, " ")
}

// unreachable is a source that nobody reaches.
type unreachable struct{ localSource }

func (unreachable) open(context.Context, item, int64) (io.ReadCloser, error) {
	return nil, &fs.PathError{Op: "open", Path: "x", Err: muster.ErrUnavailable}
}

// TestAnOutageEndsACopy: not each of a million files has to find out for itself.
func TestAnOutageEndsACopy(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	flags := copyFlags{parallel: 2}
	a := &app{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	tr := &transfer{app: a, copyFlags: &flags, source: unreachable{}, target: &localTarget{root: root, flags: &flags}}
	var roots []item
	for i := range 10 * maxOutage {
		it := item{to: fmt.Sprint(i)}
		it.Kind = muster.File
		roots = append(roots, it)
	}
	err = tr.run(t.Context(), roots)
	if !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "given up") {
		t.Errorf("%v", err)
	}
	if n := strings.Count(a.stderr.(*bytes.Buffer).String(), "\n"); n < maxOutage || n > maxOutage+flags.parallel {
		t.Errorf("%d lines", n)
	}
}

// TestCounts reads what head and tail take.
func TestCounts(t *testing.T) {
	for text, want := range map[string]byteCount{
		"0": {}, "7": {bytes: 7}, "-2K": {'-', 2048}, "+1MiB": {'+', 1 << 20}, "3kB": {bytes: 3000}, "1G": {bytes: 1 << 30}, "2b": {bytes: 1024},
		"9223372036854775807": {bytes: 1<<63 - 1},
	} {
		var got byteCount
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "K", "1Q", "1KK", "+-1", "0x1", "1.5K", "9223372036854775808", "9999999999T", " 1"} {
		var got byteCount
		if err := got.Set(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

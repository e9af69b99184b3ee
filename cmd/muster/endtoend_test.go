package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// fleet is a namespace server and datanodes, each a process of its own that can be killed.
type fleet struct {
	t     *testing.T
	up    *childServer
	args  []string // of up, at the address that it has
	nodes []*childServer
	dirs  []string
}

// startFleet starts them on new folders.
func startFleet(t *testing.T, nodes int) *fleet {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	f := &fleet{t: t, args: []string{"up", "--data", filepath.Join(dir, "data"), "--datanodes", "0", "--listen"}}
	f.up = startServerProcess(t, append(f.args, "127.0.0.1:0")...)
	f.args = append(f.args, f.up.address)
	t.Setenv("MUSTER_CLUSTER_KEY_FILE", filepath.Join(dir, "data", "cluster.key"))
	t.Setenv("MUSTER_DATANODE_RESERVE", "1MiB")
	for i := range nodes {
		f.dirs = append(f.dirs, filepath.Join(dir, fmt.Sprint(i)))
		f.nodes = append(f.nodes, nil)
		f.start(i)
	}
	return f
}

// start starts a datanode, at the address that it had before.
func (f *fleet) start(i int) {
	f.t.Helper()
	listen := "127.0.0.1:0"
	if f.nodes[i] != nil {
		listen = f.nodes[i].address
	}
	f.nodes[i] = startServerProcess(f.t, "datanode", "--data", f.dirs[i], "--listen", listen, "--locations", f.up.address)
}

// dial returns a client that closes with the test.
func (f *fleet) dial() *client.Client {
	f.t.Helper()
	c, err := client.Dial(f.t.Context(), f.up.address, client.Options{User: "ann", Groups: []string{muster.Supergroup}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// pace is a reader of so many bytes that says when half of them were read, and waits then until
// it may go on.
type pace struct {
	io.Reader
	left int
	half chan<- struct{}
	goOn <-chan struct{}
}

func (p *pace) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), 64<<10)])
	if p.left > 0 {
		if p.left -= n; p.left <= 0 {
			close(p.half)
			<-p.goOn
		}
	}
	return n, err
}

// putWhile writes a file, and in the middle of it something happens.
func (f *fleet) putWhile(c *client.Client, path string, data []byte, happens func()) error {
	w, err := c.CreateFile(f.t.Context(), path, client.WriteOptions{BlockSize: muster.MinBlockSize, Window: 2 << 20, Atomic: true})
	if err != nil {
		return err
	}
	half, goOn := make(chan struct{}), make(chan struct{})
	written := make(chan error, 1)
	go func() {
		_, err := w.ReadFrom(&pace{bytes.NewReader(data), len(data) / 2, half, goOn})
		written <- err
	}()
	select {
	case err := <-written:
		return fmt.Errorf("before the middle: %w", errors.Join(err, w.Abort(f.t.Context())))
	case <-half:
	}
	happens()
	close(goOn)
	if err := <-written; err != nil {
		return errors.Join(err, w.Abort(f.t.Context()))
	}
	return w.Close()
}

func someBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

func readAll(t *testing.T, c *client.Client, path string) ([]byte, error) {
	f, err := c.Open(t.Context(), path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// TestADatanodeIsKilledWhileFilesAreWritten: the writer goes on with the others; what was closed is
// read, from any of them, and from the killed one too when it is back.
func TestADatanodeIsKilledWhileFilesAreWritten(t *testing.T) {
	f := startFleet(t, 4)
	c := f.dial()
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	files := map[string][]byte{}
	for round := range rounds {
		path, data := fmt.Sprint("/f", round), someBytes(uint64(round), 9<<20+5)
		killed := f.nodes[round%len(f.nodes)]
		if err := f.putWhile(c, path, data, killed.kill); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		files[path] = data
		for path, data := range files {
			if got, err := readAll(t, c, path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("round %d, without the killed one: %s: %d of %d bytes, %v", round, path, len(got), len(data), err)
			}
		}
		f.start(round % len(f.nodes))
	}
	// Each of the others is missing once: so all that is read then comes from those that are left.
	for i, n := range f.nodes {
		n.kill()
		for path, data := range files {
			if got, err := readAll(t, f.dial(), path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("without datanode %d: %s: %d of %d bytes, %v", i, path, len(got), len(data), err)
			}
		}
		f.start(i)
	}
}

// TestTheServerIsKilledWhileFilesAreWritten: the writer goes on when it is back, and what was closed
// before is there.
func TestTheServerIsKilledWhileFilesAreWritten(t *testing.T) {
	f := startFleet(t, 3)
	c := f.dial()
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	files := map[string][]byte{}
	for round := range rounds {
		path, data := fmt.Sprint("/f", round), someBytes(uint64(round), 9<<20+5)
		err := f.putWhile(c, path, data, func() {
			f.up.kill()
			f.up = startServerProcess(t, f.args...)
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		files[path] = data
		for path, data := range files {
			if got, err := readAll(t, c, path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("round %d: %s: %d of %d bytes, %v", round, path, len(got), len(data), err)
			}
		}
	}
	names, err := c.ReadDir(t.Context(), "/")
	if err != nil || len(names) != len(files) {
		t.Errorf("%d names, want %d: %v", len(names), len(files), err)
	}
}

// TestAPutWithoutAServerFailsClearly, and what was put before is there when the server is back.
func TestAPutWithoutAServerFailsClearly(t *testing.T) {
	f := startFleet(t, 3)
	c, err := client.Dial(t.Context(), f.up.address, client.Options{User: "ann", CommandTimeout: time.Second, Attempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := f.dial().Chmod(t.Context(), "/", 0o777); err != nil {
		t.Fatal(err)
	}
	data := someBytes(1, 9<<20)
	if err := f.putWhile(c, "/before", data, func() {}); err != nil {
		t.Fatal(err)
	}
	err = f.putWhile(c, "/f", data, f.up.kill)
	if code := muster.CodeOf(err); err == nil || code != muster.ErrUnavailable && code != muster.ErrDeadline || !strings.Contains(err.Error(), "/f") {
		t.Errorf("put without a server: %v", err)
	}
	f.up = startServerProcess(t, f.args...)
	if got, err := readAll(t, f.dial(), "/before"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("what was put before: %d bytes, %v", len(got), err)
	}
	if _, err := f.dial().Stat(context.Background(), "/f"); !errors.Is(err, muster.ErrNotFound) {
		t.Errorf("what was not put: %v", err)
	}
}

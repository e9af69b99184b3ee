package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// counted counts the connections that are open, and can cut them all.
type counted struct {
	open, most atomic.Int64
	all        sync.Map // of counting, as keys
}

type counting struct {
	net.Conn
	close func() error
}

func (c *counting) Close() error { return c.close() }

func (o *counted) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	n := o.open.Add(1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
	c := &counting{Conn: conn}
	c.close = sync.OnceValue(func() error {
		o.open.Add(-1)
		o.all.Delete(c)
		return conn.Close()
	})
	o.all.Store(c, nil)
	return c, nil
}

// cut cuts all connections below their users, as a failing network does.
func (o *counted) cut() {
	o.all.Range(func(c, _ any) bool {
		_ = c.(*counting).Conn.Close()
		return true
	})
}

// TestManyFilesTakeFewConnections: 1,000 open files that were all begun, and 64 who read at once.
func TestManyFilesTakeFewConnections(t *testing.T) {
	const connections = 6
	s := startSite(t, 3, func(*server.Options) {})
	var conns counted
	c := dial(t, s.addr(), client.Options{Datanodes: blocks.DatanodesOptions{Connections: connections, Dial: conns.dial}})
	data := random(300_000)
	write(t, c, "/f", client.WriteOptions{}, data)
	writing := conns.open.Load()
	files := make([]*client.File, 1000)
	for i := range files {
		var err error
		files[i], err = c.OpenFile(t.Context(), "/f", client.ReadOptions{Mode: []blocks.Mode{blocks.Auto, blocks.ByStream}[i%2]})
		must(t, err)
		defer files[i].Close()
	}
	var readers sync.WaitGroup
	for r := range 64 {
		readers.Go(func() {
			p := make([]byte, 50_000)
			for i := r; i < len(files); i += 64 {
				if n, err := io.ReadFull(files[i], p); err != nil || !bytes.Equal(p, data[:n]) {
					t.Errorf("file %d: %d, %v", i, n, err)
				}
				if n, err := files[i].ReadAt(p, 200_000); err != nil || !bytes.Equal(p, data[200_000:][:n]) {
					t.Errorf("file %d: positioned: %d, %v", i, n, err)
				}
			}
		})
	}
	readers.Wait()
	if most := conns.most.Load(); most > writing+connections*int64(len(s.nodes)) {
		t.Errorf("%d connections at a time, %d of them of writers", most, writing)
	}
}

// TestClientsThatVanishLeaveNothing: their connections are cut in the middle of reads and writes, and
// the datanodes close the files that they had for them.
func TestClientsThatVanishLeaveNothing(t *testing.T) {
	s := startSite(t, 3, func(*server.Options) {})
	steady := dial(t, s.addr(), client.Options{})
	data := random(9 << 20)
	write(t, steady, "/f", client.WriteOptions{BlockSize: muster.MinBlockSize}, data)
	_ = read(t, steady, "/f")
	for round := range 2 {
		var conns counted
		c, err := client.Dial(t.Context(), s.addr(), client.Options{User: "root", Datanodes: blocks.DatanodesOptions{Dial: conns.dial}})
		must(t, err)
		f, err := c.OpenFile(t.Context(), "/f", client.ReadOptions{Mode: blocks.ByStream})
		must(t, err)
		_, err = io.ReadFull(f, make([]byte, 100_000))
		must(t, err)
		begin(t, c, fmt.Sprint("/w", round), data)
		conns.cut()
		must(t, errors.Join(f.Close(), c.Close()))
		if n := conns.open.Load(); n != 0 {
			t.Errorf("the client keeps %d connections", n)
		}
		must(t, steady.Remove(t.Context(), fmt.Sprint("/w", round)))
	}
	for _, p := range s.nodes { // what was written is gone, and with it the open files
		eventually(t, fmt.Sprintf("datanode %d has one file", p.number), func() bool { return p.onDisk() == int64(len(data)) })
		eventually(t, fmt.Sprintf("datanode %d has no files open that are gone", p.number), func() bool { return openDeleted(t, p.options.Dirs[0]) == 0 })
	}
}

// openDeleted counts this process's open files of a folder that are deleted already.
func openDeleted(t *testing.T, dir string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // there is no such thing here
	}
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && bytes.HasPrefix([]byte(target), []byte(dir+"/blocks/")) && bytes.HasSuffix([]byte(target), []byte(" (deleted)")) {
			n++
		}
	}
	return n
}

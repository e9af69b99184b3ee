package client_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestADatanodeFailsWhenTheOthersAreDone: the block is cut at what is durable everywhere, though the
// others have committed all of it. Each is as good as any.
func TestADatanodeFailsWhenTheOthersAreDone(t *testing.T) {
	s := startSite(t, 4, func(*server.Options) {})
	c := dial(t, s.addr(), client.Options{})
	data := random(muster.MinBlockSize)
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	var failing atomic.Pointer[post]
	for _, p := range s.nodes {
		var written int
		fail := func() error { // one goroutine writes a block
			if written++; written < 4 || !failing.CompareAndSwap(nil, p) && failing.Load() != p {
				return nil
			}
			<-release
			return syscall.ENOSPC
		}
		p.writing.Store(&fail)
	}
	done := make(chan error, 1)
	go func() {
		w, err := c.CreateFile(t.Context(), "/f", client.WriteOptions{BlockSize: muster.MinBlockSize, Window: 8 << 20})
		if err == nil {
			_, err = w.Write(data)
			err = errors.Join(err, w.Close())
		}
		done <- err
	}()
	var first muster.Block
	eventually(t, "two have committed the block", func() bool {
		if info, err := c.Stat(t.Context(), "/f"); err != nil || len(info.Entry.Blocks) == 0 {
			return false
		}
		first = ids(t, c, "/f")[0]
		committed := 0
		for _, p := range s.nodes {
			if p.has(idOf(first), int64(len(data))) {
				committed++
			}
		}
		return committed == 2
	})
	for _, p := range s.nodes {
		if p != failing.Load() {
			p.writing.Store(nil)
		}
	}
	letGo()
	must(t, <-done)
	for _, p := range s.nodes {
		p.writing.Store(nil)
	}
	list := ids(t, c, "/f")
	if len(list) != 2 || idOf(list[0]) != idOf(first) || list[0].Length == int64(len(data)) {
		t.Fatalf("blocks %v", list)
	}
	for _, p := range s.nodes {
		p.stop()
		if got := read(t, c, "/f"); !bytes.Equal(got, data) {
			t.Errorf("without datanode %d: %d bytes", p.number, len(got))
		}
		sum, err := c.Checksum(t.Context(), "/f")
		if want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); err != nil || sum != want {
			t.Errorf("without datanode %d: checksum %x, want %x, %v", p.number, sum, want, err)
		}
		p.start()
	}
}

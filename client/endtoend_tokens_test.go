package client_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/server"
)

// TestFilesStayOpenLongerThanTheirTokens: keys go, and readers and writers of long ago go on.
func TestFilesStayOpenLongerThanTheirTokens(t *testing.T) {
	s := startSite(t, 3, func(o *server.Options) {
		o.Locations.Registry.KeyEvery, o.Locations.Registry.KeyLife = time.Second, 3*time.Second
	})
	c := dial(t, s.addr(), client.Options{})
	data := random(2*muster.MinBlockSize + 5)
	o := client.WriteOptions{BlockSize: muster.MinBlockSize, Window: 2 << 20}
	write(t, c, "/f", o, data)
	f, err := c.OpenFile(t.Context(), "/f", client.ReadOptions{ReadAhead: -1})
	must(t, err)
	defer f.Close()
	p := make([]byte, 100_000)
	_, err = io.ReadFull(f, p)
	must(t, err)
	w, err := c.CreateFile(t.Context(), "/g", o)
	must(t, err)
	_, err = w.Write(data[:100])
	must(t, err)
	before := newestKey(t, s.running.Registry())
	eventually(t, "the keys are others", func() bool { return newestKey(t, s.running.Registry()) >= before+5 })
	if n, err := f.ReadAt(p, 5_000_000); err != nil || !bytes.Equal(p[:n], data[5_000_000:][:len(p)]) {
		t.Errorf("a positioned read: %d, %v", n, err)
	}
	if rest, err := io.ReadAll(f); err != nil || !bytes.Equal(rest, data[len(p):]) {
		t.Errorf("the rest: %d bytes, %v", len(rest), err)
	}
	_, err = w.Write(data[100:])
	must(t, err)
	must(t, w.Close())
	if got := read(t, c, "/g"); !bytes.Equal(got, data) {
		t.Errorf("what was written: %d bytes", len(got))
	}
}

// newestKey is the number of the newest key of block tokens.
func newestKey(t *testing.T, r *registry.Registry) (newest uint32) {
	t.Helper()
	keys, err := r.BlockKeys(t.Context())
	must(t, err)
	for _, k := range keys.Keys {
		newest = max(newest, k.ID)
	}
	return newest
}

// TestFilesWithoutTokens are written and read as well.
func TestFilesWithoutTokens(t *testing.T) {
	s := startSite(t, 3, func(o *server.Options) { o.Locations.Tokens = false })
	c := dial(t, s.addr(), client.Options{})
	data := random(5 << 20)
	write(t, c, "/f", client.WriteOptions{BlockSize: muster.MinBlockSize}, data)
	if got := read(t, c, "/f"); !bytes.Equal(got, data) {
		t.Errorf("%d bytes", len(got))
	}
}

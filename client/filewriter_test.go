package client_test

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// TestBlockOfUnknownOutcome: the server gives a block and its answer never arrives. Close ends the
// file without it, and leaves nothing to the lease.
func TestBlockOfUnknownOutcome(t *testing.T) {
	h := startHouse(t, 3)
	other := dial(t, h.addr(), client.Options{})
	p := newProxy(t, h.addr())
	c := dial(t, p.addr(), client.Options{CommandTimeout: 500 * time.Millisecond})
	data := random(9 << 20)
	for path, applied := range map[string]bool{"/applied": true, "/refused": false} {
		w, err := c.CreateFile(t.Context(), path, client.WriteOptions{BlockSize: muster.MinBlockSize})
		must(t, err)
		_, err = w.Write(data[:muster.MinBlockSize])
		must(t, err)
		if !applied { // whatever the writer does next is refused, and it cannot know that it was
			must(t, other.Remove(t.Context(), path))
		}
		p.cutEach(0)
		_, err = w.Write(data[muster.MinBlockSize:])
		if !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s: write: %v", path, err)
		}
		p.spare()
		if err := w.Close(); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s: close: %v", path, err)
		}
		info, err := other.Stat(t.Context(), path)
		if !applied {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if must(t, err); info.Entry.Flags != 0 || len(info.Entry.Blocks) != 1 {
			t.Errorf("%s: %+v", path, info.Entry)
		}
		if got := read(t, other, path); !bytes.Equal(got, data[:muster.MinBlockSize]) {
			t.Errorf("%s: %d bytes", path, len(got))
		}
	}
}

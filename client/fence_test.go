package client_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestAWriterThatIsCutOffStops: it reaches the datanodes, and not the server, which closes its files when
// the lease has ended. Nothing that it does afterwards is a success, also when it reaches the server
// again; what it does anew is.
func TestAWriterThatIsCutOffStops(t *testing.T) {
	s := startSite(t, 3, func(o *server.Options) { o.Leases.Lease = 2 * time.Second })
	other := dial(t, s.addr(), client.Options{})
	p := newProxy(t, s.addr())
	c := dial(t, p.addr(), client.Options{User: "root"})
	const window = 2 << 20
	data := random(3 << 20)
	var all []*client.FileWriter
	for path, atomic := range map[string]bool{"/busy": false, "/idle": false, "/atomic": true} {
		w, err := c.CreateFile(t.Context(), path, client.WriteOptions{Atomic: atomic, Window: window})
		must(t, err)
		_, err = w.Write(data)
		must(t, err)
		all = append(all, w)
	}
	p.cutEach(0)
	for _, w := range all {
		if w.Name() == "/busy" {
			var err error
			for err == nil { // the datanodes take it all, until the lease has ended
				_, err = w.Write(data[:1000])
			}
			if !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("write: %v", err)
			}
		}
	}
	for _, path := range []string{"/busy", "/idle"} {
		eventually(t, path+" is closed", func() bool {
			info, err := other.Stat(t.Context(), path)
			must(t, err)
			return info.Entry.Flags&muster.FlagWriting == 0
		})
	}
	for i, w := range all {
		if i%2 == 0 {
			p.spare()
		}
		_, err := w.Write(data)
		if !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: write: %v", w.Name(), err)
		}
		if err := w.Close(); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: close: %v", w.Name(), err)
		}
	}
	for _, path := range []string{"/busy", "/idle"} {
		if got := read(t, other, path); len(got) < len(data)-window || path != "/busy" && !bytes.HasPrefix(data, got) {
			t.Errorf("%s: %d bytes", path, len(got))
		}
	}
	write(t, c, "/again", client.WriteOptions{}, data)
	if got := read(t, other, "/again"); !bytes.Equal(got, data) {
		t.Errorf("%d bytes", len(got))
	}
}

package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// begun is a file of which a writer has written so much that it does not come back.
const (
	begunSize   = 11<<20 + 12_345
	begunWindow = 2 << 20
)

// begin writes a file, but for its end. All but the window of it is durable then.
func begin(t *testing.T, c *client.Client, path string, data []byte) *client.FileWriter {
	t.Helper()
	w, err := c.CreateFile(t.Context(), path, client.WriteOptions{BlockSize: muster.MinBlockSize, Window: begunWindow})
	must(t, err)
	for rest := data; len(rest) > 0; {
		n, err := w.Write(rest[:min(len(rest), 100_000)])
		must(t, err)
		rest = rest[n:]
	}
	return w
}

// TestAbandonedFilesAreClosed at no less than what the writer was told to be durable, whatever
// datanode has died with it.
func TestAbandonedFilesAreClosed(t *testing.T) {
	for _, stopped := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(stopped, " datanodes stopped"), func(t *testing.T) {
			s := startSite(t, 3, func(o *server.Options) { o.Leases.Lease = 3 * time.Second })
			other := dial(t, s.addr(), client.Options{})
			writer, err := client.Dial(t.Context(), s.addr(), client.Options{User: "root"})
			must(t, err)
			data := random(begunSize)
			w := begin(t, writer, "/f", data)
			if _, err := other.Create(t.Context(), "/f"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("another writer: %v", err)
			}
			for _, p := range s.nodes[:stopped] {
				p.stop()
			}
			must(t, writer.Close())
			if _, err := w.Write(data); err == nil {
				t.Error("it is written after its client was closed")
			}
			closed(t, other, "/f")
			got := read(t, other, "/f")
			if len(got) < begunSize-begunWindow || !bytes.HasPrefix(data, got) {
				t.Errorf("%d bytes of %d", len(got), len(data))
			}
			for _, p := range s.nodes[:stopped] {
				p.start()
			}
			// Each of them has all blocks in the end, and can give them.
			for _, b := range ids(t, other, "/f") {
				for _, p := range s.nodes {
					eventually(t, fmt.Sprintf("block %v is on datanode %d", idOf(b), p.number), func() bool { return p.has(idOf(b), b.Length) })
				}
			}
			for i, p := range s.nodes {
				p.stop()
				if again := read(t, other, "/f"); !bytes.Equal(again, got) {
					t.Errorf("without datanode %d: %d bytes of %d", i, len(again), len(got))
				}
				p.start()
			}
			write(t, other, "/f", client.WriteOptions{Overwrite: true}, []byte("next"))
			if got := read(t, other, "/f"); string(got) != "next" {
				t.Errorf("the next writer's: %q", got)
			}
		})
	}
}

// TestAbandonedFilesAreClosedAfterARestart: the server forgets no writer.
func TestAbandonedFilesAreClosedAfterARestart(t *testing.T) {
	s := startSite(t, 3, func(o *server.Options) { o.Leases.Lease = 3 * time.Second })
	writer, err := client.Dial(t.Context(), s.addr(), client.Options{User: "root"})
	must(t, err)
	data := random(begunSize)
	begin(t, writer, "/f", data)
	must(t, writer.Close())
	s.kill()
	s.up()
	other := dial(t, s.addr(), client.Options{})
	closed(t, other, "/f")
	if got := read(t, other, "/f"); len(got) < begunSize-begunWindow || !bytes.HasPrefix(data, got) {
		t.Errorf("%d bytes of %d", len(got), len(data))
	}
	write(t, other, "/f", client.WriteOptions{Overwrite: true}, []byte("next"))
	if got := read(t, other, "/f"); string(got) != "next" {
		t.Errorf("the next writer's: %q", got)
	}
}

// closed waits until nobody writes a file.
func closed(t *testing.T, c *client.Client, path string) {
	t.Helper()
	eventually(t, path+" is closed", func() bool {
		info, err := c.Stat(t.Context(), path)
		must(t, err)
		return info.Entry.Flags&muster.FlagWriting == 0
	})
}

package client_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestDeletedFilesFreeTheDisks, even if a datanode is down meanwhile and the server starts again:
// the blocks of all others stay.
func TestDeletedFilesFreeTheDisks(t *testing.T) {
	s := startSite(t, 3, func(*server.Options) {})
	c := dial(t, s.addr(), client.Options{})
	data := random(muster.MinBlockSize + 500_000)
	o := client.WriteOptions{BlockSize: muster.MinBlockSize, Parents: true, Replication: muster.Replicated(3)}
	for i := range 4 {
		write(t, c, fmt.Sprint("/gone/", i), o, data)
	}
	write(t, c, "/replaced", o, data)
	write(t, c, "/kept", o, data)
	on := func(want int) {
		t.Helper()
		for _, p := range s.nodes {
			eventually(t, fmt.Sprintf("datanode %d has %d files", p.number, want), func() bool { return p.onDisk() == int64(want*len(data)) })
		}
	}
	on(6)
	must(t, c.Remove(t.Context(), "/gone/0"))
	on(5)
	away := s.nodes[0]
	away.stop()
	must(t, c.RemoveAll(t.Context(), "/gone"))
	write(t, c, "/replaced", client.WriteOptions{Overwrite: true, Atomic: true}, nil)
	for _, p := range s.nodes[1:] {
		eventually(t, fmt.Sprintf("datanode %d has one file", p.number), func() bool { return p.onDisk() == int64(len(data)) })
	}
	s.kill()
	s.up()
	away.start()
	on(1)
	for _, p := range s.nodes { // what is left is on each
		p.stop()
		if got := read(t, c, "/kept"); !bytes.Equal(got, data) {
			t.Errorf("without datanode %d: %d bytes", p.number, len(got))
		}
		p.start()
	}
}

package client_test

import (
	"bytes"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestFilesOfTwoDatanodesComeToTheThird: while it is away writers go on with two, and when it is back
// it gets what it lacks, without anybody writing any more.
func TestFilesOfTwoDatanodesComeToTheThird(t *testing.T) {
	s := startSite(t, 3, func(*server.Options) {})
	c := dial(t, s.addr(), client.Options{})
	data := random(9 << 20)
	o := client.WriteOptions{BlockSize: muster.MinBlockSize, Replication: muster.Replicated(3)}
	write(t, c, "/before", o, data[:100]) // makes the containers known to all three
	s.nodes[2].stop()
	for _, path := range []string{"/f", "/g"} {
		write(t, c, path, o, data)
		if got := read(t, c, path); !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes", path, len(got))
		}
	}
	s.nodes[2].start()
	for _, path := range []string{"/before", "/f", "/g"} {
		for _, b := range ids(t, c, path) {
			for _, n := range s.nodes {
				eventually(t, "block "+idOf(b).String()+" is everywhere", func() bool { return n.has(idOf(b), b.Length) })
			}
		}
	}
	for _, n := range s.nodes[:2] { // and can be read there alone
		n.stop()
	}
	if got := read(t, c, "/g"); !bytes.Equal(got, data) {
		t.Errorf("on the third: %d bytes", len(got))
	}
}

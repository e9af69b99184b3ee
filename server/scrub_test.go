package server_test

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// TestDatanodesAreScrubbed from the namespace server: one that is gone, or was never there, keeps no other.
func TestDatanodesAreScrubbed(t *testing.T) {
	in := start(t, server.Options{Locations: server.Locating{Tokens: true, Registry: registry.Options{Heartbeat: 10 * time.Millisecond}}})
	f := fleet{}
	var dirs, ids []string
	var nodes []*dn
	for range 3 {
		o := datanodeOptions(in, t.TempDir())
		n := startNode(t, o)
		f[uint32(n.Addr().(*net.TCPAddr).Port)] = n
		known, err := in.Datanodes(root(t), &pb.DatanodesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		dirs, nodes, ids = append(dirs, o.Dirs[0]), append(nodes, n), append(ids, known.Datanodes[len(known.Datanodes)-1].Node.Id)
	}
	p := in.newPen(t, "")
	s := p.start("/f", nil)
	for i := range s.Target.Nodes {
		f.write(p.ctx, t, s.Target, i, s.File, data(1, 5000), true)
	}
	spoil(t, dirs[1], 5000, func(path string, b []byte) error {
		b[0] ^= 1
		return os.WriteFile(path, b, 0o600)
	})
	ask := func(start bool, names ...string) []*pb.ScrubbedNode {
		t.Helper()
		r, err := in.Scrub(root(t), &pb.ScrubNodesRequest{Start: start, Nodes: names})
		if err != nil {
			t.Fatal(err)
		}
		return r.Nodes
	}
	for _, m := range ask(false) {
		if m.Code != 0 || m.Started || m.Scrub.Finished != 0 || m.Scrub.Running {
			t.Errorf("before: %v", m)
		}
	}
	for _, m := range ask(true) {
		if m.Code != 0 || !m.Started {
			t.Errorf("started: %v", m)
		}
	}
	soon(t, "all are scrubbed", func() bool {
		for _, m := range ask(false) {
			if m.Scrub.Running {
				return false
			}
		}
		return true
	})
	for i, id := range ids {
		m := ask(false, id)[0]
		if want := uint64(i % 2); m.Scrub.Blocks != 1 || m.Scrub.Bytes == 0 || m.Scrub.Damaged != want || m.Scrub.Finished == 0 || m.Node.Id != id {
			t.Errorf("datanode %d, %d damaged: %v", i, want, m)
		}
	}
	_ = nodes[2].pool.Close()
	nodes[2].stop(t)
	got := ""
	for _, m := range ask(true, ids[0], ids[2], "nowhere", "127.0.0.1") {
		got += fmt.Sprintln(m.Node.Id, muster.Code(m.Code).Name(), m.Started)
	}
	want := fmt.Sprintln(ids[0], "OK", true) + fmt.Sprintln(ids[2], "UNAVAILABLE", false) + fmt.Sprintln("nowhere", "NOT_FOUND", false) + fmt.Sprintln("127.0.0.1", "INVALID_ARGUMENT", false)
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	_, err := in.Scrub(as(t, "bob"), &pb.ScrubNodesRequest{})
	wantCode(t, err, muster.ErrPermission)
}

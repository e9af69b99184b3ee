package server_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/server"
)

// replicated is a cluster whose location service is quick to copy and to drop.
func replicated(t *testing.T, datanodes int) (*instance, []*dn, []server.DatanodeOptions) {
	t.Helper()
	in := start(t, server.Options{Locations: server.Locating{Tokens: true, Registry: registry.Options{
		Heartbeat: 10 * time.Millisecond, StaleAfter: time.Second, DeadAfter: 1500 * time.Millisecond,
		PlanEvery: 20 * time.Millisecond, ReplicaGrace: 200 * time.Millisecond, OrderTimeout: 5 * time.Second,
	}}})
	nodes, options := make([]*dn, datanodes), make([]server.DatanodeOptions, datanodes)
	for i := range nodes {
		options[i] = datanodeOptions(in, t.TempDir())
		d, err := server.StartDatanode(t.Context(), options[i])
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = reach(t, d)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			n.stop(t)
		}
	})
	return in, nodes, options
}

// complete is how many datanodes have blocks of a container, and whether all have as many.
func complete(t *testing.T, in *instance, id uint64, blocks uint64) int {
	t.Helper()
	c, err := in.Registry().Container(id)
	if err != nil {
		t.Fatal(err)
	}
	states, n := in.Registry().Datanodes(), 0
	for _, r := range c.Replicas {
		if r.Blocks == blocks && r.Damaged == 0 && states[r.Node].Health == muster.InService {
			n++
		}
	}
	return n
}

func soon(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}

// What was on a datanode that stays away is copied to another, and what is too much is dropped when it
// is back; the blocks are the same ever after.
func TestBlocksOfADatanodeThatIsGoneAreCopied(t *testing.T) {
	in, nodes, options := replicated(t, 4)
	byNumber := map[muster.NodeNumber]int{}
	for i, n := range nodes {
		byNumber[n.Number()] = i
	}
	a, err := in.Registry().Allocate(t.Context(), registry.AllocateRequest{Replication: muster.Replicated(3), Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	written := map[muster.BlockID][]byte{}
	where := map[uint64][]muster.NodeNumber{}
	for _, p := range a.Placements {
		where[p.Container] = p.Nodes
	}
	blocks := map[uint64]uint64{}
	for i, id := range a.Blocks {
		written[id] = data(uint64(i), 100_000*(i+1))
		blocks[id.Container]++
		for _, n := range where[id.Container] {
			put(t, nodes[byNumber[n]], id, written[id])
		}
	}
	all := func(want int) bool {
		for c, n := range blocks {
			if complete(t, in, c, n) != want {
				return false
			}
		}
		return true
	}
	soon(t, "all is reported", func() bool { return all(3) })
	gone := byNumber[a.Placements[0].Nodes[0]]
	nodes[gone].stop(t)
	soon(t, "it is dead", func() bool { return in.Registry().Stats().Dead == 1 })
	soon(t, "what it had is copied", func() bool { return all(3) })
	for id, b := range written {
		for i, n := range nodes {
			if i == gone {
				continue
			}
			got := make([]byte, len(b))
			if k, _, err := n.Blocks().Read(id, 0, got, nil); err != nil || k != len(b) || !bytes.Equal(got, b) {
				t.Errorf("block %v on datanode %d: %d bytes, %v", id, i, k, err)
			}
		}
	}
	d, err := server.StartDatanode(t.Context(), options[gone])
	if err != nil {
		t.Fatal(err)
	}
	nodes[gone] = reach(t, d)
	soon(t, "what is too much is dropped", func() bool {
		s := in.Registry().Stats()
		return s.Dead == 0 && s.Drops == 0 && s.Surplus == 0 && s.UnderReplicated == 0 && all(3)
	})
}

// put writes a block to a datanode's store.
func put(t *testing.T, n *dn, id muster.BlockID, b []byte) {
	t.Helper()
	w, err := n.Blocks().Create(id, 7)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(b); at += muster.MaxTransfer {
		part := b[at:min(len(b), at+muster.MaxTransfer)]
		if err := w.Write(int64(at), part, sums(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
}

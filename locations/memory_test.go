package locations_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// cluster is a location service with any number of containers, on three nodes of fifty.
type cluster struct{}

const clusterNodes = 50

func (cluster) Lookup(_ context.Context, ids []uint64) (Answer, error) {
	a := Answer{Outcomes: make([]Outcome, len(ids))}
	nodes := make([]muster.NodeNumber, 3*len(ids)) // in one piece, which nobody may keep
	for i, id := range ids {
		on := nodes[3*i : 3*i+3]
		for k := range on {
			on[k] = muster.NodeNumber((id + uint64(k)*(1+id/clusterNodes)) % clusterNodes)
		}
		a.Outcomes[i].Placement = muster.Placement{Container: id, Replication: muster.Replicated(3), Closed: true, Nodes: on}
	}
	for n := range muster.NodeNumber(clusterNodes) {
		a.Nodes = append(a.Nodes, muster.Node{Number: n, ID: "a node's id of thirty-six characters", Host: "host.example", Rack: "/rack"})
	}
	return a, nil
}

// fill makes a cache that holds the containers from 0 to n.
func fill(t testing.TB, n int) *Cache {
	t.Helper()
	c := newCache(t, cluster{}, Options{Size: n})
	out := make([]Located, MaxBatch)
	for first := 0; first < n; first += MaxBatch {
		ids := numbers(uint64(first), uint64(min(MaxBatch, n-first)))
		if err := c.Get(t.Context(), ids, out); err != nil {
			t.Fatal(err)
		}
	}
	if size := c.Stats().Size; size != n {
		t.Fatalf("%d kept of %d", size, n)
	}
	return c
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAMillionContainersTakeLittleMemory: 200 bytes each at most.
func TestAMillionContainersTakeLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const containers = 1_000_000
	before := heap()
	c := fill(t, containers)
	each := float64(heap()-before) / containers
	runtime.KeepAlive(c)
	t.Logf("%.1f bytes a container", each)
	if each > 200 {
		t.Errorf("%.1f bytes a container", each)
	}
	// What is replaced is let go.
	before = heap()
	out := make([]Located, MaxBatch)
	for first := uint64(0); first < containers/5; first += MaxBatch {
		if err := c.Reload(t.Context(), numbers(first, MaxBatch), out); err != nil {
			t.Fatal(err)
		}
	}
	clear(out)
	if more := float64(heap()-before) / (containers / 5); more > 5 {
		t.Errorf("%.1f bytes more for each that was reloaded", more)
	}
	runtime.KeepAlive(c)
}

// TestAnswersFromMemoryDoNotAllocate, and neither do look-ups of nodes.
func TestAnswersFromMemoryDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := fill(t, 1000)
	ids, out := numbers(0, 1000), make([]Located, 1000)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		var one [1]Located
		if err := c.Get(ctx, []uint64{7}, one[:]); err != nil || one[0].Err != nil {
			t.Fatal(err, one[0].Err)
		}
		if err := c.Get(ctx, ids, out); err != nil {
			t.Fatal(err)
		}
		for _, n := range out[0].Placement.Nodes {
			if c.Node(n) == nil {
				t.Fatal("no record")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

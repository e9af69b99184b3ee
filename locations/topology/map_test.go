package topology

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
)

var edge = []Rule{{"10.9.1.0/24", "/r1"}, {"10.9.2.0/24", "/r2"}, {"10.9.9.0/24", "/r9"}, {"gateway", "/r1"}}

// costsFrom returns the costs to nodes 0, 1 and so on.
func costsFrom(r *Reader, nodes int) []int32 {
	costs := make([]int32, nodes)
	for i := range costs {
		costs[i] = r.Cost(muster.NodeNumber(i))
	}
	return costs
}

// TestReadersAreResolvedInOrder: node, location, mapping, none.
func TestReadersAreResolvedInOrder(t *testing.T) {
	nodes := nodesAt("/r1", "/r1", "/r2", "/r1/too/deep")
	nodes[1].Host = "gateway" // the mapping has it too
	nodes[2].Host, nodes[2].Address = "10.9.1.1", ""
	var m Map
	m.Swap(newTree(t, Schema{}, nodes, edge...))
	far := int32(MaxCost)
	for host, want := range map[string][]int32{
		"id-0": {0, 2, 4, far}, "dn-0": {0, 2, 4, far}, "DN-0": {0, 2, 4, far}, "10.0.0.0": {0, 2, 4, far}, "::ffff:10.0.0.0": {0, 2, 4, far},
		"gateway": {2, 0, 4, far}, "10.9.1.1": {4, 4, 0, far},
		"/r1": {2, 2, 4, far}, "/r2/": {4, 4, 2, far},
		"10.9.1.2": {2, 2, 4, far}, "10.9.2.2": {4, 4, 2, far},
		"10.9.9.9": {2, 2, 2, far}, "/r7": {2, 2, 2, far}, // a rack without nodes: all are as far
		"dn-3": {far, far, far, 0}, // in no rack, but itself
	} {
		r := m.ReaderFor(host)
		if r == nil {
			t.Errorf("%s: no reader", host)
		} else if got := costsFrom(r, 4); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
	for _, host := range []string{"", "192.168.0.1", "elsewhere", "id-9", "GATEWAY.example", fmt.Sprintf("%0*d", muster.MaxRackBytes+1, 0), "/../r1"} {
		if r := m.ReaderFor(host); r != nil {
			t.Errorf("%s: %v", host, costsFrom(r, 4))
		}
	}
}

// TestARackWithoutNodesIsNearWhatItsParentsHave: clients may be in racks of their own.
func TestARackWithoutNodesIsNearWhatItsParentsHave(t *testing.T) {
	var m Map
	m.Swap(mustNew(t, levels(1, 1, 1, 0), nodesAt("/d1/r1", "/d1/r2", "/d2/r1"), Rule{"10.9.0.0/16", "/d1/clients"}))
	for range 2 { // the second is remembered
		r := m.ReaderFor("10.9.0.1")
		if near, other, far := r.Cost(0), r.Cost(1), r.Cost(2); near != other || near >= far {
			t.Error(near, other, far)
		}
	}
}

// TestAllNodesOfTheReadersMachineAreLocal, whichever of them are in a rack.
func TestAllNodesOfTheReadersMachineAreLocal(t *testing.T) {
	nodes := nodesAt("/too/deep", "/r1", "/r3", "/r2", "/r1") // the machine is where the first is
	for i := range 3 {
		nodes[i].Address = "10.1.1.1"
	}
	var m Map
	m.Swap(newTree(t, Schema{}, nodes))
	if got := costsFrom(m.ReaderFor("10.1.1.1"), 5); !slices.Equal(got, []int32{0, 0, 0, 4, 2}) {
		t.Error(got)
	}
	if got := costsFrom(m.ReaderFor("dn-1"), 5); !slices.Equal(got, []int32{MaxCost, 0, 4, 4, 2}) {
		t.Error("one of them by its name:", got)
	}
}

func TestTheZeroMapIsEmpty(t *testing.T) {
	var m Map
	first := m.Load()
	if again := m.Load(); first == nil || again != first || first.Len() != 0 {
		t.Error(first, again)
	}
	if r := m.ReaderFor("10.0.0.1"); r != nil {
		t.Error(r)
	}
	if got := m.ReaderFor("/r1").Sort(nil, []muster.NodeNumber{3, 4}, 1); len(got) != 2 {
		t.Error(got)
	}
}

// TestHostsAreForgottenWithTheirTree: what was resolved, if only to nothing, is remembered
// up to a bound, and never beyond a swap.
func TestHostsAreForgottenWithTheirTree(t *testing.T) {
	var m Map
	m.Swap(mustNew(t, Schema{}, cluster(8, 4), edge...))
	first := m.ReaderFor("10.9.1.7")
	if again, other := m.ReaderFor("10.9.1.7"), m.ReaderFor("10.9.1.8"); again != first || other != first {
		t.Error("a reader is made anew, or a rack's clients do not share one")
	}
	if m.ReaderFor("unknown") != nil {
		t.Error("an unknown host has a reader")
	}
	if m.ReaderFor(strings.Repeat("x", muster.MaxRackBytes+1)) != nil || remembered(&m) != 3 {
		t.Errorf("%d hosts are remembered, want 3", remembered(&m))
	}
	for i := range 3 * MaxHosts {
		m.ReaderFor(fmt.Sprintf("10.9.%d.%d", i/256, i%256))
	}
	if n := remembered(&m); n > MaxHosts || n < MaxHosts*9/10 {
		t.Errorf("%d hosts are remembered", n)
	}
	m.Swap(mustNew(t, Schema{}, cluster(8, 4), Rule{"10.9.1.0/24", "/r3"}, Rule{"unknown", "/r4"}))
	if remembered(&m) != 0 {
		t.Error("hosts of the old tree are remembered")
	}
	if at, unknown := m.ReaderFor("10.9.1.7"), m.ReaderFor("unknown"); at.Cost(2) != 2 || at.Cost(0) != 4 || unknown.Cost(3) != 2 {
		t.Error("a host is where the old tree had it")
	}
}

func remembered(m *Map) (n int) {
	v := m.load()
	for i := range v.hosts {
		for k := range v.hosts[i] {
			if v.hosts[i][k].Load() != nil {
				n++
			}
		}
	}
	return n
}

// swapping swaps trees as long as it runs: with other nodes, other numbers of racks and other
// orders of all of them, but nodes 0, 4, 8 and so on are always in rack /r1. stop returns how
// often it did.
func swapping(t testing.TB, m *Map) (stop func() int) {
	var trees []*Tree
	for _, n := range []int{32, 33, 40} {
		nodes := cluster(n, 4)
		slices.Reverse(nodes[:n/2])
		trees = append(trees, mustNew(t, Schema{}, nodes, edge...))
	}
	m.Swap(trees[0])
	done, swaps := make(chan struct{}), 0
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				swaps++
				m.Swap(trees[swaps%len(trees)])
				runtime.Gosched()
			}
		}
	})
	return func() int { close(done); swapper.Wait(); return swaps }
}

// TestTheClientsRackComesFirst, in 1,000 of 1,000, while trees are swapped all the time: of
// an edge client that is mapped to it, of one that says so, and of a datanode, before which
// only itself comes.
func TestTheClientsRackComesFirst(t *testing.T) {
	var m Map
	stop := swapping(t, &m)
	nodes := []muster.NodeNumber{1, 8, 3, 4, 2, 6}
	var readers sync.WaitGroup
	var swaps atomic.Int64
	for _, c := range []struct {
		host  string
		first []muster.NodeNumber // of these in turn
	}{
		{"10.9.1.7", []muster.NodeNumber{4, 8}}, {"gateway", []muster.NodeNumber{4, 8}}, {"/r1", []muster.NodeNumber{4, 8}},
		{"dn-0", []muster.NodeNumber{4, 8}}, {"10.0.0.4", []muster.NodeNumber{4}}, {"dn-8", []muster.NodeNumber{8}},
	} {
		readers.Go(func() {
			var order []muster.NodeNumber
			tree := m.Load()
			for i := range 1000 {
				order = m.ReaderFor(c.host).Sort(order[:0], nodes, uint64(i))
				if len(order) != len(nodes) || !slices.Contains(c.first, order[0]) || order[0]+order[1] != 4+8 {
					t.Errorf("%s: sort %d gave %v", c.host, i, order)
					return
				}
				if now := m.Load(); now != tree {
					tree = now
					swaps.Add(1)
				}
				if i%50 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	readers.Wait()
	if made := stop(); made == 0 || swaps.Load() == 0 {
		t.Errorf("%d swaps, of which readers saw %d", made, swaps.Load())
	}
}

// TestUnknownClientsGetAllNodes, in any order.
func TestUnknownClientsGetAllNodes(t *testing.T) {
	var m Map
	m.Swap(mustNew(t, Schema{}, nodesAt("", "/r1", "/r2"), edge...))
	for _, host := range []string{"192.168.0.1", muster.DefaultRack, "/default-rack/"} {
		seen := map[muster.NodeNumber]bool{}
		for seed := range uint64(100) {
			order := m.ReaderFor(host).Sort(nil, []muster.NodeNumber{1, 2, 1}, seed)
			if len(order) != 3 {
				t.Fatal(order)
			}
			seen[order[0]] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s: always the same node first: %v", host, seen)
		}
	}
}

package topology

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
)

// wellFormed checks what holds of any order: it is a permutation, costs do not fall, and
// the input is as it was.
func wellFormed(r *Reader, order, nodes, before []muster.NodeNumber) error {
	if !slices.Equal(nodes, before) {
		return fmt.Errorf("the input was changed to %v", nodes)
	}
	if !slices.Equal(slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(nodes))) {
		return errors.New("it is no permutation")
	}
	if !slices.IsSortedFunc(order, func(a, b muster.NodeNumber) int { return int(r.Cost(a)) - int(r.Cost(b)) }) {
		return errors.New("costs fall")
	}
	if at := slices.Index(order, muster.NoNode); at >= 0 && slices.ContainsFunc(order[at:], func(n muster.NodeNumber) bool { return n != muster.NoNode }) {
		return errors.New("a node comes after NoNode")
	}
	return nil
}

// topologies are five, of depth 2 to 6, with 24 nodes and one that is detached.
func topologies(t *testing.T) map[string]*Tree {
	trees := map[string]*Tree{}
	for depth := 2; depth <= 6; depth++ {
		costs := slices.Repeat([]int32{1}, depth)
		var locations []string
		for i := range 24 {
			var path strings.Builder
			for level := range depth - 2 {
				fmt.Fprintf(&path, "/x%d", i>>level&1)
			}
			locations = append(locations, "/"+path.String())
		}
		trees[fmt.Sprintf("depth=%d", depth)] = newTree(t, levels(costs...), nodesAt(append(locations, "/too/many/names/for/any/of/them")...))
	}
	return trees
}

// TestSortOfOzone restates the sort table of TestNetworkTopologyImpl. The n nearest are the
// first n of all; there is no way to ask for more.
func TestSortOfOzone(t *testing.T) {
	for name, tree := range topologies(t) {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(len(name))))
			readers := map[string]*Reader{"none": tree.Reader(Point{}), "first": tree.Reader(tree.NodePoint(0)), "last": tree.Reader(tree.NodePoint(23)), "detached": tree.Reader(tree.NodePoint(24))}
			for range 3 {
				n := muster.NodeNumber(rnd.IntN(24))
				readers[fmt.Sprint("node ", n)] = tree.Reader(tree.NodePoint(n))
			}
			for name, r := range readers {
				for length := range 7 {
					nodes := make([]muster.NodeNumber, length)
					for i := range nodes {
						nodes[i] = muster.NodeNumber(rnd.IntN(25))
					}
					switch length {
					case 5:
						nodes[4] = nodes[0] // a duplicate
					case 6:
						nodes = nil
						for n := range tree.ids {
							nodes = append(nodes, muster.NodeNumber(n))
						}
						nodes = append(nodes, muster.NoNode, 4711)
					}
					checkSorts(t, name, r, nodes, rnd)
				}
			}
		})
	}
}

// checkSorts sorts nodes in each way there is.
func checkSorts(t *testing.T, name string, r *Reader, nodes []muster.NodeNumber, rnd *rand.Rand) {
	t.Helper()
	before, seed := slices.Clone(nodes), rnd.Uint64()
	all := r.Sort(nil, nodes, seed)
	if err := wellFormed(r, all, nodes, before); err != nil {
		t.Errorf("reader %s, nodes %v: %v: %v", name, nodes, all, err)
	}
	var byPosition []muster.NodeNumber
	for _, i := range r.Order(nil, nodes, seed, inService) {
		byPosition = append(byPosition, nodes[i])
	}
	if !slices.Equal(byPosition, all) {
		t.Errorf("reader %s, nodes %v: sorted %v, ordered %v", name, nodes, all, byPosition)
	}
	for n := range len(nodes) + 1 {
		if got := r.Sort(nil, nodes[:n], seed); len(got) != n || wellFormed(r, got, nodes[:n], before[:n]) != nil {
			t.Errorf("reader %s, the first %d of %v: %v", name, n, nodes, got)
		}
	}
}

// TestNoReaderShufflesOnce: the order is that of a single shuffle, written down here once
// more, of which all nodes are part. Three have a way of their own.
func TestNoReaderShufflesOnce(t *testing.T) {
	for _, length := range []int{0, 1, 2, 4, 5, 14, 16, 17, 40} {
		nodes := make([]muster.NodeNumber, length)
		for i := range nodes {
			nodes[i] = muster.NodeNumber(i * 7)
		}
		for seed := range uint64(50) {
			want, state := slices.Clone(nodes), seed
			for i := length - 1; i > 0; i-- {
				var random uint64
				state, random = next(state)
				k := int(float64(random>>11) / (1 << 53) * float64(i+1))
				want[i], want[k] = want[k], want[i]
			}
			if got := (*Reader)(nil).Sort(nil, nodes, seed); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
	}
}

// TestTiesAreSpreadEvenly: each order of the nodes of one cost is as likely, whatever else
// is sorted with them, and though seeds are neighbours.
func TestTiesAreSpreadEvenly(t *testing.T) {
	tree := mustNew(t, Schema{}, nodesAt("/r1", "/r1", "/r1", "/r1", "/r2", "/r2", "/r3"))
	for name, r := range map[string]*Reader{"client": tree.Reader(tree.ClientPoint("/r1", "c")), "node": tree.Reader(tree.NodePoint(3)), "none": nil} {
		for _, nodes := range [][]muster.NodeNumber{{4, 0, 5, 1, 6, 2}, {2, 0, 1}} {
			want := 3
			if r == nil {
				want = len(nodes)
			}
			t.Run(fmt.Sprintf("%s/%d", name, len(nodes)), func(t *testing.T) { checkSpread(t, r, nodes, want) })
		}
	}
}

// checkSpread sorts nodes of which 0, 1 and 2 are alike, and as many come first as wanted.
func checkSpread(t *testing.T, r *Reader, nodes []muster.NodeNumber, wantFirsts int) {
	const sorts = 60_000
	orders, firsts := map[[3]muster.NodeNumber]int{}, map[muster.NodeNumber]int{}
	for seed := range uint64(sorts) {
		var order [3]muster.NodeNumber
		kept := order[:0]
		for i, n := range r.Sort(nil, nodes, seed) {
			if i == 0 {
				firsts[n]++
			}
			if n <= 2 {
				kept = append(kept, n)
			}
		}
		orders[order]++
	}
	for order, n := range orders {
		if want := sorts / 6; n < want*96/100 || n > want*104/100 {
			t.Errorf("the order %v came %d times, about %d are due", order, n, want)
		}
	}
	for first, n := range firsts {
		if want := sorts / len(firsts); n < want*96/100 || n > want*104/100 {
			t.Errorf("node %d came first %d times, about %d are due", first, n, want)
		}
	}
	if len(orders) != 6 || len(firsts) != wantFirsts {
		t.Errorf("orders %v, first %v", orders, firsts)
	}
}

// TestBlocksOfOneNodeSetDiffer: one order for all blocks of a file would have all its
// readers begin with the same node.
func TestBlocksOfOneNodeSetDiffer(t *testing.T) {
	r := mustNew(t, Schema{}, cluster(8, 2)).Reader(Detached("x"))
	nodes := []muster.NodeNumber{0, 2, 4}
	same := 0
	for block := range uint64(1000) {
		if slices.Equal(r.Sort(nil, nodes, block), r.Sort(nil, nodes, block+1)) {
			same++
		}
	}
	if same < 100 || same > 240 { // a sixth
		t.Errorf("%d of 1000 blocks have the order of the one before", same)
	}
}

func inService(muster.NodeNumber) muster.NodeState { return muster.InService }

// TestSilentDatanodesComeLast, however near they are; what is absent comes behind them.
func TestSilentDatanodesComeLast(t *testing.T) {
	states := []muster.NodeState{muster.Dead, muster.Stale, muster.Maintenance, muster.InService, muster.Draining, muster.Stale, muster.Dead}
	tree := mustNew(t, Schema{}, nodesAt("/r1", "/r1", "/r1", "/r2", "/r2", "/r2", "/r2"))
	nodes := []muster.NodeNumber{muster.NoNode, 6, 5, 0, 1, 3, 2, 4}
	state := func(n muster.NodeNumber) muster.NodeState { return states[n] }
	first, tied := map[int]bool{}, map[int]bool{}
	for seed := range uint64(1000) {
		got := tree.Reader(tree.NodePoint(0)).Order(nil, nodes, seed, state)
		first[got[1]], tied[got[5]] = true, true
		if slices.Sort(got[1:3]); got[1] != 5 || got[2] != 7 { // both on the other rack
			t.Fatal("near ones:", got)
		}
		slices.Sort(got[5:7]) // the dead
		if !slices.Equal(got, []int{6, 5, 7, 4, 2, 1, 3, 0}) {
			t.Fatal(got)
		}
	}
	if len(first) != 2 || len(tied) != 2 {
		t.Errorf("of those alike always the same came first: %v, %v", first, tied)
	}
	got := (*Reader)(nil).Order(nil, nodes, 1, state)
	slices.Sort(got[:3])
	slices.Sort(got[3:5])
	slices.Sort(got[5:7])
	if !slices.Equal(got, []int{5, 6, 7, 2, 4, 1, 3, 0}) {
		t.Error("no reader:", got)
	}
}

func TestSortAppends(t *testing.T) {
	tree := mustNew(t, Schema{}, nodesAt("/r1", "/r2", "/r2"))
	r := tree.Reader(tree.NodePoint(0))
	dst := make([]muster.NodeNumber, 1, 4)
	dst[0] = 99
	got := r.Sort(dst, []muster.NodeNumber{1, 0}, 3)
	if !slices.Equal(got, []muster.NodeNumber{99, 0, 1}) || &got[0] != &dst[0] {
		t.Error(got)
	}
	inPlace := []muster.NodeNumber{2, 0}
	if got := r.Sort(inPlace[:0], inPlace, 1); !slices.Equal(got, []muster.NodeNumber{0, 2}) {
		t.Error("in place:", got)
	}
	if got := r.Order([]int{7}, []muster.NodeNumber{2, muster.NoNode, 0}, 3, inService); !slices.Equal(got, []int{7, 2, 0, 1}) {
		t.Error("positions:", got)
	}
}

func TestSortAllocatesNothing(t *testing.T) {
	var m Map
	m.Swap(mustNew(t, Schema{}, cluster(32, 4), Rule{"10.9.1.0/24", "/r1"}))
	nodes := []muster.NodeNumber{3, 30, 1, muster.NoNode, 2, 2, 4711, 8, 9, 10, 11, 12, 13, 14}
	dst, positions := make([]muster.NodeNumber, 0, len(nodes)), make([]int, 0, len(nodes))
	for _, host := range []string{"dn-1", "10.9.1.7", "/r2", "unknown"} {
		seed := uint64(0)
		if allocs := testing.AllocsPerRun(1000, func() {
			seed++
			r := m.ReaderFor(host)
			dst = r.Sort(dst[:0], nodes, seed)
			dst = r.Sort(dst[:0], nodes[:3], seed)
			positions = r.Order(positions[:0], nodes, seed, inService)
		}); allocs != 0 {
			t.Errorf("client %s: %v allocations", host, allocs)
		}
	}
}

package topology

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fs/muster"
)

// TestCostsAreThoseOfOzone restates the table of Ozone's TestNetworkTopologyImpl: four
// levels, with default costs and with others.
func TestCostsAreThoseOfOzone(t *testing.T) {
	locations := []string{"/r1/g1", "/r1/g1", "/r1/g2", "/r2/g1"}
	for name, c := range map[string]struct {
		schema Schema
		want   [4]int32 // self, group, rack, other
	}{
		"default":                        {levels(1, 1, 1, 0), [4]int32{0, 2, 4, 6}},
		"custom":                         {levels(5, 3, 1, 0), [4]int32{0, 2, 8, 18}},
		"a leaf's own cost never counts": {levels(5, 3, 1, 100), [4]int32{0, 2, 8, 18}},
		"no cost":                        {levels(0, 0, 0, 0), [4]int32{}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := mustNew(t, c.schema, nodesAt(locations...))
			first := tree.NodePoint(0)
			for i, want := range c.want {
				p := tree.NodePoint(muster.NodeNumber(i))
				if got, back := tree.Distance(first, p), tree.Distance(p, first); got != want || back != want {
					t.Errorf("from node 0 to %d: %d, back %d, want %d", i, got, back, want)
				}
			}
		})
	}
}

func TestWhatIsNotInTheTreeIsAtMaxCost(t *testing.T) {
	tree := newTree(t, Schema{}, nodesAt("/r1", "/r2", "/r1/too/deep"))
	other := mustNew(t, Schema{}, append(nodesAt("/r1", "/r2"), cluster(20, 4)[19]))
	if len(tree.Skipped()) != 1 {
		t.Fatal(tree.Skipped())
	}
	in := map[string]Point{"node 0": tree.NodePoint(0), "node 1": tree.NodePoint(1), "rack": tree.LocationPoint("/r1"), "root": tree.LocationPoint("")}
	out := map[string]Point{
		"never added": Detached("x"), "also never added": Detached("y"), "of no place": tree.NodePoint(2),
		"of another tree": other.NodePoint(19), "rack of another tree": other.LocationPoint("/r4"), "none": {}, "no such node": tree.NodePoint(17),
	}
	for name, p := range out {
		for name2, q := range in {
			if a, b := tree.Distance(p, q), tree.Distance(q, p); a != MaxCost || b != MaxCost {
				t.Errorf("%s and %s: %d, %d", name, name2, a, b)
			}
		}
		for name2, q := range out {
			want := int32(MaxCost)
			if name == name2 || p.kind == noPoint && q.kind == noPoint {
				want = 0
			}
			if got := tree.Distance(p, q); got != want {
				t.Errorf("%s and %s: %d, want %d", name, name2, got, want)
			}
		}
	}
}

// Equality comes before all else: a node is 0 from itself wherever it is, by its id, and a
// location by its path.
func TestEqualPointsAreNoDistanceApart(t *testing.T) {
	tree := mustNew(t, Schema{}, nodesAt("/r1", "/r2"))
	moved := mustNew(t, Schema{}, nodesAt("/r2", "/r1"))
	for name, pair := range map[string][2]Point{
		"detached":            {Detached("x"), Detached("x")},
		"detached and placed": {Detached("id-0"), tree.NodePoint(0)},
		"of another tree":     {moved.NodePoint(0), tree.NodePoint(0)},
		"rack of another":     {moved.LocationPoint("/r1"), tree.LocationPoint("/r1")},
		"root":                {tree.LocationPoint("/"), tree.LocationPoint("")},
		"client":              {tree.ClientPoint("/r1", "c"), tree.ClientPoint("/r1/", "c")},
		"none":                {},
	} {
		if got := tree.Distance(pair[0], pair[1]); got != 0 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestWhatIsInCommonCountsOnceIfItIsAnEnd(t *testing.T) {
	tree := mustNew(t, levels(5, 3, 1, 0), nodesAt("/r1/g1", "/r2/g1"))
	at := func(path string) Point {
		if p := tree.LocationPoint(path); p.kind != noPoint {
			return p
		}
		t.Fatal("no", path)
		return Point{}
	}
	for _, c := range []struct {
		a, b Point
		want int32
	}{
		{tree.NodePoint(0), at("/r1/g1"), 1},
		{tree.NodePoint(0), at("/r1"), 1 + 3},
		{tree.NodePoint(0), at("/"), 1 + 3 + 5},
		{tree.NodePoint(0), at("/r2"), 1 + 3 + 5 + 5},
		{at("/r1"), at("/r2"), 5 + 5},
		{at("/r1/g1"), at("/r2"), 3 + 5 + 5},
		{tree.NodePoint(0), tree.ClientPoint("/r1/g1", "c"), 1 + 1},
		{tree.ClientPoint("/r1/g1", "d"), tree.ClientPoint("/r1/g1", "c"), 1 + 1},
	} {
		if got, back := tree.Distance(c.a, c.b), tree.Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d, back %d, want %d", c.a.name, c.b.name, got, back, c.want)
		}
	}
	if p := tree.ClientPoint("/r1", "c"); p != (Point{}) {
		t.Errorf("a client right below %s, where racks are", p.name)
	}
}

// TestDistanceModel holds distances, and the costs of readers, against those worked out
// from the texts of locations.
func TestDistanceModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Int32Range(0, 1000), MinLevels, 7).Draw(t, "costs")
		schema := levels(costs...)
		var locations []string
		for range rapid.IntRange(1, 20).Draw(t, "nodes") {
			path := ""
			for range len(costs) - 2 {
				path += fmt.Sprint("/x", rapid.IntRange(1, 2).Draw(t, "name"))
			}
			locations = append(locations, "/"+path)
		}
		tree, err := New(schema, nodesAt(locations...), nil)
		if err != nil || len(tree.Skipped()) > 0 {
			t.Fatal(err, tree.Skipped())
		}
		for i := range locations {
			from := tree.NodePoint(muster.NodeNumber(i))
			r := tree.Reader(from)
			client := tree.ClientPoint(locations[i], "client")
			for k := range locations {
				want := wayBetween(schema, locations[i], locations[k])
				if got := tree.Distance(client, tree.NodePoint(muster.NodeNumber(k))); got != want {
					t.Fatalf("from a client in %s to %s: %d, want %d", locations[i], locations[k], got, want)
				}
				if i == k {
					want = 0
				}
				if got, cost := tree.Distance(from, tree.NodePoint(muster.NodeNumber(k))), r.Cost(muster.NodeNumber(k)); got != want || cost != want {
					t.Fatalf("from %s to %s: distance %d, cost %d, want %d", locations[i], locations[k], got, cost, want)
				}
			}
		}
	})
}

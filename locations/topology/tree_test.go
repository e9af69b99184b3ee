package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fs/muster"
)

// TestTreeRulesOfOzone restates what TestNetworkTopologyImpl wants of adding, updating and
// removing nodes, which here is building another tree.
func TestTreeRulesOfOzone(t *testing.T) {
	nodes := nodesAt("/d1/r1", "/d1/r1", "/d1/r2", "/d2/r3")
	s := levels(1, 1, 1, 0)
	tree := mustNew(t, s, nodes)
	check := func(tree *Tree, location string, want int) {
		t.Helper()
		if got := tree.NumChildren(location); got != want || len(tree.Children(location)) != want {
			t.Errorf("%s has %d children %v, want %d", location, got, tree.Children(location), want)
		}
	}
	for location, want := range map[string]int{"": 2, "/": 2, "/d1": 2, "/d1/r1": 2, "/d1/r2": 1, "/d2/": 1, "/nowhere": 0, "/d1/r1/id-0": 0, "d1": 0} {
		check(tree, location, want)
	}
	for _, path := range []string{"", "/", "/d1", "/d2/r3", "/d1/r1/id-0", "//d1//r1//id-1"} {
		if !tree.Contains(path) {
			t.Errorf("%q is missing", path)
		}
	}
	for _, path := range []string{"/d3", "/d1/r1/id-3", "/d1/id-0", "id-0", "/d1/r1/id-0/x"} {
		if tree.Contains(path) {
			t.Errorf("%q is there", path)
		}
	}

	// Adding a node makes the locations on its way; removing the last one of a location takes
	// that away, and what is above it.
	added := mustNew(t, s, append(slices.Clone(nodes), muster.Node{Number: 4, ID: "id-4", Rack: "/d3/r9"}))
	check(added, "", 3)
	check(added, "/d3", 1)
	removed := mustNew(t, s, nodes[:3])
	check(removed, "", 1)
	if removed.Contains("/d2") || removed.Contains("/d2/r3") || removed.LocationPoint("/d2") != (Point{}) {
		t.Error("an empty location is left")
	}
	// An update is a removal and an addition, and the old tree stays as it was.
	moved := slices.Clone(nodes)
	moved[2].Rack = "/d2/r3"
	updated := mustNew(t, s, moved)
	check(updated, "/d1", 1)
	check(updated, "/d2/r3", 2)
	check(tree, "/d1", 2)
	check(tree, "/d2/r3", 1)
	if at, ok := tree.Location(2); at != "/d1/r2" || !ok {
		t.Error(at, ok)
	}
}

// TestAncestorsEndAtSeparators: /r1 is none of /r12.
func TestAncestorsEndAtSeparators(t *testing.T) {
	tree := mustNew(t, Schema{}, nodesAt("/r1", "/r12"))
	for _, c := range []struct {
		ancestor, path string
		want           bool
	}{
		{"/r1", "/r1/id-0", true}, {"/r12", "/r12/id-1", true}, {"", "/r1", true}, {"/", "/r1/id-0", true}, {"/", "/r12", true},
		{"/r1", "/r12", false}, {"/r1", "/r12/id-1", false}, {"/r1", "/r1", false}, {"/", "/", false}, {"", "/", false},
		{"/r1/id-0", "/r1", false}, {"/r1", "/", false}, {"/r1", "/r1/id-1", false}, {"/r3", "/r3/id-0", false}, {"/r1", "/r1/nobody", false},
		{"/r1/id-0", "/r1/id-0", false},
	} {
		if got := tree.IsAncestor(c.ancestor, c.path); got != c.want {
			t.Errorf("%q is an ancestor of %q: %v", c.ancestor, c.path, got)
		}
	}
}

// TestOneBadNodeTakesNothingElseDown: it is skipped, and Skipped says why.
func TestOneBadNodeTakesNothingElseDown(t *testing.T) {
	good := nodesAt("/r1", "/r2")
	bad := []struct {
		node  muster.Node
		code  muster.Code
		says  string
		known bool // by its number
	}{
		{muster.Node{Number: 2, ID: "deep", Rack: "/r1/x"}, muster.ErrInvalid, "2 names, and the topology has 1 levels", true},
		{muster.Node{Number: 3, ID: "root", Rack: "/"}, muster.ErrInvalid, "0 names", true},
		{muster.Node{Number: 4, ID: "relative", Rack: "r1"}, muster.ErrInvalid, "does not begin with /", true},
		{muster.Node{Number: 5, ID: "id-0", Rack: "/r1"}, muster.ErrExists, `node 0 has the id "id-0" too`, true},
		{muster.Node{Number: 1, ID: "twice", Rack: "/r1"}, muster.ErrExists, `node "id-1" has the number 1 too`, false},
		{muster.Node{Number: 6, ID: "a/b", Rack: "/r1"}, muster.ErrInvalid, "node id", false},
		{muster.Node{Number: 7, Rack: "/r1"}, muster.ErrInvalid, "empty node id", false},
		{muster.Node{Number: muster.MaxNodes, ID: "far", Rack: "/r1"}, muster.ErrInvalid, "numbers are below", false},
		{muster.Node{Number: muster.NoNode, ID: "none", Rack: "/r1"}, muster.ErrInvalid, "numbers are below", false},
	}
	nodes := slices.Clone(good)
	known := 2
	for _, b := range bad {
		nodes = append(nodes, b.node)
		if b.known {
			known++
		}
	}
	tree := newTree(t, Schema{}, nodes)
	if len(tree.Skipped()) != len(bad) || tree.Len() != known || len(slices.Collect(tree.Nodes())) != known {
		t.Fatalf("skipped %v, %d nodes", tree.Skipped(), tree.Len())
	}
	r := tree.Reader(tree.NodePoint(0))
	for i, s := range tree.Skipped() {
		b := bad[i]
		if s.Node != b.node || !errors.Is(s.Err, b.code) || !strings.Contains(s.Err.Error(), b.says) {
			t.Errorf("node %d: %+v, want %q", b.node.Number, s, b.says)
		}
		got, found := tree.Node(b.node.Number)
		if found && got != b.node && b.node.Number != 1 || found != (b.known || b.node.Number == 1) {
			t.Errorf("node %d: %v, %v", b.node.Number, got, found)
		}
		if b.node.Number != 1 && r.Cost(b.node.Number) != MaxCost {
			t.Errorf("node %d costs %d", b.node.Number, r.Cost(b.node.Number))
		}
	}
	if r.Cost(0) != 0 || r.Cost(1) != 4 || !slices.Equal(tree.Racks(), []string{"/r1", "/r2"}) || tree.NumChildren("/r1") != 1 {
		t.Error("the good nodes suffer")
	}
	if n, found := tree.ByID("id-0"); !found || n.Number != 0 {
		t.Error(n, found)
	}
}

func TestNodesAreFoundByIDAndHost(t *testing.T) {
	nodes := cluster(3, 1)
	nodes[0].Host = "DN-0.example"
	nodes[1].Host, nodes[1].Address = "10.0.0.7", "10.0.0.7"
	nodes[2].Host, nodes[2].Address = "dn-0.EXAMPLE", "::ffff:10.0.0.7"
	nodes = append(nodes, muster.Node{Number: 9, ID: "id-9", Host: "fe80::1"})
	tree := mustNew(t, Schema{}, nodes)
	for host, want := range map[string][]muster.NodeNumber{
		"dn-0.Example": {0, 2}, "10.0.0.0": {0}, "10.0.0.7": {1, 2}, "::FFFF:10.0.0.7": {1, 2}, "fe80:0::1%eth0": {9}, "": nil, "dn-1": nil, "id-9": nil,
	} {
		if got := tree.ByHost(host); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	if n, found := tree.ByID("id-9"); n != nodes[3] || !found {
		t.Error(n, found)
	}
	for _, number := range []muster.NodeNumber{5, 10, muster.NoNode} {
		if n, found := tree.Node(number); found {
			t.Error(n)
		}
		if at, found := tree.Location(number); found {
			t.Error(at)
		}
	}
	if n, found := tree.ByID("dn-1"); found {
		t.Error(n)
	}
	for first := range tree.Nodes() {
		if first.Number != 0 {
			t.Error(first)
		}
		break
	}
}

// TestNewKeepsNothingOfItsArguments: what the caller does to them later changes no tree.
func TestNewKeepsNothingOfItsArguments(t *testing.T) {
	s, nodes := levels(1, 1, 0), cluster(4, 2)
	tree := mustNew(t, s, nodes)
	for i := range nodes {
		nodes[i] = muster.Node{Number: 3, ID: "x", Rack: "/x"}
	}
	s.Levels[1].Cost = 100
	if n, _ := tree.Node(2); n.ID != "id-2" || tree.Schema().Levels[1].Cost != 1 || tree.Distance(tree.NodePoint(0), tree.NodePoint(1)) != 4 {
		t.Error(n, tree.Schema())
	}
}

// TestTreeModel holds a tree against a list of paths.
func TestTreeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depth := rapid.IntRange(2, 5).Draw(t, "depth")
		nodes := map[muster.NodeNumber]string{} // the paths that they must have
		var given []muster.Node
		paths := []string{"/"}
		for _, number := range rapid.SliceOfDistinct(rapid.Uint32Range(0, 40), rapid.ID).Draw(t, "numbers") {
			n := muster.Node{Number: muster.NodeNumber(number), ID: fmt.Sprint("n", number)}
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"r1", "r12", "r2"}), depth-2, depth-2).Draw(t, "location")
			n.Rack = "/" + strings.Join(names, "/")
			if rapid.IntRange(0, 5).Draw(t, "bad") == 0 {
				n.Rack += "/r1/r1/r1"
			} else {
				nodes[n.Number] = below(n.Rack) + n.ID
				for i := range names {
					paths = append(paths, "/"+strings.Join(names[:i+1], "/"))
				}
				paths = append(paths, nodes[n.Number])
			}
			given = append(given, n)
		}
		slices.Sort(paths)
		paths = slices.Compact(paths)
		tree, err := New(levels(make([]int32, depth)...), given, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(tree.Skipped()) != len(given)-len(nodes) || tree.Len() != len(given) {
			t.Fatal(tree.Skipped(), tree.Len())
		}
		var racks []string
		for _, path := range append(paths, "/r1", "/r2/r2", "/none") {
			there := slices.Contains(paths, path)
			var children []string
			var members []muster.NodeNumber
			for _, other := range paths {
				inside := path != other && strings.HasPrefix(other, below(path))
				if tree.IsAncestor(path, other) != (there && inside) {
					t.Fatalf("IsAncestor(%s, %s) is %v", path, other, !inside)
				}
				if inside && !strings.Contains(other[len(below(path)):], "/") {
					children = append(children, other)
				}
			}
			for number, at := range nodes {
				if path != at && strings.HasPrefix(at, below(path)) {
					members = append(members, number)
				}
				if parentPath(at) == path && !slices.Contains(racks, path) {
					racks = append(racks, path)
				}
			}
			slices.Sort(members)
			if tree.Contains(path) != there || !slices.Equal(tree.Children(path), children) || tree.NumChildren(path) != len(children) || !slices.Equal(tree.Members(path), members) {
				t.Fatalf("%s: %v, %v, %v; want %v, %v, %v", path, tree.Contains(path), tree.Children(path), tree.Members(path), there, children, members)
			}
		}
		if slices.Sort(racks); !slices.Equal(tree.Racks(), racks) {
			t.Fatalf("racks %v, want %v", tree.Racks(), racks)
		}
	})
}

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
// removing nodes, which here is building another tree, and of what a tree then contains.
func TestTreeRulesOfOzone(t *testing.T) {
	nodes := nodesAt("/d1/r1", "//d1/r1/", "/d1/r2", "/d2/r3")
	s := levels(1, 1, 1, 0)
	tree := mustNew(t, s, nodes)
	check := func(what string, tree *Tree, want ...string) {
		t.Helper()
		if got := pathsOf(tree); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	whole := []string{"/", "/d1", "/d1/r1", "/d1/r1/id-0", "/d1/r1/id-1", "/d1/r2", "/d1/r2/id-2", "/d2", "/d2/r3", "/d2/r3/id-3"}
	check("at first", tree, whole...)
	for path, want := range map[string]string{"": "/", "/": "/", "//d1": "/d1", "/d2/r3/": "/d2/r3", "/d3": "", "d1": "", "/d1/r1/id-0": "", "/d1/id-0": ""} {
		if p := tree.LocationPoint(path); p.name != want || (want == "") != (p == Point{}) {
			t.Errorf("%q is found as %q, want %q", path, p.name, want)
		}
	}

	// Adding a node makes the locations on its way; removing the last one of a location takes
	// that away, and what is above it.
	added := mustNew(t, s, append(slices.Clone(nodes), muster.Node{Number: 4, ID: "id-4", Rack: "/d3/r9"}))
	check("one more", added, append(slices.Clone(whole), "/d3", "/d3/r9", "/d3/r9/id-4")...)
	removed := mustNew(t, s, nodes[:3])
	check("one less", removed, whole[:7]...)
	if removed.LocationPoint("/d2") != (Point{}) || removed.NodePoint(3) != (Point{}) {
		t.Error("what was removed is found")
	}
	// An update is a removal and an addition, and the old tree stays as it was.
	moved := slices.Clone(nodes)
	moved[2].Rack = "/d2/r3"
	check("moved", mustNew(t, s, moved), "/", "/d1", "/d1/r1", "/d1/r1/id-0", "/d1/r1/id-1", "/d2", "/d2/r3", "/d2/r3/id-2", "/d2/r3/id-3")
	check("the first", tree, whole...)
}

// TestAncestorsEndAtSeparators: /r1 is none of /r12, and so is not on the way to what is there.
func TestAncestorsEndAtSeparators(t *testing.T) {
	tree := mustNew(t, levels(100, 10, 0), nodesAt("/r1", "/r12"))
	for _, c := range []struct {
		ancestor string
		node     muster.NodeNumber
		want     int32
	}{
		{"/r1", 0, 10}, {"/r12", 1, 10}, {"/", 0, 110}, {"", 1, 110}, // above it
		{"/r1", 1, 210}, {"/r12", 0, 210}, // not
	} {
		if got := tree.Distance(tree.LocationPoint(c.ancestor), tree.NodePoint(c.node)); got != c.want {
			t.Errorf("from %q to node %d: %d, want %d", c.ancestor, c.node, got, c.want)
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
	if len(tree.Skipped()) != len(bad) || tree.Len() != known {
		t.Fatalf("skipped %v, %d nodes", tree.Skipped(), tree.Len())
	}
	r := tree.Reader(tree.NodePoint(0))
	for i, s := range tree.Skipped() {
		b := bad[i]
		if s.Node != b.node || !errors.Is(s.Err, b.code) || !strings.Contains(s.Err.Error(), b.says) {
			t.Errorf("node %d: %+v, want %q", b.node.Number, s, b.says)
		}
		if p := tree.NodePoint(b.node.Number); b.known && (p.name != b.node.ID || p.in(tree)) || !b.known && b.node.Number != 1 && p != (Point{}) {
			t.Errorf("node %d: %+v", b.node.Number, p)
		}
		if b.node.Number != 1 && r.Cost(b.node.Number) != MaxCost {
			t.Errorf("node %d costs %d", b.node.Number, r.Cost(b.node.Number))
		}
	}
	if got := pathsOf(tree); r.Cost(0) != 0 || r.Cost(1) != 4 || tree.byID["id-0"] != 0 || !slices.Equal(got, []string{"/", "/r1", "/r1/id-0", "/r2", "/r2/id-1"}) {
		t.Errorf("the good nodes suffer: %v", got)
	}
}

func TestNodesAreFoundByHost(t *testing.T) {
	nodes := cluster(3, 1)
	nodes[0].Host = "DN-0.example"
	nodes[1].Host, nodes[1].Address = "10.0.0.7", "10.0.0.7"
	nodes[2].Host, nodes[2].Address = "dn-0.EXAMPLE", "::ffff:10.0.0.7"
	nodes = append(nodes, muster.Node{Number: 9, ID: "id-9", Host: "fe80::1"})
	tree := mustNew(t, Schema{}, nodes)
	for host, want := range map[string][]muster.NodeNumber{
		"dn-0.Example": {0, 2}, "10.0.0.0": {0}, "10.0.0.7": {1, 2}, "::FFFF:10.0.0.7": {1, 2}, "fe80:0::1%eth0": {9}, "": nil, "dn-1": nil, "id-9": nil,
	} {
		if got := tree.byHost[hostKey(host)]; !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	for _, number := range []muster.NodeNumber{5, 10, muster.NoNode} {
		if p := tree.NodePoint(number); p != (Point{}) {
			t.Error(p)
		}
	}
}

// TestNewKeepsNothingOfItsArguments: what the caller does to them later changes no tree.
func TestNewKeepsNothingOfItsArguments(t *testing.T) {
	s, nodes := levels(1, 1, 0), cluster(4, 2)
	tree := mustNew(t, s, nodes)
	for i := range nodes {
		nodes[i] = muster.Node{Number: 3, ID: "x", Rack: "/x"}
	}
	s.Levels[1] = Level{Name: "other", Cost: 100, Prefix: "x"}
	p := tree.NodePoint(2)
	if at, err := tree.schema.Locate("/r1"); p.name != "id-2" || at != "/r1" || err != nil || tree.Distance(tree.NodePoint(0), tree.NodePoint(1)) != 4 {
		t.Error(p, at, err)
	}
}

// TestTreeModel holds a tree against a list of paths.
func TestTreeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depth := rapid.IntRange(2, 5).Draw(t, "depth")
		var given []muster.Node
		paths, bad := []string{"/"}, 0
		for _, number := range rapid.SliceOfDistinct(rapid.Uint32Range(0, 40), rapid.ID).Draw(t, "numbers") {
			n := muster.Node{Number: muster.NodeNumber(number), ID: fmt.Sprint("n", number)}
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"r1", "r12", "r2"}), depth-2, depth-2).Draw(t, "location")
			n.Rack = "/" + strings.Join(names, "/")
			if rapid.IntRange(0, 5).Draw(t, "bad") == 0 {
				n.Rack += "/r1/r1/r1"
				bad++
			} else {
				names = append(names, n.ID)
				for i := range names {
					paths = append(paths, "/"+strings.Join(names[:i+1], "/"))
				}
			}
			given = append(given, n)
		}
		slices.Sort(paths)
		paths = slices.Compact(paths)
		tree, err := New(levels(make([]int32, depth)...), given, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pathsOf(tree); len(tree.Skipped()) != bad || tree.Len() != len(given) || !slices.Equal(got, paths) {
			t.Fatalf("%v, %d of %d skipped; want %v, %d", got, len(tree.Skipped()), tree.Len(), paths, bad)
		}
	})
}

package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster returns nodes in so many racks, dealt out in turn, with hosts dn-0, dn-1 and so on.
func cluster(nodes, racks int) []muster.Node {
	all := make([]muster.Node, nodes)
	for i := range all {
		all[i] = muster.Node{
			Number: muster.NodeNumber(i), ID: fmt.Sprintf("id-%d", i), Host: fmt.Sprintf("dn-%d", i),
			Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Rack: fmt.Sprintf("/r%d", i%racks+1),
		}
	}
	return all
}

// nodesAt returns a node at each location, numbered from 0, with the ids id-0, id-1 and so on.
func nodesAt(locations ...string) []muster.Node {
	all := cluster(len(locations), 1)
	for i := range all {
		all[i].Rack = locations[i]
	}
	return all
}

// mustNew builds a tree in which all nodes have a place.
func mustNew(t testing.TB, s Schema, nodes []muster.Node, rules ...Rule) *Tree {
	t.Helper()
	tree := newTree(t, s, nodes, rules...)
	if len(tree.Skipped()) > 0 {
		t.Fatal(tree.Skipped())
	}
	return tree
}

func newTree(t testing.TB, s Schema, nodes []muster.Node, rules ...Rule) *Tree {
	t.Helper()
	m, err := NewMapping(rules)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := New(s, nodes, m)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// levels returns a schema of levels with these costs, from the root to the nodes.
func levels(costs ...int32) Schema {
	var s Schema
	for i, c := range costs {
		s.Levels = append(s.Levels, Level{Name: fmt.Sprintf("l%d", i), Cost: c})
	}
	return s
}

// wayBetween is the distance of two different nodes at locations of a schema, worked out
// from the texts.
func wayBetween(s Schema, a, b string) int32 {
	one, other := strings.Split(strings.Trim(a, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/")
	common := 0
	for common < len(one) && common < len(other) && one[common] != "" && one[common] == other[common] {
		common++
	}
	cost := int32(0)
	for level := common; level < len(s.levels())-1; level++ {
		cost += 2 * s.levels()[level].Cost
	}
	return cost
}

// Detached returns a node that is in no tree.
func Detached(id string) Point { return Point{kind: nodePoint, name: id, at: detached} }

// ClientPoint returns a client that is no node, in a rack of the tree, or the zero Point if it
// has no such rack.
func (t *Tree) ClientPoint(rack, name string) Point {
	at, found := t.find(rack)
	if !found || !t.isRack(at) {
		return Point{}
	}
	p := t.point(at)
	p.name += "/" + name
	return p
}

// pathsOf returns the paths of all that has a place in a tree, in order: of its locations, and
// of its nodes, which end with their ids.
func pathsOf(t *Tree) (paths []string) {
	for _, l := range t.locations {
		paths = append(paths, l.path)
	}
	for n, at := range t.at {
		if at >= 0 {
			paths = append(paths, strings.TrimSuffix(t.locations[at].path, "/")+"/"+t.ids[n])
		}
	}
	slices.Sort(paths)
	return paths
}

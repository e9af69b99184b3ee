package topology

import (
	"math"

	"github.com/muster-fs/muster"
)

// MaxCost is the distance to what is not in the tree.
const MaxCost = math.MaxInt32

// Point is something that has a distance: a node, a location, or a client in a rack. The
// zero Point is none of them.
type Point struct {
	kind pointKind
	name string // a node's id, or a path
	tree *Tree  // nil: it is in none
	at   int32  // the location, or that of a node or client; negative: it has none
}

type pointKind uint8

const (
	noPoint pointKind = iota
	nodePoint
	locationPoint
	clientPoint
)

// NodePoint returns a node of the tree, or the zero Point if it has none of that number.
func (t *Tree) NodePoint(number muster.NodeNumber) Point {
	at := t.locationOf(number)
	if at == absent {
		return Point{}
	}
	return Point{nodePoint, t.ids[number], t, at}
}

// LocationPoint returns a location of the tree, the root being / or "", or the zero Point
// if it has no such location.
func (t *Tree) LocationPoint(location string) Point {
	at, found := t.find(location)
	if !found {
		return Point{}
	}
	return Point{locationPoint, t.locations[at].path, t, at}
}

// in says whether a point has a place in the tree.
func (p Point) in(t *Tree) bool { return p.tree == t && p.at >= 0 }

func (p Point) place() place { return place{p.at, p.kind != locationPoint} }

// Distance returns the cost of the way between two points: the sum of the costs of all
// that is arrived at, climbing from both sides to what they have in common. It is the rule
// that Readers follow, who have worked it out before; by it the rule is held against Ozone's.
//
//   - Equal points, and two that are none, are 0 apart, wherever they are: nodes are equal
//     by their ids, others by their paths.
//   - It is MaxCost if one of them is none, or is not in this tree.
//   - What they have in common counts twice if it is arrived at from both sides, and once
//     if it is one of them. What a way begins at does not count.
func (t *Tree) Distance(a, b Point) int32 {
	if a.kind == b.kind && a.name == b.name {
		return 0
	}
	if !a.in(t) || !b.in(t) {
		return MaxCost
	}
	return t.climb(a.place(), b.place())
}

// place is a location, or a leaf below it: a node or a client.
type place struct {
	at   int32
	leaf bool
}

// climb returns the cost of the way between two places, which are not the same leaf. Cost
// cannot overflow: Schema.Validate sees to that.
func (t *Tree) climb(a, b place) (cost int32) {
	for t.level(a) > t.level(b) {
		a = t.up(a, &cost)
	}
	for t.level(b) > t.level(a) {
		b = t.up(b, &cost)
	}
	for a != b || a.leaf {
		a, b = t.up(a, &cost), t.up(b, &cost)
	}
	return cost
}

func (t *Tree) level(p place) int32 {
	level := t.locations[p.at].level
	if p.leaf {
		level++
	}
	return level
}

// up goes to the place above and adds the cost of arriving there.
func (t *Tree) up(p place, cost *int32) place {
	if !p.leaf {
		p.at = t.locations[p.at].parent
	}
	*cost += t.costs[t.locations[p.at].level]
	return place{at: p.at}
}

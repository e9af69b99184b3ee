package topology

import (
	"math"

	"github.com/muster-fs/muster"
)

// MaxCost is the distance to what is not in the tree.
const MaxCost = math.MaxInt32

// Point is something that has a distance: a node, a location, or a client in a rack. The
// zero Point is none of them.
type Point struct{}

// NodePoint returns a node of the tree, or the zero Point if it has none of that number.
func (t *Tree) NodePoint(number muster.NodeNumber) Point { panic("not yet") }

// LocationPoint returns a location of the tree, the root being / or "", or the zero Point
// if it has no such location.
func (t *Tree) LocationPoint(location string) Point { panic("not yet") }

// ClientPoint returns a client that is no node, in a rack of the tree, or the zero Point
// if it has no such rack.
func (t *Tree) ClientPoint(rack, name string) Point { panic("not yet") }

// Detached returns a node that is in no tree.
func Detached(id string) Point { panic("not yet") }

// Distance returns the cost of the way between two points: the sum of the costs of all
// that is arrived at, climbing from both sides to what they have in common.
//
//   - Equal points, and two that are none, are 0 apart, wherever they are: nodes are equal
//     by their ids, others by their paths.
//   - It is MaxCost if one of them is none, or is not in this tree.
//   - What they have in common counts twice if it is arrived at from both sides, and once
//     if it is one of them. The node that a way begins at does not count.
func (t *Tree) Distance(a, b Point) int32 { panic("not yet") }

package topology

import (
	"iter"

	"github.com/muster-fs/muster"
)

// Tree is a snapshot of the cluster. It never changes.
type Tree struct{}

// Skipped is a node that has no place in the tree, and why.
type Skipped struct {
	Node muster.Node
	Err  error
}

// New builds a tree. A node that has no place in it, for its location or its id, takes
// nothing else down: it is detached, which Skipped tells, and its cost is MaxCost. An
// error means that the schema is not valid.
func New(s Schema, nodes []muster.Node, m *Mapping) (*Tree, error) { panic("not yet") }

// Schema returns the levels, also of the default schema.
func (t *Tree) Schema() Schema { panic("not yet") }

// Mapping returns what New was given; it may be nil.
func (t *Tree) Mapping() *Mapping { panic("not yet") }

// Skipped returns the nodes that have no place, in the order given. It is not to be changed.
func (t *Tree) Skipped() []Skipped { panic("not yet") }

// Len returns the number of nodes, detached ones included.
func (t *Tree) Len() int { panic("not yet") }

// Nodes returns the nodes in the order of their numbers, detached ones included.
func (t *Tree) Nodes() iter.Seq[muster.Node] { panic("not yet") }

// Node returns the node of a number.
func (t *Tree) Node(number muster.NodeNumber) (muster.Node, bool) { panic("not yet") }

// ByID returns the node of an id.
func (t *Tree) ByID(id string) (muster.Node, bool) { panic("not yet") }

// ByHost returns the nodes with a host name or address, in the order of their numbers:
// several may run on one machine. It is not to be changed.
func (t *Tree) ByHost(hostOrAddress string) []muster.NodeNumber { panic("not yet") }

// Location returns where the tree has a node, and whether it is in the tree at all.
func (t *Tree) Location(number muster.NodeNumber) (string, bool) { panic("not yet") }

// Racks returns the locations that have nodes, in order.
func (t *Tree) Racks() []string { panic("not yet") }

// Members returns the nodes of a rack, or of all racks below an inner location, in the
// order of their numbers.
func (t *Tree) Members(location string) []muster.NodeNumber { panic("not yet") }

// Children returns the paths right below a location, in order: those of locations, or
// below a rack those of nodes, which end with their ids.
func (t *Tree) Children(location string) []string { panic("not yet") }

// NumChildren returns how many paths are right below a location.
func (t *Tree) NumChildren(location string) int { panic("not yet") }

// Contains says whether a path is that of something in the tree.
func (t *Tree) Contains(path string) bool { panic("not yet") }

// IsAncestor says whether the tree has both paths, and the second is below the first.
func (t *Tree) IsAncestor(ancestor, path string) bool { panic("not yet") }

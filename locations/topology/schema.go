package topology

import (
	"github.com/muster-fs/muster"
)

// The bounds of a schema.
const (
	MinLevels = 2 // the root and the nodes
	MaxLevels = 16
)

// Level is a level of the tree.
type Level struct {
	Name    string // such as rack
	Cost    int32  // of arriving at something of this level on the way from one node to another; 0 or more
	Prefix  string // with which each name of this level begins, but for the default; "": any name. Inner levels only
	Default string // the name on this level of what has no location; "": default- and the level's name. Inner levels only
}

// Schema is the levels, from the root to the nodes. The zero value is a root, racks and
// nodes, with the costs 1, 1 and 0: nodes of one rack are 2 apart, others 4.
type Schema struct{ Levels []Level }

// Validate says what is wrong with a schema.
func (s Schema) Validate() error { panic("not yet") }

// Depth returns the number of levels.
func (s Schema) Depth() int { panic("not yet") }

// DefaultLocation returns the network location of what has none: muster.DefaultRack,
// unless the schema says otherwise.
func (s Schema) DefaultLocation() string { panic("not yet") }

// Locate returns the one way to write a node's network location, or an error if nodes
// cannot be there. No location, and muster.DefaultRack, stand for the default location.
func (s Schema) Locate(rack string) (string, error) { panic("not yet") }

var _ muster.Node

package topology

import (
	"fmt"
	"math"
	"slices"
	"strings"

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

// Explicit returns the schema with its defaults written out.
func (s Schema) Explicit() Schema {
	levels := slices.Clone(s.levels())
	for i := range levels {
		if i > 0 && i < len(levels)-1 {
			levels[i].Default = levels[i].defaultName()
		}
	}
	return Schema{levels}
}

func (s Schema) levels() []Level {
	if len(s.Levels) > 0 {
		return s.Levels
	}
	return []Level{{Name: "root", Cost: 1}, {Name: "rack", Cost: 1}, {Name: "node"}}
}

// Validate says what is wrong with a schema.
func (s Schema) Validate() error {
	levels := s.levels()
	if len(levels) < MinLevels || len(levels) > MaxLevels {
		return fmt.Errorf("%w: a topology of %d levels; use %d (the root and the nodes) to %d", muster.ErrInvalid, len(levels), MinLevels, MaxLevels)
	}
	positions := map[string]int{}
	way := int64(0)
	for i, l := range levels {
		err := l.validate(i > 0 && i < len(levels)-1)
		if before, again := positions[l.Name]; again && err == nil {
			err = fmt.Errorf("level %d has the same name", before+1)
		}
		if err != nil {
			return fmt.Errorf("%w: level %d (%.64q) of the topology: %w", muster.ErrInvalid, i+1, l.Name, err)
		}
		positions[l.Name] = i
		way += 2 * int64(l.Cost)
	}
	if way >= MaxCost {
		return fmt.Errorf("%w: the costs of the topology's levels add up to %d, at most %d", muster.ErrInvalid, way/2, (math.MaxInt32-1)/2)
	}
	if _, err := muster.CleanRack(s.DefaultLocation()); err != nil {
		return fmt.Errorf("the default location of the topology: %w", err)
	}
	return nil
}

func (l Level) validate(inner bool) error {
	switch {
	case !isComponent(l.Name):
		return errComponent
	case l.Cost < 0:
		return fmt.Errorf("the cost is %d; use 0 or more", l.Cost)
	case !inner && (l.Prefix != "" || l.Default != ""):
		return fmt.Errorf("prefix %q and default %q are for the levels between the root and the nodes", l.Prefix, l.Default)
	case l.Prefix != "" && !isComponent(l.Prefix):
		return fmt.Errorf("prefix %.64q: %w", l.Prefix, errComponent)
	case l.Default != "" && !isComponent(l.Default):
		return fmt.Errorf("default %.64q: %w", l.Default, errComponent)
	}
	return nil
}

// maxComponent is how many bytes a name of a schema has at most.
const maxComponent = 255

var errComponent = fmt.Errorf("it must be able to stand between the slashes of a network location, and have at most %d bytes", maxComponent)

func isComponent(s string) bool {
	clean, err := muster.CleanRack("/" + s)
	return err == nil && s != "" && len(s) <= maxComponent && clean == "/"+s && !strings.Contains(s, "/")
}

// Depth returns the number of levels.
func (s Schema) Depth() int { return len(s.levels()) }

// inner returns the levels between the root and the nodes: those of a location's components.
func (s Schema) inner() []Level {
	levels := s.levels()
	return levels[1 : len(levels)-1]
}

// DefaultLocation returns the network location of what has none: muster.DefaultRack,
// unless the schema says otherwise.
func (s Schema) DefaultLocation() string {
	inner := s.inner()
	names := make([]string, len(inner))
	for i, l := range inner {
		names[i] = l.defaultName()
	}
	return "/" + strings.Join(names, "/")
}

func (l Level) defaultName() string {
	if l.Default != "" {
		return l.Default
	}
	return "default-" + l.Name
}

// Locate returns the one way to write a node's network location, or an error if nodes
// cannot be there. No location, and muster.DefaultRack, stand for the default location.
func (s Schema) Locate(rack string) (string, error) {
	if rack == "" || rack == muster.DefaultRack {
		return s.DefaultLocation(), nil
	}
	location, err := muster.CleanRack(rack)
	if err != nil {
		return "", err
	}
	inner := s.inner()
	var names []string
	if location != "/" {
		names = strings.Split(location[1:], "/")
	}
	if len(names) != len(inner) {
		return "", fmt.Errorf("%w: network location %q has %d names, and the topology has %d levels between its root and its nodes", muster.ErrInvalid, location, len(names), len(inner))
	}
	for i, l := range inner {
		if !strings.HasPrefix(names[i], l.Prefix) && names[i] != l.defaultName() {
			return "", fmt.Errorf("%w: network location %q: the topology wants names of level %q to begin with %q, and %q does not", muster.ErrInvalid, location, l.Name, l.Prefix, names[i])
		}
	}
	return location, nil
}

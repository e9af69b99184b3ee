package topology

import (
	"slices"
	"strings"

	"github.com/muster-fs/muster"
)

// locationOf returns the location of a number, or detached or absent.
func (t *Tree) locationOf(number muster.NodeNumber) int32 {
	if int64(number) >= int64(len(t.at)) {
		return absent
	}
	return t.at[number]
}

// isRack says whether nodes are right below a location.
func (t *Tree) isRack(at int32) bool { return int(t.locations[at].level) == len(t.costs)-2 }

// find returns the location of a path. The root is / or "".
func (t *Tree) find(path string) (at int32, found bool) {
	if path == "" {
		return 0, true
	}
	if at, found = t.byPath[path]; found {
		return at, true
	}
	clean, err := muster.CleanRack(path)
	if err != nil {
		return 0, false
	}
	at, found = t.byPath[clean]
	return at, found
}

// findNode returns the node of a path that ends with its id, and the location above it.
func (t *Tree) findNode(path string) (number muster.NodeNumber, at int32, found bool) {
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 {
		return 0, 0, false
	}
	number, found = t.byID[path[slash+1:]]
	if !found {
		return 0, 0, false
	}
	at, found = t.find(path[:slash])
	return number, at, found && t.at[number] == at
}

// Location returns where the tree has a node; false if that is nowhere.
func (t *Tree) Location(number muster.NodeNumber) (string, bool) {
	at := t.locationOf(number)
	if at < 0 {
		return "", false
	}
	return t.locations[at].path, true
}

// Racks returns the locations that nodes are in, in order.
func (t *Tree) Racks() []string {
	var racks []string
	for _, l := range t.locations {
		if len(l.members) > 0 {
			racks = append(racks, l.path)
		}
	}
	slices.Sort(racks)
	return racks
}

// Members returns the nodes below a location, in the order of their numbers.
func (t *Tree) Members(location string) []muster.NodeNumber {
	at, found := t.find(location)
	if !found {
		return nil
	}
	members := t.members(nil, at)
	slices.Sort(members)
	return members
}

func (t *Tree) members(dst []muster.NodeNumber, at int32) []muster.NodeNumber {
	dst = append(dst, t.locations[at].members...)
	for _, child := range t.locations[at].children {
		dst = t.members(dst, child)
	}
	return dst
}

// Children returns the paths right below a location, in order: those of locations, or
// below a rack those of nodes, which end with their ids.
func (t *Tree) Children(location string) []string {
	at, found := t.find(location)
	if !found {
		return nil
	}
	var paths []string
	l := &t.locations[at]
	for _, child := range l.children {
		paths = append(paths, t.locations[child].path)
	}
	for _, number := range l.members {
		paths = append(paths, below(l.path)+t.nodes[number].ID)
	}
	slices.Sort(paths)
	return paths
}

// NumChildren returns how many paths are right below a location.
func (t *Tree) NumChildren(location string) int {
	at, found := t.find(location)
	if !found {
		return 0
	}
	return len(t.locations[at].children) + len(t.locations[at].members)
}

// Contains says whether a path is that of something in the tree: of a location, or of a
// node, which is its rack's with the node's id.
func (t *Tree) Contains(path string) bool {
	_, found := t.find(path)
	if !found {
		_, _, found = t.findNode(path)
	}
	return found
}

// IsAncestor says whether the tree has both paths, and the second is below the first.
func (t *Tree) IsAncestor(ancestor, path string) bool {
	top, found := t.find(ancestor)
	if !found {
		return false
	}
	at, found := t.find(path)
	if found {
		return at != top && strings.HasPrefix(t.locations[at].path, below(t.locations[top].path))
	}
	_, at, found = t.findNode(path)
	return found && strings.HasPrefix(below(t.locations[at].path), below(t.locations[top].path))
}

// below returns what all paths below one begin with.
func below(path string) string {
	if path == "/" {
		return path
	}
	return path + "/"
}

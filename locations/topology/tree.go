package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
)

// Tree is a snapshot of the cluster. It never changes.
type Tree struct {
	schema  Schema
	costs   []int32 // by level
	mapping *Mapping
	skipped []Skipped

	ids       []string // of nodes, by number
	at        []int32  // of nodes, by number: index in locations, or detached or absent
	len       int
	locations []location // parents before children; 0 is the root

	byPath map[string]int32 // index in locations
	byID   map[string]muster.NodeNumber
	byHost map[string][]muster.NodeNumber
}

// What at says of a number that has no location.
const (
	detached = -1
	absent   = -2
)

// location is an inner node of the tree. Racks are those right above nodes.
type location struct {
	path   string
	parent int32 // the root's is itself
	level  int32 // the root's is 0
}

// Skipped is a node that has no place in the tree, and why.
type Skipped struct {
	Node muster.Node
	Err  error
}

// New builds a tree, in which each location has nodes. A node that has no place in it
// takes nothing else down: Skipped tells of it, and its cost is MaxCost. It is detached if
// its location is at fault, or if another node has its id; it is not there at all if its
// number or id cannot be. An error means that the schema is not valid.
func New(s Schema, nodes []muster.Node, m *Mapping) (*Tree, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	t := &Tree{
		schema: Schema{slices.Clone(s.levels())}, mapping: m,
		locations: []location{{path: "/"}}, byPath: map[string]int32{"/": 0},
		byID: map[string]muster.NodeNumber{}, byHost: map[string][]muster.NodeNumber{},
	}
	for _, l := range t.schema.Levels {
		t.costs = append(t.costs, l.Cost)
	}
	t.makeRoom(nodes)
	for i := range nodes {
		if err := t.add(&nodes[i]); err != nil {
			t.skipped = append(t.skipped, Skipped{nodes[i], err})
		}
	}
	for _, numbers := range t.byHost {
		slices.Sort(numbers)
	}
	return t, nil
}

func (t *Tree) makeRoom(nodes []muster.Node) {
	numbers := 0
	for i := range nodes {
		if n := nodes[i].Number; n < muster.MaxNodes {
			numbers = max(numbers, int(n)+1)
		}
	}
	t.ids, t.at = make([]string, numbers), make([]int32, numbers)
	for i := range t.at {
		t.at[i] = absent
	}
}

func (t *Tree) add(n *muster.Node) error {
	if n.Number >= muster.MaxNodes {
		return fmt.Errorf("%w: node number %d; numbers are below %d", muster.ErrInvalid, n.Number, muster.MaxNodes)
	}
	if t.at[n.Number] != absent {
		return fmt.Errorf("%w: node %q has the number %d too", muster.ErrExists, t.ids[n.Number], n.Number)
	}
	if err := muster.CheckNodeID(n.ID); err != nil {
		return err
	}
	t.ids[n.Number], t.at[n.Number] = n.ID, detached
	t.len++
	if other, found := t.byID[n.ID]; found {
		return fmt.Errorf("%w: node %d has the id %q too", muster.ErrExists, other, n.ID)
	}
	t.byID[n.ID] = n.Number
	host, address := hostKey(n.Host), hostKey(n.Address)
	t.addHost(host, n.Number)
	if address != host {
		t.addHost(address, n.Number)
	}
	path, err := t.schema.Locate(n.Rack)
	if err != nil {
		return err
	}
	t.at[n.Number] = t.place(path)
	return nil
}

func (t *Tree) addHost(key string, n muster.NodeNumber) {
	if key != "" {
		t.byHost[key] = append(t.byHost[key], n)
	}
}

// place returns the location of a path, which it makes if there is none, with all above.
func (t *Tree) place(path string) int32 {
	if at, found := t.byPath[path]; found {
		return at
	}
	parent := t.place(parentPath(path))
	at := int32(len(t.locations))
	t.byPath[path] = at
	t.locations = append(t.locations, location{path: path, parent: parent, level: t.locations[parent].level + 1})
	return at
}

// parentPath returns the path above one that is not the root's.
func parentPath(path string) string { return path[:max(1, strings.LastIndexByte(path, '/'))] }

// hostKey returns the one way to write a host's name or address.
func hostKey(host string) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return plain(a).String()
	}
	return strings.ToLower(host)
}

// Skipped returns the nodes that have no place, in the order given. It is not to be changed.
func (t *Tree) Skipped() []Skipped { return t.skipped }

// Len returns the number of nodes, detached ones included.
func (t *Tree) Len() int { return t.len }

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

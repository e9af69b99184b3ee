package muster

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NodeNumber names a datanode in answers. The location service gives one to each
// datanode when it registers first, counting up from 0, and never gives it to another;
// so a table of nodes is a slice.
type NodeNumber uint32

// NoNode stands for the replica that an erasure-coded container lacks.
const NoNode NodeNumber = math.MaxUint32

// MaxNodes bounds the datanodes that a cluster has ever had.
const MaxNodes = 1 << 20

// The bounds of what a node says of itself.
const (
	MaxNodeIDBytes = 64
	MaxHostBytes   = 255
	MaxRackBytes   = 1000
)

// DefaultRack is where a node or a client is that no mapping knows.
const DefaultRack = "/default-rack"

// NodeState is what a datanode is good for, the worse of what the operator wants and what
// its heartbeats say. The numbers are part of the wire format.
type NodeState uint8

// The states, from good to bad.
const (
	InService   NodeState = 0
	Draining    NodeState = 1 // takes no new blocks; its containers are copied elsewhere
	Maintenance NodeState = 2 // takes no new blocks; its absence is planned
	Stale       NodeState = 3 // its heartbeats are late
	Dead        NodeState = 4 // its heartbeats have ended
)

// String returns in-service, draining, maintenance, stale or dead.
func (s NodeState) String() string {
	names := [...]string{"in-service", "draining", "maintenance", "stale", "dead"}
	if int(s) < len(names) {
		return names[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// Node is a datanode as those who read and write blocks see it. It is never changed once
// it is shared.
type Node struct {
	Number   NodeNumber
	ID       string // the datanode's own, for ever: a UUID that it made, or a name it was given
	Host     string // name or IP address that readers dial
	Address  string // IP address, by which a reader on the same machine is known; may be empty
	Port     uint16 // of its blocks
	HTTPPort uint16 // of its status pages; 0: none
	Rack     string // network location, such as /rack7 or /dc1/rack7
	State    NodeState
}

// CheckNodeID says whether id may name a datanode. It is a component of topology paths,
// and it is printed.
func CheckNodeID(id string) error { return checkLabel("node id", id, MaxNodeIDBytes, "/") }

// CheckHost says whether host may be a host name or an address.
func CheckHost(host string) error { return checkLabel("host", host, MaxHostBytes, "/") }

func checkLabel(what, s string, most int, banned string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: empty %s", ErrInvalid, what)
	case len(s) > most:
		return fmt.Errorf("%w: %s %.64q... has %d bytes, at most %d", ErrInvalid, what, s, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return fmt.Errorf("%w: %s %q has a control character or a space, or is not valid UTF-8", ErrInvalid, what, s)
	case strings.ContainsAny(s, banned):
		return fmt.Errorf("%w: %s %q has one of %q", ErrInvalid, what, s, banned)
	}
	return nil
}

// CleanRack returns the one way to write a network location: absolute, with single
// slashes and none at the end. The root is /.
func CleanRack(rack string) (string, error) {
	if err := checkLabel("network location", rack, MaxRackBytes, ""); err != nil {
		return "", err
	}
	if rack[0] != '/' {
		return "", fmt.Errorf("%w: network location %q does not begin with /", ErrInvalid, rack)
	}
	parts := strings.FieldsFunc(rack, func(r rune) bool { return r == '/' })
	for _, p := range parts {
		if p == "." || p == ".." {
			return "", fmt.Errorf("%w: network location %q has the component %s", ErrInvalid, rack, p)
		}
	}
	return "/" + strings.Join(parts, "/"), nil
}

// Placement is where a container's replicas are: what the location service says and what
// the cache keeps. It is never changed once it is shared.
type Placement struct {
	Container   uint64
	Replication Replication
	Closed      bool         // no block is added any more
	Nodes       []NodeNumber // replicas; erasure-coded: in the order of the replica index, NoNode where one is absent
}

// Usable says whether the placement is of use to a reader: it has a replica, and if it is
// erasure-coded one of each data index.
func (p *Placement) Usable() bool {
	data, _, coded := p.Replication.Coding()
	if !coded {
		return len(p.Nodes) > 0
	}
	if len(p.Nodes) < data {
		return false
	}
	for _, n := range p.Nodes[:data] {
		if n == NoNode {
			return false
		}
	}
	return true
}

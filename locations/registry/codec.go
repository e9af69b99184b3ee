package registry

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/muster-fs/muster"
)

// The first byte of a key says what it holds. Numbers in keys are big-endian.
const (
	tagBlockKey  = 'k' // id u32
	tagContainer = 'c' // id u64
	tagCounters  = 'm'
	tagNode      = 'n' // number u32
	tagTarget    = 't' // see targets.go
)

func containerKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{tagContainer}, id) }

func nodeKey(n muster.NodeNumber) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagNode}, uint32(n))
}

func countersKey() []byte { return []byte{tagCounters} }

// A container's record:
//
//	version u8 | flags u8 | replication u16 | reserved u64 | members u32 each
const (
	containerVersion = 1
	containerHead    = 12
	flagClosed       = 1
)

// containerRecord is what is durable of a container.
type containerRecord struct {
	replication muster.Replication
	closed      bool
	reserved    uint64              // local ids from here on have never been given; from 1
	members     []muster.NodeNumber // as many as the replication has nodes; erasure-coded: by replica index
}

func appendContainer(dst []byte, c *containerRecord) []byte {
	flags := byte(0)
	if c.closed {
		flags |= flagClosed
	}
	dst = append(dst, containerVersion, flags)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(c.replication))
	dst = binary.LittleEndian.AppendUint64(dst, c.reserved)
	for _, m := range c.members {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(m))
	}
	return dst
}

func decodeContainer(v []byte) (containerRecord, error) {
	if len(v) < containerHead || v[0] != containerVersion || v[1]&^flagClosed != 0 {
		return containerRecord{}, corrupt("container of %d bytes: unknown version or flags", len(v))
	}
	c := containerRecord{
		closed:      v[1] == flagClosed,
		replication: muster.Replication(binary.LittleEndian.Uint16(v[2:])),
		reserved:    binary.LittleEndian.Uint64(v[4:]),
	}
	v = v[containerHead:]
	if !c.replication.Valid() || len(v) != 4*c.replication.Nodes() {
		return containerRecord{}, corrupt("container of replication %#x: members in %d bytes", uint16(c.replication), len(v))
	}
	c.members = make([]muster.NodeNumber, 0, len(v)/4)
	for ; len(v) > 0; v = v[4:] {
		c.members = append(c.members, muster.NodeNumber(binary.LittleEndian.Uint32(v)))
	}
	if err := c.check(); err != nil {
		return containerRecord{}, corrupt("container: %v", err)
	}
	return c, nil
}

// check says what is wrong with a container, but for datanodes that do not exist.
func (c *containerRecord) check() error {
	switch {
	case c.replication == 0 || !c.replication.Valid():
		return fmt.Errorf("bad replication %#x", uint16(c.replication))
	case c.reserved == 0:
		return fmt.Errorf("local ids begin at 0")
	case len(c.members) != c.replication.Nodes():
		return fmt.Errorf("%d members, and %v has %d", len(c.members), c.replication, c.replication.Nodes())
	}
	for i, m := range c.members {
		if m >= muster.MaxNodes || slices.Contains(c.members[:i], m) {
			return fmt.Errorf("bad or repeated member %d", m)
		}
	}
	return nil
}

// A datanode's record:
//
//	version u8 | wanted u8 | port u16 | http port u16 |
//	id length u8 | host length u8 | address length u8 | rack length u16 | id | host | address | rack
const (
	nodeVersion = 1
	nodeHead    = 11
)

// nodeRecord is what is durable of a datanode.
type nodeRecord struct {
	Registration // as it came, but for the way its address and its rack are written
	wanted       muster.NodeState
}

func appendNode(dst []byte, n *nodeRecord) []byte {
	dst = append(dst, nodeVersion, byte(n.wanted))
	dst = binary.LittleEndian.AppendUint16(dst, n.Port)
	dst = binary.LittleEndian.AppendUint16(dst, n.HTTPPort)
	dst = append(dst, byte(len(n.ID)), byte(len(n.Host)), byte(len(n.Address)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(n.Rack)))
	for _, s := range [...]string{n.ID, n.Host, n.Address, n.Rack} {
		dst = append(dst, s...)
	}
	return dst
}

func decodeNode(v []byte) (nodeRecord, error) {
	if len(v) < nodeHead || v[0] != nodeVersion {
		return nodeRecord{}, corrupt("datanode of %d bytes: unknown version", len(v))
	}
	n := nodeRecord{wanted: muster.NodeState(v[1])}
	n.Port, n.HTTPPort = binary.LittleEndian.Uint16(v[2:]), binary.LittleEndian.Uint16(v[4:])
	lengths := [...]int{int(v[6]), int(v[7]), int(v[8]), int(binary.LittleEndian.Uint16(v[9:]))}
	rest := v[nodeHead:]
	for i, s := range [...]*string{&n.ID, &n.Host, &n.Address, &n.Rack} {
		if len(rest) < lengths[i] {
			return nodeRecord{}, corrupt("datanode of %d bytes: cut", len(v))
		}
		*s, rest = string(rest[:lengths[i]]), rest[lengths[i]:]
	}
	clean := n.Registration
	if err := clean.clean(); err != nil || clean != n.Registration || len(rest) > 0 || !mayWant(n.wanted) {
		return nodeRecord{}, corrupt("datanode %.64q: bad fields (%v)", n.ID, err)
	}
	return n, nil
}

// clean checks a registration and gives its fields the one way to write them.
func (g *Registration) clean() error {
	if err := muster.CheckNodeID(g.ID); err != nil {
		return err
	}
	if err := muster.CheckHost(g.Host); err != nil {
		return err
	}
	if g.Port == 0 {
		return fmt.Errorf("%w: datanode %s has port 0", muster.ErrInvalid, g.ID)
	}
	if g.Address != "" {
		a, err := netip.ParseAddr(g.Address)
		if err != nil {
			return fmt.Errorf("%w: address %.64q of datanode %s is no IP address", muster.ErrInvalid, g.Address, g.ID)
		}
		g.Address = a.Unmap().WithZone("").String()
	}
	if g.Rack == "" {
		return nil
	}
	rack, err := muster.CleanRack(g.Rack)
	g.Rack = rack
	return err
}

// mayWant says whether a state is for operators to set.
func mayWant(s muster.NodeState) bool { return s <= muster.Maintenance }

// The counters' record:
//
//	version u8 | next container u64 | datanodes u32
const (
	countersVersion = 1
	countersLen     = 13
)

// counters is what is durable of no container or datanode alone.
type counters struct {
	next  uint64 // container id to be given next; from 1
	nodes uint32 // datanodes that have registered
}

func appendCounters(dst []byte, c counters) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, countersVersion), c.next)
	return binary.LittleEndian.AppendUint32(dst, c.nodes)
}

func decodeCounters(v []byte) (counters, error) {
	if len(v) != countersLen || v[0] != countersVersion {
		return counters{}, corrupt("counters of %d bytes: unknown version", len(v))
	}
	c := counters{binary.LittleEndian.Uint64(v[1:]), binary.LittleEndian.Uint32(v[9:])}
	if c.next == 0 || c.nodes > muster.MaxNodes {
		return counters{}, corrupt("counters: next container %d, %d datanodes", c.next, c.nodes)
	}
	return c, nil
}

// maxContainer is the largest id of a container.
const maxContainer = math.MaxUint64 - 1

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{muster.ErrCorrupt}, args...)...)
}

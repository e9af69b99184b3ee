package rpc

import (
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// NodesToPB returns the messages of nodes, in their order.
func NodesToPB(nodes []muster.Node) []*pb.Node {
	list := make([]*pb.Node, len(nodes))
	for i := range nodes {
		list[i] = NodeToPB(&nodes[i])
	}
	return list
}

// NodesFromPB returns the nodes of messages, in their order.
func NodesFromPB(list []*pb.Node) (nodes []muster.Node, err error) {
	nodes = make([]muster.Node, len(list))
	for i, m := range list {
		if nodes[i], err = NodeFromPB(m); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// NodePositions says where in a message's table nodes are: their position plus one.
type NodePositions map[muster.NodeNumber]uint32

// PositionsOf returns where the nodes of a table are.
func PositionsOf(nodes []muster.Node) NodePositions {
	at := make(NodePositions, len(nodes))
	for i := range nodes {
		at[nodes[i].Number] = uint32(i) + 1
	}
	return at
}

// List returns the positions of nodes; that of muster.NoNode, and of what is not in the
// table, is 0.
func (at NodePositions) List(nodes []muster.NodeNumber) []uint32 {
	return at.append(make([]uint32, 0, len(nodes)), nodes)
}

func (at NodePositions) append(dst []uint32, nodes []muster.NodeNumber) []uint32 {
	for _, n := range nodes {
		dst = append(dst, at[n])
	}
	return dst
}

// Placement returns the message of a container's outcome.
func (at NodePositions) Placement(p *muster.Placement, err error) *pb.Placement {
	m := new(pb.Placement)
	at.Place(m, make([]uint32, 0, len(p.Nodes)), p, err)
	return m
}

// Place makes m the message of a container's outcome. It appends the positions of nodes to
// room, since an answer has thousands of them.
func (at NodePositions) Place(m *pb.Placement, room []uint32, p *muster.Placement, err error) []uint32 {
	first := len(room)
	room = at.append(room, p.Nodes)
	m.Container, m.Replication, m.Closed, m.Nodes = p.Container, uint32(p.Replication), p.Closed, room[first:len(room):len(room)]
	m.Code, m.Message = ToStatus(err)
	return room
}

// NumbersAt returns the nodes at positions of a message's table plus one, muster.NoNode for 0. It
// refuses with muster.ErrCorrupt positions that the table does not have.
func NumbersAt(positions []uint32, nodes []muster.Node) ([]muster.NodeNumber, error) {
	numbers := make([]muster.NodeNumber, len(positions))
	for i, at := range positions {
		switch {
		case at == 0:
			numbers[i] = muster.NoNode
		case int(at) <= len(nodes):
			numbers[i] = nodes[at-1].Number
		default:
			return nil, fmt.Errorf("%w: node %d of a table of %d", muster.ErrCorrupt, at, len(nodes))
		}
	}
	return numbers, nil
}

// PlacementFromPB returns the placement of a message, whose nodes are in the table, or why
// the service does not know it: outcome. It refuses with muster.ErrCorrupt what no placement
// is.
func PlacementFromPB(m *pb.Placement, nodes []muster.Node) (p muster.Placement, outcome, err error) {
	p.Container = m.GetContainer()
	if outcome = FromStatus(m.GetCode(), m.GetMessage()); outcome != nil {
		return p, outcome, nil
	}
	if p.Replication, err = replicationFromPB(m.GetReplication()); err != nil {
		return p, nil, fmt.Errorf("%w: container %d of replication %#x", muster.ErrCorrupt, m.GetContainer(), m.GetReplication())
	}
	p.Closed = m.GetClosed()
	if p.Nodes, err = NumbersAt(m.GetNodes(), nodes); err != nil {
		return p, nil, fmt.Errorf("container %d: %w", m.GetContainer(), err)
	}
	return p, nil, nil
}

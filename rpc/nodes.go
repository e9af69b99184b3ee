package rpc

import (
	"fmt"
	"math"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// NodeToPB returns the message of a datanode.
func NodeToPB(n *muster.Node) *pb.Node {
	return &pb.Node{
		Number: uint32(n.Number), Id: n.ID, Host: n.Host, Address: n.Address,
		Port: uint32(n.Port), HttpPort: uint32(n.HTTPPort), Rack: n.Rack, State: uint32(n.State),
	}
}

// NodeFromPB returns the datanode of a message. It refuses with muster.ErrCorrupt values
// that no datanode has.
func NodeFromPB(m *pb.Node) (muster.Node, error) {
	n := muster.Node{
		Number: muster.NodeNumber(m.GetNumber()), ID: m.GetId(), Host: m.GetHost(), Address: m.GetAddress(),
		Port: uint16(m.GetPort()), HTTPPort: uint16(m.GetHttpPort()), Rack: m.GetRack(), State: muster.NodeState(m.GetState()),
	}
	if err := checkNode(m); err != nil {
		return muster.Node{}, fmt.Errorf("%w: node %d: %v", muster.ErrCorrupt, m.GetNumber(), err)
	}
	return n, nil
}

func checkNode(m *pb.Node) error {
	if m.GetNumber() >= muster.MaxNodes || m.GetPort() > math.MaxUint16 || m.GetHttpPort() > math.MaxUint16 || m.GetState() > uint32(muster.Dead) {
		return fmt.Errorf("ports %d and %d, state %d", m.GetPort(), m.GetHttpPort(), m.GetState())
	}
	if err := muster.CheckNodeID(m.GetId()); err != nil {
		return err
	}
	if err := muster.CheckHost(m.GetHost()); err != nil {
		return err
	}
	if a := m.GetAddress(); a != "" {
		if err := muster.CheckHost(a); err != nil {
			return err
		}
	}
	rack, err := muster.CleanRack(m.GetRack())
	if err == nil && rack != m.GetRack() {
		err = fmt.Errorf("network location %q is written %q", m.GetRack(), rack)
	}
	return err
}

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
	err := checkNumbers(m.GetNumber(), m.GetPort(), m.GetHttpPort(), m.GetState())
	if err == nil {
		err = checkNode(&n)
	}
	if err != nil {
		return muster.Node{}, fmt.Errorf("%w: node %d: %v", muster.ErrCorrupt, m.GetNumber(), err)
	}
	return n, nil
}

// checkNumbers checks the numbers of a node as they crossed the wire, with more bits than a
// node's have.
func checkNumbers(number, port, httpPort, state uint32) error {
	if number >= muster.MaxNodes || port > math.MaxUint16 || httpPort > math.MaxUint16 || state > uint32(muster.Dead) {
		return fmt.Errorf("ports %d and %d, state %d", port, httpPort, state)
	}
	return nil
}

func checkNode(n *muster.Node) error {
	if err := muster.CheckNodeID(n.ID); err != nil {
		return err
	}
	if err := muster.CheckHost(n.Host); err != nil {
		return err
	}
	if n.Address != "" {
		if err := muster.CheckHost(n.Address); err != nil {
			return err
		}
	}
	rack, err := muster.CleanRack(n.Rack)
	if err == nil && rack != n.Rack {
		err = fmt.Errorf("network location %q is written %q", n.Rack, rack)
	}
	return err
}

package rpc

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fs/muster"
)

// appendNode appends a node as a field of a pb.ListReply.
func appendNode(dst []byte, n *muster.Node) []byte {
	at := len(dst)
	dst = appendVarint(dst, nodeNumber, uint64(n.Number))
	dst = appendString(dst, nodeID, n.ID)
	dst = appendString(dst, nodeHost, n.Host)
	dst = appendString(dst, nodeAddress, n.Address)
	dst = appendVarint(dst, nodePort, uint64(n.Port))
	dst = appendVarint(dst, nodeHTTPPort, uint64(n.HTTPPort))
	dst = appendString(dst, nodeRack, n.Rack)
	dst = appendVarint(dst, nodeState, uint64(n.State))
	return enclose(dst, at, replyNode)
}

// enclose makes what dst holds from at on the value of a field.
func enclose(dst []byte, at int, tag byte) []byte {
	size := len(dst) - at
	head := 1 + protowire.SizeVarint(uint64(size))
	dst = append(dst, make([]byte, head)...)
	copy(dst[at+head:], dst[at:at+size])
	protowire.AppendVarint(append(dst[:at], tag), uint64(size))
	return dst
}

// UnmarshalNode returns the node of a message, which it does not keep. It refuses with
// muster.ErrCorrupt values that no datanode has.
func UnmarshalNode(b []byte) (muster.Node, error) {
	var n muster.Node
	var number, port, httpPort, state uint32
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return muster.Node{}, fmt.Errorf("%w: node: %w", muster.ErrCorrupt, err)
		}
		b = rest
		switch tag {
		case nodeNumber:
			number = uint32(value)
		case nodeID:
			n.ID = string(text)
		case nodeHost:
			n.Host = string(text)
		case nodeAddress:
			n.Address = string(text)
		case nodePort:
			port = uint32(value)
		case nodeHTTPPort:
			httpPort = uint32(value)
		case nodeRack:
			n.Rack = string(text)
		case nodeState:
			state = uint32(value)
		}
	}
	err := checkNumbers(number, port, httpPort, state)
	n.Number, n.Port, n.HTTPPort, n.State = muster.NodeNumber(number), uint16(port&math.MaxUint16), uint16(httpPort&math.MaxUint16), muster.NodeState(state&0xff)
	if err == nil {
		err = checkNode(&n)
	}
	if err != nil {
		return muster.Node{}, fmt.Errorf("%w: node %d: %v", muster.ErrCorrupt, number, err)
	}
	return n, nil
}

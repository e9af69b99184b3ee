package rpc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestADatanodeCrossesTheWireAsItIs(t *testing.T) {
	for _, n := range []muster.Node{
		{ID: "a", Host: "h", Rack: "/r"},
		{Number: muster.MaxNodes - 1, ID: "a-b", Host: "dn1.example", Address: "::1", Port: 65535, HTTPPort: 9864, Rack: "/dc1/r7", State: muster.Dead},
	} {
		if got, err := rpc.NodeFromPB(rpc.NodeToPB(&n)); err != nil || got != n {
			t.Errorf("%+v became %+v, %v", n, got, err)
		}
	}
}

func TestWhatNoDatanodeHasIsCorrupt(t *testing.T) {
	for name, spoil := range map[string]func(*pb.Node){
		"number":            func(n *pb.Node) { n.Number = muster.MaxNodes },
		"no id":             func(n *pb.Node) { n.Id = "" },
		"id of two parts":   func(n *pb.Node) { n.Id = "a/b" },
		"no host":           func(n *pb.Node) { n.Host = "" },
		"host with space":   func(n *pb.Node) { n.Host = "a b" },
		"address with bell": func(n *pb.Node) { n.Address = "\a" },
		"port":              func(n *pb.Node) { n.Port = 1 << 16 },
		"http port":         func(n *pb.Node) { n.HttpPort = 1 << 16 },
		"no rack":           func(n *pb.Node) { n.Rack = "" },
		"relative rack":     func(n *pb.Node) { n.Rack = "r" },
		"unclean rack":      func(n *pb.Node) { n.Rack = "/r/" },
		"long rack":         func(n *pb.Node) { n.Rack = "/" + strings.Repeat("r", muster.MaxRackBytes) },
		"state":             func(n *pb.Node) { n.State = uint32(muster.Dead) + 1 },
	} {
		m := rpc.NodeToPB(&muster.Node{Number: 3, ID: "a", Host: "h", Rack: "/r"})
		spoil(m)
		if _, err := rpc.NodeFromPB(m); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := rpc.NodeFromPB(nil); !errors.Is(err, muster.ErrCorrupt) {
		t.Errorf("none: %v", err)
	}
}

package client

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
)

// FuzzLocated: whatever a server sends as an answer with locations is refused, or makes
// blocks whose replicas all have a node.
func FuzzLocated(f *testing.F) {
	add := func(m *pb.LocatedReply) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	rs21, _ := muster.ParseReplication("ec/rs-2-1")
	m := &pb.LocatedReply{
		Entry: &pb.EntryReply{Kind: uint32(muster.File), Blocks: []*pb.Block{{Container: 5, Length: 1}, {Container: 6}, {Container: 5}}},
		Located: &pb.Located{
			Placements: []uint32{0, 1, 0},
			Containers: []*pb.LocatedContainer{
				{Container: 5, Replication: uint32(muster.Replicated(2)), Nodes: []uint32{1, 2}},
				{Container: 6, Replication: uint32(rs21), Nodes: []uint32{0, 1, 2}},
			},
			Nodes: []*pb.Node{{Number: 1, Id: "a", Host: "a", Rack: "/r"}, {Number: 2, Id: "b", Host: "b", Rack: "/r"}},
			Order: []byte{0, 1, 2, 1, 0, 1, 0},
			Next:  4,
		},
	}
	add(m)
	m.Located.Order, m.Located.Next = nil, 0
	add(m)
	m.Located.Containers[0].Code = 14
	add(m)
	m.Located.Grant, m.Located.Macs, m.Located.GrantMs = []byte("grant"), make([]byte, 3*token.MACBytes), 1000
	add(m)
	add(&pb.LocatedReply{Entry: &pb.EntryReply{Kind: uint32(muster.Directory)}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.LocatedReply
		if proto.Unmarshal(b, &m) != nil {
			t.Skip()
		}
		var l Located
		if _, err := l.add(&m, 0); err != nil {
			return
		}
		if m.Located != nil && len(l.Blocks) != len(m.Entry.Blocks) {
			t.Errorf("%d blocks of %d", len(l.Blocks), len(m.Entry.Blocks))
		}
		for _, block := range l.Blocks {
			if tok, _ := block.token(); len(tok) != len(m.Located.GetGrant())+16+token.MACBytes && len(m.Located.GetGrant()) > 0 {
				t.Errorf("a token of %d bytes", len(tok))
			}
			for _, r := range block.Replicas {
				if r.Node == nil || r.Host == "" {
					t.Errorf("a replica without a node in %+v", block)
				}
			}
		}
	})
}

package client_test

import (
	"context"
	"slices"
	"testing"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// bounded is a server that says how many paths of a stream come in a message, and keeps
// how many did. Each path is an empty directory.
type bounded struct {
	liar
	says   uint32
	counts []uint32
}

func (s *bounded) Capabilities(context.Context, *pb.CapabilitiesRequest) (*pb.CapabilitiesReply, error) {
	return &pb.CapabilitiesReply{RowSchema: s.schema, MaxMessageBytes: rpc.MaxMessage, MaxChunkPaths: s.says}, nil
}

func (s *bounded) List(stream pb.DRPCNamespace_ListStream) error {
	index := uint64(0)
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		s.counts = append(s.counts, request.Count)
		reply := &pb.ListReply{Done: request.Last}
		for range request.Count {
			reply.Outcomes = append(reply.Outcomes, ended(index, 0))
			index++
		}
		if request.Last {
			reply.TotalOutcomes = index
		}
		if err := stream.Send(reply); err != nil || request.Last {
			return err
		}
	}
}

func TestNoMessageOfAStreamHasMorePathsThanTheServerTakes(t *testing.T) {
	for says, takes := range map[uint32]uint32{1: 1, 10: 10, 0: rpc.ChunkPaths, 300: 300, rpc.MaxChunkPaths: rpc.MaxChunkPaths, 1 << 31: rpc.MaxChunkPaths} {
		s := &bounded{liar: liar{schema: rows.SchemaVersion}, says: says}
		_, addr := serveAs(t, s, pb.DRPCNamespaceDescription{})
		paths := names("/d/", int(min(3*takes, 3*rpc.MaxChunkPaths)))
		if _, err := client.Collect(dial(t, addr, client.Options{}).List(t.Context(), slices.Values(paths), client.ListOptions{})); err != nil {
			t.Errorf("a server that says %d: %v", says, err)
		}
		if most := slices.Max(s.counts); most > takes {
			t.Errorf("a server that says %d got %d in a message", says, most)
		}
	}
}

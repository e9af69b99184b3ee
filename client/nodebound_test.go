package client_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// flooder is a server that answers each List with nodes without end.
type flooder struct {
	liar
	message []byte // encoded
	sent    chan int
}

func (f *flooder) List(stream pb.DRPCNamespace_ListStream) error {
	for last := false; !last; {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		last = request.Last
	}
	for n := 0; ; n++ {
		if err := rpc.SendRaw(stream, f.message); err != nil {
			f.sent <- n
			return err
		}
	}
}

// TestATableOfNodesWithoutEndIsCorrupt after four times as many as there can be.
func TestATableOfNodesWithoutEndIsCorrupt(t *testing.T) {
	const each = 64 << 10
	m := &pb.ListReply{Nodes: slices.Repeat([]*pb.Node{{Id: "a", Host: "a", Rack: "/"}}, each)}
	message, err := proto.Marshal(m)
	must(t, err)
	f := &flooder{liar: liar{schema: rows.SchemaVersion}, message: message, sent: make(chan int, 1)}
	_, addr := serveAs(t, f, pb.DRPCNamespaceDescription{})
	c := dial(t, addr, client.Options{Attempts: 3})
	_, err = client.Collect(c.List(t.Context(), slices.Values([]string{"/a"}), client.ListOptions{Locations: muster.LocationsHint}))
	if !errors.Is(err, muster.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	// What the client did not take may have been sent.
	if n := <-f.sent; n < 4*muster.MaxNodes/each || n > 8*muster.MaxNodes/each {
		t.Errorf("%d messages of %d nodes", n, each)
	}
}

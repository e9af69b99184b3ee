package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// TestATableOfNodesWithoutEndIsCorrupt after four times as many as there can be, or, if they have
// long names, after many bytes.
func TestATableOfNodesWithoutEndIsCorrupt(t *testing.T) {
	const many, told = 4 * muster.MaxNodes, 256 << 20
	long := &pb.Node{Id: "a", Host: "a", Rack: "/" + strings.Repeat("r", muster.MaxRackBytes-1)}
	for name, tc := range map[string]struct {
		node *pb.Node
		each int // in a message
		want int // messages
	}{
		"many": {&pb.Node{Id: "a", Host: "a", Rack: "/"}, 64 << 10, many / (64 << 10)},
		"long": {long, 2 << 10, told / (2 << 10 * proto.Size(long))},
	} {
		t.Run(name, func(t *testing.T) {
			message, err := proto.Marshal(&pb.ListReply{Nodes: slices.Repeat([]*pb.Node{tc.node}, tc.each)})
			must(t, err)
			f := &flooder{liar: liar{schema: rows.SchemaVersion}, message: message, sent: make(chan int, 1)}
			_, addr := serveAs(t, f, pb.DRPCNamespaceDescription{})
			c := dial(t, addr, client.Options{Attempts: 3})
			_, err = client.Collect(c.List(t.Context(), slices.Values([]string{"/a"}), client.ListOptions{Locations: muster.LocationsHint}))
			if !errors.Is(err, muster.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			// What the client did not take may have been sent.
			if n := <-f.sent; n < tc.want || n > 2*tc.want {
				t.Errorf("%d messages of %d nodes, not %d", n, tc.each, tc.want)
			}
		})
	}
}

// quitter is a server that tells datanodes, and then is not available.
type quitter struct {
	liar
	calls atomic.Int64
}

func (q *quitter) List(stream pb.DRPCNamespace_ListStream) error {
	q.calls.Add(1)
	if err := q.liar.List(stream); err != nil {
		return err
	}
	return muster.ErrUnavailable
}

// TestNodesAreNoProgress of a listing, which ends after its attempts if nothing else comes.
func TestNodesAreNoProgress(t *testing.T) {
	q := &quitter{liar: liar{schema: rows.SchemaVersion, list: []*pb.ListReply{{Nodes: []*pb.Node{{Id: "a", Host: "a", Rack: "/"}}}}}}
	_, addr := serveAs(t, q, pb.DRPCNamespaceDescription{})
	c := dial(t, addr, client.Options{Attempts: 3})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := client.Collect(c.List(ctx, slices.Values([]string{"/a"}), client.ListOptions{Locations: muster.LocationsHint}))
	if n := q.calls.Load(); !errors.Is(err, muster.ErrUnavailable) || n != 3 {
		t.Errorf("after %d calls: %v", n, err)
	}
}

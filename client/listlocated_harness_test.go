package client_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc/pb"
)

// script is a server that answers each List in its own way, and ends it then.
type script struct {
	liar
	calls [][]*pb.ListReply
	asked []*pb.ListOptions
}

func (s *script) List(stream pb.DRPCNamespace_ListStream) error {
	for last := false; !last; {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.Options != nil {
			s.asked = append(s.asked, request.Options)
		}
		last = request.Last
	}
	replies := s.calls[0]
	if len(s.calls) > 1 {
		s.calls = s.calls[1:]
	}
	for _, reply := range replies {
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
	return nil
}

// newScript runs a script and returns a client of it.
func newScript(t *testing.T, o client.Options, calls ...[]*pb.ListReply) (*script, *client.Client) {
	t.Helper()
	s := &script{liar: liar{schema: rows.SchemaVersion}, calls: calls}
	_, addr := serveAs(t, s, pb.DRPCNamespaceDescription{})
	return s, dial(t, addr, o)
}

// placed is a row of a located frame: a file, one block a list of positions. nil is unknown.
type placed struct {
	path        uint32
	replication muster.Replication
	blocks      [][]uint32
}

const locatedColumns = rows.DefaultColumns | rows.ColBlocks

func locatedFrame(all ...placed) []byte {
	b := rows.NewBuilder(locatedColumns)
	for _, p := range all {
		r := muster.Row{Name: []byte("x"), Kind: muster.File, Replication: p.replication, Length: int64(100 * len(p.blocks))}
		for k := range p.blocks {
			r.Blocks = append(r.Blocks, muster.Block{Container: uint64(10 + k), LocalID: uint64(k), Length: 100})
		}
		b.Append(p.path, &r)
	}
	for _, p := range all {
		for _, nodes := range p.blocks {
			if nodes == nil {
				b.AppendUnknown()
			} else {
				b.AppendNodes(nodes, []uint32{uint32(len(nodes))})
			}
		}
	}
	return b.AppendFrame(nil)
}

func nodeOf(n uint32) *pb.Node {
	return &pb.Node{Number: n, Id: fmt.Sprint("id", n), Host: fmt.Sprint("dn", n), Rack: "/r", Port: 1}
}

// tell writes where the rows of a batch are, by Batch.Replica, and checks that Located says the
// same.
func tell(t *testing.T, b *client.Batch) (lines []string) {
	t.Helper()
	for i := range b.Len() {
		l := b.Located(i)
		line := b.Given(i) + ":"
		for k := range b.NumBlocks(i) {
			var replicas, owned []string
			n := b.NumReplicas(i, k)
			for j := range n {
				r := b.Replica(i, k, j)
				if r.Node == nil {
					continue
				}
				replicas = append(replicas, fmt.Sprintf("%s#%d", r.Host, r.Index))
			}
			for _, r := range l.Blocks[k].Replicas {
				owned = append(owned, fmt.Sprintf("%s#%d", r.Host, r.Index))
			}
			if !slices.Equal(replicas, owned) || (l.Blocks[k].Err != nil) != (n < 0) || l.Blocks[k].Offset != int64(100*k) {
				t.Errorf("%s: block %d on %q, and as a value on %+v", b.Given(i), k, replicas, l.Blocks[k])
			}
			if n < 0 {
				replicas = []string{"unknown"}
			}
			line += fmt.Sprintf(" %q", replicas)
		}
		lines = append(lines, line)
	}
	return lines
}

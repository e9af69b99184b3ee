package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestWhatIsAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":          {nil, false},
		"no connection":    {fmt.Errorf("%w: refused", muster.ErrUnavailable), true},
		"another key":      {fmt.Errorf("prove: %w", muster.ErrUnauthenticated), true},
		"key not taken":    {&rpc.Error{Code: muster.ErrUnauthenticated}, true},
		"overload":         {&rpc.Error{Code: muster.ErrUnavailable}, false},
		"no such thing":    {&rpc.Error{Code: muster.ErrNotFound}, false},
		"caller has gone":  {fmt.Errorf("%w: %w", muster.ErrCancelled, context.Canceled), false},
		"caller's time":    {muster.ErrDeadline, false},
		"waited in vain":   {fmt.Errorf("%w: %w", muster.ErrUnavailable, context.DeadlineExceeded), false},
		"answer not valid": {muster.ErrCorrupt, false},
	} {
		if got := isOutage(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// scripted is a location service whose topologies a test gives.
type scripted struct {
	service
	topologies chan *pb.TopologyReply
	asked      []*pb.TopologyRequest
}

func (s *scripted) Topology(ctx context.Context, r *pb.TopologyRequest) (*pb.TopologyReply, error) {
	s.asked = append(s.asked, r)
	select {
	case reply := <-s.topologies:
		if reply == nil {
			return nil, fmt.Errorf("%w: gone", muster.ErrUnavailable)
		}
		return reply, nil
	case <-time.After(time.Duration(r.GetWaitMs()) * time.Millisecond):
		return &pb.TopologyReply{Boot: r.GetBoot(), Version: r.GetVersion(), Unchanged: true}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func node(number uint32, rack string, state muster.NodeState) *pb.Node {
	return rpc.NodeToPB(&muster.Node{Number: muster.NodeNumber(number), ID: fmt.Sprint("dn", number), Host: fmt.Sprint("h", number), Port: 1, Rack: rack, State: state})
}

func TestAServerFollowsTheTopologyPastWhatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cache, err := locations.New(&remote{}, locations.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close()
		s, m := &scripted{topologies: make(chan *pb.TopologyReply)}, new(topology.Map)
		wait := follow(ctx, slog.New(slog.DiscardHandler), s, m, cache)
		placed := func() int { return m.Load().Len() - len(m.Load().Skipped()) }
		s.topologies <- &pb.TopologyReply{Boot: 7, Version: 1, Nodes: []*pb.Node{node(0, "/r1", muster.InService), node(1, "/r2", muster.InService)}}
		time.Sleep(time.Minute)
		if n := placed(); n != 2 || cache.Node(1) == nil {
			t.Fatalf("%d nodes have a place", n)
		}
		for _, bad := range []*pb.TopologyReply{
			nil, // the service is away
			{Boot: 7, Version: 2, Nodes: []*pb.Node{{Number: 1 << 30}}},
			{Boot: 7, Version: 2, Levels: []*pb.Level{{Name: "root", Cost: math.MaxUint32}}},
			{Boot: 7, Version: 2, Levels: []*pb.Level{{Name: "root", Cost: 1}}},
			{Boot: 7, Version: 2, Rules: []*pb.RackRule{{Match: "10.0.0.0/99", Rack: "/r"}}},
		} {
			s.topologies <- bad
			time.Sleep(time.Minute)
			if n := placed(); n != 2 {
				t.Fatalf("%d nodes have a place after %v", n, bad)
			}
		}
		synctest.Wait()
		if last := s.asked[len(s.asked)-1]; last.Boot != 7 || last.Version != 1 {
			t.Errorf("asked for what follows %v", last)
		}
		s.topologies <- &pb.TopologyReply{Boot: 8, Version: 1, Nodes: []*pb.Node{node(0, "/r1", muster.Dead), node(1, "no rack", muster.InService)}}
		time.Sleep(time.Minute)
		s.topologies <- &pb.TopologyReply{Boot: 8, Version: 2, Nodes: []*pb.Node{node(0, "/r1", muster.Dead), node(1, "/too/deep", muster.InService)}}
		time.Sleep(time.Minute)
		if n := placed(); n != 1 || cache.Node(0).State != muster.Dead {
			t.Errorf("%d nodes have a place, node 0 is %v", n, cache.Node(0).State)
		}
		cancel()
		_ = wait()
	})
}

// TestATopologyTellsTheCacheOfDatanodesAndIsTakenIntoUseIfItIsAnother: a datanode's new address is
// in what is cached at once, without a load; after a restart of the service that changes
// nothing the tree stays.
func TestATopologyTellsTheCacheOfDatanodesAndIsTakenIntoUseIfItIsAnother(t *testing.T) {
	inFar(t, func(t *testing.T, far *far, _ *remote, cache *locations.Cache) {
		ctx, cancel := context.WithCancel(t.Context())
		s, m := &scripted{topologies: make(chan *pb.TopologyReply)}, new(topology.Map)
		wait := follow(ctx, slog.New(slog.DiscardHandler), s, m, cache)
		tell := func(boot, version uint64, warning string, nodes ...*pb.Node) {
			s.topologies <- &pb.TopologyReply{Boot: boot, Version: version, Nodes: nodes, Warning: warning}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		host := func() string {
			var out [1]locations.Located
			if err := cache.Get(ctx, []uint64{1}, out[:]); err != nil || out[0].Err != nil {
				t.Fatal(err, out[0].Err)
			}
			return cache.Node(out[0].Placement.Nodes[0]).Host
		}
		tell(7, 1, "", node(0, "/r", muster.InService))
		if got := host(); got != "h0" {
			t.Fatalf("on %s", got)
		}
		moved := node(0, "/r", muster.InService)
		moved.Host = "elsewhere"
		tell(7, 2, "", moved)
		if got := host(); got != "elsewhere" || far.lookups != 1 {
			t.Errorf("on %s after %d loads", got, far.lookups)
		}
		tree := m.Load()
		tell(7, 3, "the rack file is broken", moved)
		tell(8, 1, "", moved)
		if last := s.asked[len(s.asked)-1]; m.Load() != tree || last.Boot != 8 || last.Version != 1 {
			t.Errorf("nothing has changed, but the tree; asked for what follows %v", last)
		}
		cache.Learn([]muster.Node{{Number: 0, ID: "dn0", Host: "elsewhere", Port: 1, Rack: "/r", State: muster.Stale}}) // as a load says
		tell(9, 1, "", moved)
		if m.Load() != tree || cache.Node(0).State != muster.InService {
			t.Errorf("after a restart the datanode is %v", cache.Node(0).State)
		}
		stale := node(0, "/r", muster.Stale)
		tell(9, 2, "", stale)
		if m.Load() == tree {
			t.Error("a change of a state is none")
		}
		cancel()
		_ = wait()
	})
}

// TestATopologyArrivesWhole: levels, their costs, and rules are as the service has them
// (HDDS-9678), so distances are what they are there.
func TestATopologyArrivesWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "racks")
	if err := os.WriteFile(file, []byte("10.0.0.0/8 /dc1/r1\n10.9.0.0/16 /dc2/r1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	schema := topology.Schema{Levels: []topology.Level{{Name: "root", Cost: 5}, {Name: "dc", Cost: 3, Prefix: "dc", Default: "elsewhere"}, {Name: "rack", Cost: 1}, {Name: "node", Cost: 9}}}
	r, err := registry.Open(t.TempDir(), registry.Options{Schema: schema, MappingFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for i, g := range []registry.Registration{{Rack: "/dc1/r1"}, {Address: "10.0.0.1"}, {Rack: "/dc1/r2"}, {Address: "10.9.0.1"}, {Rack: "/elsewhere/default-rack"}, {}} {
		g.ID, g.Host, g.Port = fmt.Sprint("dn", i), fmt.Sprint("h", i), 1
		if _, err := r.Register(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	reply, err := (&locationCalls{registry: r, serving: t.Context()}).Topology(t.Context(), &pb.TopologyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(reply)
	if err == nil {
		err = proto.Unmarshal(wire, reply)
	}
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := treeFromPB(reply)
	if err != nil || tree.Len() != 6 || len(tree.Skipped()) > 0 {
		t.Fatal(err, tree.Skipped())
	}
	var m topology.Map
	m.Swap(tree)
	for reader, want := range map[string][]int32{
		"dn0":         {0, 2, 8, 18, 18, 18},
		"10.0.0.77":   {2, 2, 8, 18, 18, 18},
		"10.9.0.77":   {18, 18, 18, 2, 18, 18},
		"/elsewhere":  {14, 14, 14, 14, 4, 4}, // 5 up, 5, 3 and 1 down
		"/dc1/r2":     {8, 8, 2, 18, 18, 18},
		"h5":          {18, 18, 18, 18, 2, 0},
		"192.168.0.1": {0, 0, 0, 0, 0, 0}, // nobody knows it
	} {
		from := m.ReaderFor(reader)
		for n, cost := range want {
			if got := from.Cost(muster.NodeNumber(n)); got != cost {
				t.Errorf("from %s to node %d: %d, want %d", reader, n, got, cost)
			}
		}
	}
}

// FuzzLookupReply: whatever a location service sends, the answer is for the containers that
// were asked for, of nodes that are described; or it is an error.
func FuzzLookupReply(f *testing.F) {
	add := func(m *pb.LookupReply) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add(&pb.LookupReply{})
	add(&pb.LookupReply{
		Nodes: []*pb.Node{node(4, "/r", muster.Stale), node(5, "/r", 0)},
		Placements: []*pb.Placement{
			{Container: 1, Replication: 0x0103, Nodes: []uint32{1, 2}},
			{Container: 2, Replication: 0x0232, Nodes: []uint32{0, 1, 2, 0, 0}, Closed: true},
			{Container: 3, Code: 2, Message: "none"},
		},
	})
	add(&pb.LookupReply{Placements: []*pb.Placement{{Container: 1, Nodes: []uint32{math.MaxUint32}}, {Container: 2}, {Container: 3, Code: 9999}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var reply pb.LookupReply
		if proto.Unmarshal(b, &reply) != nil {
			return
		}
		asked := []uint64{1, 2, 3}
		answer, err := answerFromPB(&reply, asked)
		if err != nil {
			if !errors.Is(err, muster.ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			return
		}
		known := map[muster.NodeNumber]bool{muster.NoNode: true}
		for _, n := range answer.Nodes {
			known[n.Number] = true
		}
		for i, o := range answer.Outcomes {
			if o.Placement.Container != asked[i] {
				t.Fatalf("an answer for %d instead of %d", o.Placement.Container, asked[i])
			}
			for _, n := range o.Placement.Nodes {
				if !known[n] {
					t.Fatalf("node %d is not described", n)
				}
			}
		}
	})
}

// FuzzTopologyReply: whatever a location service sends is a tree, or an error.
func FuzzTopologyReply(f *testing.F) {
	for _, m := range []*pb.TopologyReply{
		{},
		{Nodes: []*pb.Node{node(0, "/r", 0), node(1, "/a/b", 0), node(1, "/r", 0)}, Rules: []*pb.RackRule{{Match: "10.0.0.0/8", Rack: "/r"}, {Match: "h", Rack: "/q"}}},
		{Levels: []*pb.Level{{Name: "root", Cost: 1}, {Name: "dc", Cost: 5, Prefix: "dc"}, {Name: "rack"}, {Name: "node"}}, Nodes: []*pb.Node{node(0, "/dc1/r", 0)}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var reply pb.TopologyReply
		if proto.Unmarshal(b, &reply) != nil {
			return
		}
		tree, nodes, err := treeFromPB(&reply)
		if (tree == nil) != (err != nil) || err == nil && len(nodes) != len(reply.Nodes) {
			t.Fatalf("tree %v of %d nodes, %v", tree, len(nodes), err)
		}
	})
}

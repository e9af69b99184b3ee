package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// source is a location service whose answers a test decides, and whose calls it counts.
type source struct {
	mu         sync.Mutex // guards all below
	nodes      []muster.Node
	placements map[uint64]muster.Placement
	failures   map[uint64]error // outcomes of containers
	err        error            // of each call
	before     func(ctx context.Context) error
	calls      [][]uint64 // the containers of each, in order
}

func (s *source) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return locations.Answer{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, slices.Sorted(slices.Values(containers)))
	if s.err != nil {
		return locations.Answer{}, s.err
	}
	answer := locations.Answer{Nodes: slices.Clone(s.nodes)}
	for _, id := range containers {
		p, ok := s.placements[id]
		err := s.failures[id]
		if !ok && err == nil {
			err = fmt.Errorf("%w: container %d", muster.ErrNotFound, id)
		}
		p.Container = id
		answer.Outcomes = append(answer.Outcomes, locations.Outcome{Placement: p, Err: err})
	}
	return answer, nil
}

// change changes the service under its lock.
func (s *source) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// take returns the calls since it was called last.
func (s *source) take() [][]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// located is a namespace server beside a source.
type located struct {
	t testing.TB
	*source
	*handlers
	addr   string
	client pb.DRPCNamespaceClient
}

// The nodes of a test are four in each of the racks /r0 to /r3: node 4r+i is in rack r.
const (
	racks        = 4
	nodesPerRack = 4
)

func testNodes() (nodes []muster.Node) {
	for n := range muster.NodeNumber(racks * nodesPerRack) {
		nodes = append(nodes, muster.Node{
			Number: n, ID: fmt.Sprintf("node-%d", n), Host: fmt.Sprintf("dn%d", n), Port: 9866, Rack: rackOf(n),
		})
	}
	return nodes
}

func rackOf(n muster.NodeNumber) string { return fmt.Sprintf("/r%d", n/nodesPerRack) }

// startLocated starts a server. Reads of it come from the store, so that they count.
func startLocated(t testing.TB) *located {
	t.Helper()
	return startLocatedOn(t, namespace.Options{ImageBytes: 1})
}

func startLocatedOn(t testing.TB, o namespace.Options) *located {
	t.Helper()
	o.Superuser = "root"
	tree, err := namespace.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{nodes: testNodes(), placements: map[uint64]muster.Placement{}, failures: map[uint64]error{}}
	cache, err := locations.New(s, locations.Options{})
	if err != nil {
		t.Fatal(err)
	}
	where := new(topology.Map)
	lister, err := listing.New(tree, listing.Config{Key: make([]byte, 32), Places: cache, Topology: where})
	if err != nil {
		t.Fatal(err)
	}
	l := &located{t: t, source: s, handlers: &handlers{
		tree: tree, lister: lister, cache: cache, places: cache, topology: where, log: slog.New(slog.DiscardHandler),
	}}
	l.swap(s.nodes)
	server, err := rpc.NewServer(l.handlers, pb.DRPCNamespaceDescription{}, rpc.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.HandleRaw(listPageCall, l.listPage); err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	l.addr = lis.Addr().String()
	pool := rpc.NewPool(l.addr, rpc.PoolOptions{})
	l.client = pb.NewDRPCNamespaceClient(pool)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		closed := pool.Close()
		if err := errors.Join(closed, server.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
		cache.Close()
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// swap makes a topology of nodes the current one.
func (l *located) swap(nodes []muster.Node) {
	l.t.Helper()
	l.topology.Swap(treeOf(l.t, nodes))
}

func treeOf(t testing.TB, nodes []muster.Node) *topology.Tree {
	t.Helper()
	mapping, err := topology.NewMapping([]topology.Rule{{Match: "10.0.0.0/16", Rack: "/r0"}, {Match: "10.1.0.0/16", Rack: "/r1"}})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.New(topology.Schema{}, nodes, mapping)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func (l *located) apply(commands ...muster.Command) {
	l.t.Helper()
	_, err := l.tree.Apply(l.t.Context(), namespace.Request{Caller: muster.Identity{User: "root"}, Commands: commands})
	if err != nil {
		l.t.Fatal(err)
	}
}

// replicated places containers on one node in each of three racks.
func (l *located) replicated(containers ...uint64) {
	l.change(func() {
		for _, id := range containers {
			l.placements[id] = muster.Placement{Replication: muster.Replicated(3), Closed: true, Nodes: []muster.NodeNumber{1, 6, 11}}
		}
	})
}

var rs32, _ = muster.ParseReplication("ec/rs-3-2")

// file makes a file of blocks of 100 bytes in the given containers.
func (l *located) file(path string, containers ...uint64) {
	l.t.Helper()
	l.apply(muster.Create{
		Path: path, Mode: 0o644, Parents: true, Replication: muster.Replicated(3), BlockSize: 100,
		Length: int64(100 * len(containers)), Blocks: blocksIn(containers...),
	})
}

func blocksIn(containers ...uint64) (blocks []muster.Block) {
	for i, c := range containers {
		blocks = append(blocks, muster.Block{Container: c, LocalID: uint64(i + 1), Length: 100})
	}
	return blocks
}

func as(t testing.TB, user string) context.Context {
	return rpc.ClientContext(t.Context(), muster.Identity{User: user})
}

// calls are the calls with locations of a whole file.
func (l *located) all() map[string]func(ctx context.Context, path string) (*pb.LocatedReply, error) {
	return map[string]func(ctx context.Context, path string) (*pb.LocatedReply, error){
		"stat": func(ctx context.Context, path string) (*pb.LocatedReply, error) {
			e, err := l.client.Stat(ctx, &pb.PathRequest{Path: []byte(path), Located: true, Sorted: true})
			if err != nil {
				return nil, err
			}
			r := &pb.LocatedReply{Entry: e, Located: e.Located}
			e.Located = nil
			return r, nil
		},
		"locate": func(ctx context.Context, path string) (*pb.LocatedReply, error) {
			return l.client.Locate(ctx, &pb.LocateRequest{Path: []byte(path)})
		},
		"open": func(ctx context.Context, path string) (*pb.LocatedReply, error) {
			return l.client.Open(ctx, &pb.OpenRequest{Path: []byte(path)})
		},
		"lookup": func(ctx context.Context, path string) (*pb.LocatedReply, error) {
			return l.client.Lookup(ctx, &pb.OpenRequest{Path: []byte(path)})
		},
	}
}

// reading returns the calls that need the permission to read the file.
func (l *located) reading() map[string]func(ctx context.Context, path string) (*pb.LocatedReply, error) {
	calls := l.all()
	maps.DeleteFunc(calls, func(name string, _ func(context.Context, string) (*pb.LocatedReply, error)) bool {
		return name == "stat"
	})
	return calls
}

// containersOf are the containers of the blocks of an answer.
func containersOf(r *pb.LocatedReply) (ids []uint64) {
	for i, b := range r.GetEntry().GetBlocks() {
		c := r.Located.Containers[r.Located.Placements[i]]
		if c.Container != b.Container {
			panic(fmt.Sprintf("block %v with container %v", b, c))
		}
		ids = append(ids, c.Container)
	}
	return ids
}

// orders are the nodes of each block of an answer in the order told; -1 is an absent one.
func orders(r *pb.LocatedReply) (all [][]int) {
	order := r.Located.Order
	for _, at := range r.Located.Placements {
		c := r.Located.Containers[at]
		var nodes []int
		for i := range c.Nodes {
			if len(r.Located.Order) > 0 {
				i = int(order[0])
				order = order[1:]
			}
			n := -1
			if at := c.Nodes[i]; at > 0 {
				n = int(r.Located.Nodes[at-1].Number)
			}
			nodes = append(nodes, n)
		}
		all = append(all, nodes)
	}
	return all
}

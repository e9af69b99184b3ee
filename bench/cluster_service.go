package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// wireService is a location service that is reached by calls.
type wireService struct {
	pool   *rpc.Pool
	client pb.DRPCLocationsClient
}

func newWireService(address string, clusterKey []byte) (*wireService, error) {
	key, err := rpc.NewPeerKey(clusterKey)
	if err != nil {
		return nil, err
	}
	pool := rpc.NewPool(address, rpc.PoolOptions{PeerKey: key, PeerRole: rpc.RoleDatanode})
	return &wireService{pool: pool, client: pb.NewDRPCLocationsClient(pool)}, nil
}

func (s *wireService) close() error { return s.pool.Close() }

func (s *wireService) join(ctx context.Context, o member.Options) (membership, error) {
	return member.Join(ctx, s.pool, o)
}

func (s *wireService) allocate(ctx context.Context, q registry.AllocateRequest) (a registry.Allocation, err error) {
	ask := &pb.AllocateRequest{Replication: uint32(q.Replication), Count: uint32(q.Count)}
	for _, n := range q.Exclude {
		ask.Exclude = append(ask.Exclude, uint32(n))
	}
	reply, err := s.client.Allocate(ctx, ask)
	if err != nil {
		return a, err
	}
	if a.Nodes, err = rpc.NodesFromPB(reply.GetNodes()); err != nil {
		return a, err
	}
	for _, b := range reply.GetBlocks() {
		a.Blocks = append(a.Blocks, muster.BlockID{Container: b.GetContainer(), LocalID: b.GetLocalId()})
	}
	for _, m := range reply.GetPlacements() {
		p, outcome, err := rpc.PlacementFromPB(m, a.Nodes)
		if err = errors.Join(outcome, err); err != nil {
			return a, err
		}
		a.Placements = append(a.Placements, p)
	}
	return a, nil
}

func (s *wireService) closeContainer(ctx context.Context, id uint64) error {
	_, err := s.client.CloseContainer(ctx, &pb.CloseContainerRequest{Container: id})
	return err
}

func (s *wireService) closed(ctx context.Context, r muster.Replication, n int) ([]registry.Imported, error) {
	made := make([]registry.Imported, n)
	for i := range made {
		a, err := s.allocate(ctx, registry.AllocateRequest{Replication: r, Count: 1})
		if err != nil {
			return nil, err
		}
		made[i] = registry.Imported{Container: a.Blocks[0].Container, Members: a.Placements[0].Nodes}
		if err := s.closeContainer(ctx, made[i].Container); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// localService is a registry in this process, which its owner closes.
type localService struct{ registry *registry.Registry }

func (s localService) close() error { return nil }

func (s localService) allocate(ctx context.Context, q registry.AllocateRequest) (registry.Allocation, error) {
	return s.registry.Allocate(ctx, q)
}

func (s localService) closeContainer(ctx context.Context, id uint64) error {
	return s.registry.CloseContainer(ctx, id)
}

// firstMade is the id of the first container that is made closed: far above those of containers that
// are made for blocks.
const firstMade = 1 << 32

func (s localService) closed(ctx context.Context, r muster.Replication, n int) ([]registry.Imported, error) {
	var nodes []muster.NodeNumber
	for _, d := range s.registry.Datanodes() {
		nodes = append(nodes, d.Node.Number)
	}
	if len(nodes) < r.Nodes() || r.Nodes() == 0 {
		return nil, fmt.Errorf("%w: containers of %v on %d datanodes", muster.ErrInvalid, r, len(nodes))
	}
	first := uint64(firstMade + s.registry.Stats().Containers)
	made := make([]registry.Imported, n)
	for i := range made {
		m := &made[i]
		m.Container, m.Replication, m.Closed, m.NextLocalID = first+uint64(i), r, true, 1
		for k := range r.Nodes() {
			m.Members = append(m.Members, nodes[(i+k)%len(nodes)])
		}
	}
	for done := 0; done < n; done += registry.MaxImport {
		if err := s.registry.Import(ctx, made[done:min(n, done+registry.MaxImport)]); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (s localService) join(ctx context.Context, o member.Options) (membership, error) {
	t := &seat{registry: s.registry, options: o, done: make(chan struct{})}
	if err := t.register(ctx); err != nil {
		return nil, err
	}
	beating, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go t.beat(beating) // ends with Close
	return t, nil
}

// seat does for a registry in this process what member.Member does over the wire.
type seat struct {
	registry *registry.Registry
	options  member.Options
	cancel   context.CancelFunc
	done     chan struct{} // closed when there are no heartbeats any more

	reporting sync.Mutex // orders reports

	mu    sync.Mutex // guards what follows
	known registry.Registered
}

func (t *seat) registered() registry.Registered {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known
}

func (t *seat) Number() muster.NodeNumber { return t.registered().Number }
func (t *seat) Rack() string              { return t.registered().Rack }

func (t *seat) Close() error {
	t.cancel()
	<-t.done
	return nil
}

func (t *seat) register(ctx context.Context) error {
	o := &t.options
	known, err := t.registry.Register(ctx, registry.Registration{
		ID: o.ID, Host: o.Host, Address: o.Address, Port: o.Port, HTTPPort: o.HTTPPort, Rack: o.Rack,
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = known
	return nil
}

// beat sends heartbeats until ctx ends. A registry that has closed is left alone.
func (t *seat) beat(ctx context.Context) {
	defer close(t.done)
	var results []registry.OrderResult
	for {
		if pause(ctx, t.registered().Heartbeat); ctx.Err() != nil {
			return
		}
		known := t.registered()
		wishes, err := t.registry.Heartbeat(known.Number, known.Session, registry.Beat{Results: results})
		if err != nil {
			continue
		}
		if wishes.Report {
			_ = t.ReportAll(ctx) // the service asks again
		}
		results = nil
		for _, o := range wishes.Orders {
			err := fmt.Errorf("%w: this datanode carries out no orders", muster.ErrInvalid)
			if t.options.Order != nil {
				err = t.options.Order(ctx, o)
			}
			results = append(results, registry.OrderResult{ID: o.ID, Err: err})
		}
	}
}

func (t *seat) ReportAll(context.Context) error {
	_, err := t.report(true, t.options.Replicas)
	return err
}

func (t *seat) Report(_ context.Context, changes []member.Replica) (uint64, error) {
	return t.report(false, func() []member.Replica { return changes })
}

func (t *seat) report(full bool, replicas func() []member.Replica) (unknown uint64, err error) {
	t.reporting.Lock()
	defer t.reporting.Unlock()
	known := t.registered()
	list := replicas()
	given := make([]registry.Replica, len(list))
	for i, r := range list {
		given[i] = registry.Replica(r)
	}
	return t.registry.Report(known.Number, known.Session, full, given)
}

var (
	_ clusterService = (*wireService)(nil)
	_ clusterService = localService{}
	_ membership     = (*member.Member)(nil)
	_ membership     = (*seat)(nil)
)

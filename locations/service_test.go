package locations_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// service is a location service that counts its calls and does as it is told.
type service struct {
	mu         sync.Mutex
	calls      [][]uint64 // containers of each, in the order in which they began
	containers map[uint64]muster.Placement
	nodes      map[muster.NodeNumber]muster.Node
	bad        map[uint64]error // of single containers
	down       error            // of calls
	// before and after are called, without the lock, with the number of the call from 1: before
	// and after it reads what it answers. nil: nothing.
	before, after func(ctx context.Context, call int)
}

// newService has the given containers, each on three nodes of five.
func newService(containers ...uint64) *service {
	s := &service{containers: map[uint64]muster.Placement{}, nodes: map[muster.NodeNumber]muster.Node{}, bad: map[uint64]error{}}
	for n := range muster.NodeNumber(5) {
		s.nodes[n] = muster.Node{Number: n, ID: string('a' + rune(n)), Host: "host", Port: 9, Rack: muster.DefaultRack}
	}
	for _, id := range containers {
		first := muster.NodeNumber(id % 5)
		s.put(muster.Placement{Container: id, Replication: muster.Replicated(3),
			Nodes: []muster.NodeNumber{first, (first + 1) % 5, (first + 2) % 5}})
	}
	return s
}

func (s *service) put(p muster.Placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[p.Container] = p
}

// move puts a container on other nodes.
func (s *service) move(id uint64, nodes ...muster.NodeNumber) {
	s.put(muster.Placement{Container: id, Replication: muster.Replicated(3), Nodes: nodes})
}

func (s *service) setNode(n muster.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[n.Number] = n
}

// fail makes all calls fail, or none if err is nil.
func (s *service) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// failOne makes one container's outcome an error, or not if err is nil.
func (s *service) failOne(id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad[id] = err
}

// taken returns the calls since it was asked last, with their containers in order.
func (s *service) taken() [][]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	for _, ids := range calls {
		slices.Sort(ids)
	}
	return calls
}

func (s *service) Lookup(ctx context.Context, ids []uint64) (Answer, error) {
	s.mu.Lock()
	s.calls = append(s.calls, slices.Clone(ids))
	call := len(s.calls)
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		before(ctx, call)
	}
	a, err := s.read(ids)
	if after != nil {
		after(ctx, call)
	}
	if ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	return a, err
}

func (s *service) read(ids []uint64) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return Answer{}, s.down
	}
	a, named := Answer{}, map[muster.NodeNumber]bool{}
	for _, id := range ids {
		p, ok := s.containers[id]
		switch {
		case s.bad[id] != nil:
			a.Outcomes = append(a.Outcomes, Outcome{Err: s.bad[id]})
			continue
		case !ok:
			a.Outcomes = append(a.Outcomes, Outcome{Err: muster.ErrNotFound})
			continue
		}
		a.Outcomes = append(a.Outcomes, Outcome{Placement: p})
		for _, n := range p.Nodes {
			if node, ok := s.nodes[n]; ok && !named[n] {
				named[n] = true
				a.Nodes = append(a.Nodes, node)
			}
		}
	}
	return a, nil
}

// newCache makes a cache that is closed with the test.
func newCache(t testing.TB, s Source, o Options) *Cache {
	t.Helper()
	c, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// get is a Get that may not fail as a whole.
func get(t testing.TB, c *Cache, ids ...uint64) []Located {
	t.Helper()
	out := make([]Located, len(ids))
	if err := c.Get(t.Context(), ids, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func reload(t testing.TB, c *Cache, ids ...uint64) []Located {
	t.Helper()
	out := make([]Located, len(ids))
	if err := c.Reload(t.Context(), ids, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func refresh(t testing.TB, c *Cache, stale ...Stale) []Located {
	t.Helper()
	out := make([]Located, len(stale))
	if err := c.Refresh(t.Context(), stale, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// wantOn checks that an answer is a placement on the given nodes.
func wantOn(t testing.TB, l Located, nodes ...muster.NodeNumber) {
	t.Helper()
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	if !slices.Equal(l.Placement.Nodes, nodes) {
		t.Fatalf("container %d is on %v, want %v", l.Placement.Container, l.Placement.Nodes, nodes)
	}
}

// wantCalls checks which containers the service was asked for, call by call.
func wantCalls(t testing.TB, s *service, want ...[]uint64) {
	t.Helper()
	if got := s.taken(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("calls for %v, want %v", got, want)
	}
}

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// maxReplicas is how many replicas are sorted at most.
const maxReplicas = 16

// Topology holds the order of replicas by an immutable snapshot against one read lock for each
// node. An operation finds out where the client is, and sorts the replicas of one block for
// it; datanodes come and go meanwhile.
type Topology struct {
	Nodes, Racks int
	Replicas     int   // of a block
	Goroutines   []int // each number is measured by itself
	Rounds       int
	RoundTime    time.Duration
	Swap         time.Duration // the topology changes once in this time

	Progress Progress
}

// NewTopology returns the experiment of HDDS-17553: 3 replicas, 32 nodes in 4 racks.
func NewTopology() Topology {
	return Topology{
		Nodes: 32, Racks: 4, Replicas: 3, Goroutines: []int{1, 2, 4, 8, 16, 32, 64},
		Rounds: 5, RoundTime: 200 * time.Millisecond, Swap: 10 * time.Millisecond,
	}
}

// Validate says what cannot be measured.
func (e *Topology) Validate() error {
	switch {
	case e.Racks < 1 || e.Racks > 250:
		return fmt.Errorf("%w: %d racks; use 1 to 250", muster.ErrInvalid, e.Racks)
	case e.Nodes < e.Racks || e.Nodes > 10_000:
		return fmt.Errorf("%w: %d nodes in %d racks; use at least one a rack, and at most 10,000", muster.ErrInvalid, e.Nodes, e.Racks)
	case e.Replicas < 1 || e.Replicas > min(maxReplicas, e.Nodes):
		return fmt.Errorf("%w: %d replicas on %d nodes; use 1 to %d", muster.ErrInvalid, e.Replicas, e.Nodes, min(maxReplicas, e.Nodes))
	case len(e.Goroutines) == 0 || slices.Min(e.Goroutines) < 1 || slices.Max(e.Goroutines) > 10_000:
		return fmt.Errorf("%w: %d goroutines; use numbers from 1 to 10,000", muster.ErrInvalid, e.Goroutines)
	case e.Swap <= 0:
		return fmt.Errorf("%w: the topology changes every %v; use a time above 0", muster.ErrInvalid, e.Swap)
	}
	return validateRounds(e.Rounds, e.RoundTime)
}

// Run measures clients on datanodes, and then clients on hosts that are mapped to racks.
func (e *Topology) Run(ctx context.Context) ([]Measurement, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	cases := []string{"datanode", "edge"}
	set, stop := e.Progress.begin("sorting replicas", len(cases)*len(e.Goroutines)*(e.Rounds+1))
	defer stop()
	var all []Measurement
	done := 0
	for _, name := range cases {
		s, err := e.sorts(name == "edge")
		if err != nil {
			return nil, err
		}
		equal := s.check() == nil
		for _, goroutines := range e.Goroutines {
			c := contest{
				bench: "topology", of: name, goroutines: goroutines, rounds: e.Rounds, roundTime: e.RoundTime,
				entrants: []entrant{
					{name: "rwmutex", equal: equal, begin: s.locked, beside: s.touching(e.Swap), sample: sortSample},
					{name: "snapshot", equal: equal, begin: s.snapshot, beside: s.swapping(e.Swap), sample: sortSample},
				},
			}
			results, err := c.run(ctx, func() { done++; set(done) })
			if err != nil {
				return nil, err
			}
			all = append(all, results...)
		}
	}
	return all, nil
}

// sortSample is of how many sorts one is timed by itself.
const sortSample = 64

// sorts is what is sorted, for whom and by what.
type sorts struct {
	nodes   []muster.Node
	mapping *topology.Mapping
	blocks  [][]muster.NodeNumber // replicas of many
	clients []string

	old *lockedTree
	new topology.Map
}

// sorts makes a cluster, and blocks whose first two replicas are in different racks.
func (e *Topology) sorts(edge bool) (*sorts, error) {
	s := &sorts{}
	var rules []topology.Rule
	for i := range e.Racks {
		rack := fmt.Sprintf("/rack%d", i)
		rules = append(rules, topology.Rule{Match: fmt.Sprintf("10.9.%d.0/24", i), Rack: rack})
		for k := range 16 {
			s.clients = append(s.clients, fmt.Sprintf("10.9.%d.%d", i, k))
		}
	}
	for i := range e.Nodes {
		s.nodes = append(s.nodes, muster.Node{
			Number: muster.NodeNumber(i), ID: fmt.Sprintf("dn-%d", i), Rack: rules[i%e.Racks].Rack,
			Host: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Port: 9866,
		})
	}
	if !edge {
		s.clients = nil
		for _, n := range s.nodes {
			s.clients = append(s.clients, n.Host)
		}
	}
	rnd := rand.New(rand.NewPCG(17, 553))
	for range 256 {
		block := make([]muster.NodeNumber, e.Replicas)
		for i, n := range rnd.Perm(e.Nodes)[:e.Replicas] {
			block[i] = muster.NodeNumber(n)
		}
		s.blocks = append(s.blocks, block)
	}
	var err error
	if s.mapping, err = topology.NewMapping(rules); err != nil {
		return nil, err
	}
	s.old = newLockedTree(s.nodes, s.mapping)
	return s, s.swap()
}

// swap builds the snapshot anew.
func (s *sorts) swap() error {
	t, err := topology.New(topology.Schema{}, s.nodes, s.mapping)
	if err == nil {
		s.new.Swap(t)
	}
	return err
}

// check compares the answers of both: the costs from each client to each node, and the order of
// each block, which is a permutation whose costs do not fall.
func (s *sorts) check() error {
	for i, client := range s.clients {
		old, reader := s.old.reader(client), s.new.ReaderFor(client)
		for n := range s.nodes {
			number := muster.NodeNumber(n)
			if a, b := s.old.distance(old, number), reader.Cost(number); a != b {
				return fmt.Errorf("%s is %d from node %d, or %d", client, a, n, b)
			}
		}
		for k, block := range s.blocks {
			for _, order := range [][]muster.NodeNumber{s.old.sort(nil, block, old), reader.Sort(nil, block, uint64(i*len(s.blocks)+k))} {
				if !slices.IsSortedFunc(order, func(a, b muster.NodeNumber) int { return int(reader.Cost(a)) - int(reader.Cost(b)) }) ||
					!slices.Equal(slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(block))) {
					return fmt.Errorf("%v is the order of %v for %s", order, block, client)
				}
			}
		}
	}
	return nil
}

// locked returns what one goroutine does with the locked tree.
func (s *sorts) locked(context.Context) func() error {
	at, dst := rand.IntN(len(s.blocks)), make([]muster.NodeNumber, 0, maxReplicas)
	return func() error {
		at++
		reader := s.old.reader(s.clients[at%len(s.clients)])
		dst = s.old.sort(dst[:0], s.blocks[at%len(s.blocks)], reader)
		return nil
	}
}

// snapshot returns what one goroutine does with the snapshot.
func (s *sorts) snapshot(context.Context) func() error {
	at, dst := rand.IntN(len(s.blocks)), make([]muster.NodeNumber, 0, maxReplicas)
	return func() error {
		at++
		reader := s.new.ReaderFor(s.clients[at%len(s.clients)])
		dst = reader.Sort(dst[:0], s.blocks[at%len(s.blocks)], uint64(at))
		return nil
	}
}

// touching changes the locked tree every now and then.
func (s *sorts) touching(every time.Duration) func(context.Context) (func(int) error, error) {
	return repeating(every, func(n int) error {
		s.old.touch(&s.nodes[n%len(s.nodes)])
		return nil
	})
}

// swapping changes the snapshot every now and then.
func (s *sorts) swapping(every time.Duration) func(context.Context) (func(int) error, error) {
	return repeating(every, func(int) error { return s.swap() })
}

// repeating does something every so often beside the rounds of an entrant.
func repeating(every time.Duration, do func(n int) error) func(context.Context) (func(int) error, error) {
	return func(ctx context.Context) (func(int) error, error) {
		ctx, cancel := context.WithCancel(ctx)
		var g errgroup.Group
		g.Go(func() error {
			for n := 0; ctx.Err() == nil; n++ {
				if err := do(n); err != nil {
					return err
				}
				pause(ctx, every)
			}
			return nil
		})
		return func(int) error { cancel(); return g.Wait() }, nil
	}
}

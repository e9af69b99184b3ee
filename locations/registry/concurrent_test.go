package registry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// TestCallsOfAllKindsAtOnce: what each is told is sound, whatever the others do, and when all have
// reported, the answers are what they said.
func TestCallsOfAllKindsAtOnce(t *testing.T) {
	const nodes, rounds = 6, 40
	r := open(t, registry.Options{
		ContainerBlocks: 20, OpenContainers: 2, Heartbeat: time.Millisecond, StaleAfter: 20 * time.Millisecond, DeadAfter: 60 * time.Millisecond,
		PlanEvery: time.Millisecond, ReplicaGrace: time.Millisecond, OrderTimeout: 20 * time.Millisecond,
	})
	dn := join(t, r, nodes, "/r0", "/r1")
	var mu sync.Mutex // guards what was given
	given := map[muster.BlockID]bool{}
	containers := map[uint64]bool{}
	known := func(rng *rand.Rand) (ids []uint64) {
		mu.Lock()
		defer mu.Unlock()
		for id := range containers {
			if rng.IntN(3) > 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	var all sync.WaitGroup
	many := func(times int, call func(i int, rng *rand.Rand) error) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for i := range times {
				if err := call(i, rng); err != nil && !errors.Is(err, muster.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		many(rounds, func(i int, rng *rand.Rand) error { // writers
			a, err := r.Allocate(t.Context(), registry.AllocateRequest{Replication: []muster.Replication{three, rs32}[i%2], Count: 1 + rng.IntN(50)})
			mu.Lock()
			defer mu.Unlock()
			for _, b := range a.Blocks {
				if given[b] {
					t.Errorf("block %+v was given twice", b)
				}
				given[b], containers[b.Container] = true, true
			}
			return err
		})
		many(10*rounds, func(_ int, rng *rand.Rand) error { // namespace servers
			ids := append(known(rng), 1<<40)
			a, err := r.Lookup(t.Context(), ids)
			if err != nil {
				return err
			}
			for i, o := range a.Outcomes {
				if lost := i == len(ids)-1; lost != errors.Is(o.Err, muster.ErrNotFound) || o.Err == nil && o.Placement.Container != ids[i] {
					t.Errorf("container %d: %+v", ids[i], o)
				}
				for _, n := range o.Placement.Nodes {
					if n != muster.NoNode && !slices.ContainsFunc(a.Nodes, func(d muster.Node) bool { return d.Number == n && d.ID == fmt.Sprint("dn", n) }) {
						t.Errorf("node %d is not described", n)
					}
				}
			}
			return nil
		})
	}
	results := make([][]registry.OrderResult, len(dn)) // each of its datanode
	for i := range dn {
		many(10*rounds, func(_ int, rng *rand.Rand) error { // datanodes, some of which are silent for a while
			if rng.IntN(100) == 0 {
				time.Sleep(30 * time.Millisecond)
			}
			beat := registry.Beat{Results: results[i], Unfinished: []muster.UnfinishedBlock{{File: 1}}}
			w, err := r.Heartbeat(dn[i].Number, dn[i].Session, beat)
			results[i] = nil
			for _, o := range w.Orders {
				if rng.IntN(3) > 0 {
					results[i] = append(results[i], registry.OrderResult{ID: o.ID, Err: []error{nil, muster.ErrNoData}[rng.IntN(2)]})
				}
			}
			_, another := r.Unfinished()
			return errors.Join(err, another)
		})
		many(rounds, func(k int, rng *rand.Rand) error {
			var list []registry.Replica
			for _, id := range known(rng) {
				list = append(list, registry.Replica{Container: id, Gone: rng.IntN(9) == 0, Blocks: rng.Uint64N(3)})
			}
			_, err := r.Report(dn[i].Number, dn[i].Session, k%4 == 0, list)
			return err
		})
	}
	many(rounds, func(i int, rng *rand.Rand) error { // operators
		_, err := r.SetNodeState(t.Context(), fmt.Sprint("dn", rng.IntN(nodes)), muster.NodeState(i%3))
		if ids := known(rng); len(ids) > 0 {
			err = errors.Join(err, r.CloseContainer(t.Context(), ids[0]))
		}
		return err
	})
	version := uint64(0)
	many(10*rounds, func(int, *rand.Rand) error { // a follower
		s, err := r.Topology(t.Context(), 0, 0, 0)
		if err == nil && (s.Version < version || len(s.Nodes) != nodes) {
			t.Errorf("version %d of %d nodes after %d", s.Version, len(s.Nodes), version)
		}
		version = s.Version
		return err
	})
	all.Wait()
	// At last each datanode reports all of the containers that are not coded.
	for i, n := range dn {
		var list []registry.Replica
		for id := range containers {
			if c, err := r.Container(id); err != nil || c.Replication == three {
				list = append(list, registry.Replica{Container: id})
			}
		}
		if unknown, err := r.Report(n.Number, n.Session, true, list); err != nil || unknown > 0 || r.Datanodes()[i].Containers != len(list) {
			t.Errorf("%d unknown, %v; %d containers of %d", unknown, err, r.Datanodes()[i].Containers, len(list))
		}
	}
}

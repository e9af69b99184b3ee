package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// TestBlocksGoToRacksByTheRules, and everything that the answer names is described.
func TestBlocksGoToRacksByTheRules(t *testing.T) {
	r := open(t, registry.Options{ContainerBlocks: 1})
	join(t, r, 12, "/r0", "/r1", "/r2", "/r3")
	a := allocate(t, r, registry.AllocateRequest{Replication: three, Count: 1000})
	racks := map[muster.NodeNumber]string{}
	for _, n := range a.Nodes {
		racks[n.Number] = n.Rack
	}
	if len(a.Placements) != 1000 || len(a.Nodes) != 12 || len(racks) != 12 {
		t.Fatalf("%d placements, %d datanodes", len(a.Placements), len(a.Nodes))
	}
	shares := map[muster.NodeNumber]int{}
	for _, p := range a.Placements {
		first, second, third := racks[p.Nodes[0]], racks[p.Nodes[1]], racks[p.Nodes[2]]
		if first == second || second != third || p.Nodes[1] == p.Nodes[2] || p.Closed || p.Replication != three {
			t.Fatalf("%+v on %s, %s, %s", p, first, second, third)
		}
		for _, n := range p.Nodes {
			shares[n]++
		}
	}
	for n, share := range shares {
		if share < 200 || share > 300 { // of 3,000 on 12
			t.Errorf("datanode %d got %d", n, share)
		}
	}
	coded := allocate(t, r, registry.AllocateRequest{Replication: rs32, Count: 100})
	for _, p := range coded.Placements {
		on := map[string]int{}
		for _, n := range p.Nodes {
			on[racks[n]]++
		}
		if len(p.Nodes) != 5 || len(on) != 4 {
			t.Fatalf("%+v on %v", p, on)
		}
	}
}

// TestTooFewDatanodesAreAnErrorThatCounts them, and says what is with the others.
func TestTooFewDatanodesAreAnErrorThatCounts(t *testing.T) {
	r := open(t, registry.Options{})
	fails := func(q registry.AllocateRequest, code muster.Code, says string) {
		t.Helper()
		if _, err := r.Allocate(t.Context(), q); !errors.Is(err, code) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", q, err, says)
		}
	}
	fails(registry.AllocateRequest{Replication: three, Count: 1}, muster.ErrUnavailable, "replicated/3 needs 3 datanodes that take blocks, and there are 0 of 0")
	join(t, r, 5, "/r0")
	for node, want := range map[string]muster.NodeState{"dn0": muster.Draining, "dn1": muster.Maintenance} {
		if _, err := r.SetNodeState(t.Context(), node, want); err != nil {
			t.Fatal(err)
		}
	}
	fails(registry.AllocateRequest{Replication: rs32, Count: 1, Exclude: []muster.NodeNumber{2, 99}}, muster.ErrUnavailable, "ec/rs-3-2 needs 5 datanodes that take blocks, and there are 2 of 5 (1 draining, 1 excluded, 1 maintenance)")
	fails(registry.AllocateRequest{Count: 1}, muster.ErrInvalid, "replication")
	fails(registry.AllocateRequest{Replication: 0x0199, Count: 1}, muster.ErrInvalid, "replication")
	fails(registry.AllocateRequest{Replication: three}, muster.ErrInvalid, "from 1 to 10000")
	fails(registry.AllocateRequest{Replication: three, Count: 10_001}, muster.ErrInvalid, "from 1 to 10000")
	a := allocate(t, r, registry.AllocateRequest{Replication: three, Count: 3}) // on the one rack that there is
	for _, p := range a.Placements {
		members := slices.Clone(p.Nodes)
		slices.Sort(p.Nodes) // which is the caller's
		if c, err := r.Container(p.Container); err != nil || !slices.Equal(p.Nodes, []muster.NodeNumber{2, 3, 4}) || !slices.Equal(c.Members, members) {
			t.Errorf("%+v is %+v, %v", p, c, err)
		}
	}
}

// TestAfterARestartBlocksWaitForDatanodes that are known to live.
func TestAfterARestartBlocksWaitForDatanodes(t *testing.T) {
	fs := vfs.NewMem()
	r := open(t, registry.Options{FS: fs})
	join(t, r, 3, "/r")
	q := registry.AllocateRequest{Replication: three, Count: 1}
	allocate(t, r, q)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, registry.Options{FS: fs})
	join(t, r, 2, "/r")
	if _, err := r.Allocate(t.Context(), q); !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "2 of 3 (1 not heard of since the start)") {
		t.Error(err)
	}
	join(t, r, 3, "/r")
	containers := r.Stats().Containers
	allocate(t, r, q)
	if got := r.Stats().Containers; got != containers {
		t.Errorf("%d containers, and %d before: the open ones are used again", got, containers)
	}
}

// TestOpenContainersTakeTurnsUntilTheyAreFull: as many as there should be, no block more in any than
// it takes.
func TestOpenContainersTakeTurnsUntilTheyAreFull(t *testing.T) {
	r := open(t, registry.Options{ContainerBlocks: 100, OpenContainers: 4})
	join(t, r, 6, "/r0", "/r1")
	blocks := map[muster.BlockID]bool{}
	in := map[uint64]int{}
	for range 50 {
		a := allocate(t, r, registry.AllocateRequest{Replication: three, Count: 8})
		if len(a.Placements) < 4 {
			t.Fatalf("8 blocks in %d containers", len(a.Placements))
		}
		for _, b := range a.Blocks {
			if blocks[b] || b.LocalID == 0 || b.LocalID > 100 {
				t.Fatalf("block %+v", b)
			}
			blocks[b] = true
			in[b.Container]++
		}
	}
	if s := r.Stats(); len(in) != 4 || s.Containers != 4 || s.Open != 4 || s.Allocated != 400 {
		t.Errorf("400 blocks are in %d containers; %+v", len(in), s)
	}
	if a := allocate(t, r, registry.AllocateRequest{Replication: three, Count: 1}); in[a.Blocks[0].Container] > 0 {
		t.Error("a full container got a block")
	}
	if s := r.Stats(); s.Containers != 8 || s.Open != 4 {
		t.Errorf("%+v", s)
	}
	for id := range in {
		if p := lookup(t, r, id); !p.Closed || len(p.Nodes) != 3 {
			t.Errorf("a full container: %+v", p)
		}
	}
}

// TestLargeRequestsAreFilled, of one file's blocks at most, with few waits for the disk.
func TestLargeRequestsAreFilled(t *testing.T) {
	r := open(t, registry.Options{})
	join(t, r, 6, "/r0", "/r1")
	syncs := r.Stats().Syncs
	a := allocate(t, r, registry.AllocateRequest{Replication: three, Count: muster.MaxBlocks})
	if len(a.Blocks) != muster.MaxBlocks {
		t.Errorf("%d blocks", len(a.Blocks))
	}
	if n := r.Stats().Syncs - syncs; n > 4 {
		t.Errorf("%d waits for the disk", n)
	}
}

// TestContainersEndWhenAMemberDoes: no block goes to one with a member that is drained, excluded,
// silent, or says that it has closed or lost its replica.
func TestContainersEndWhenAMemberDoes(t *testing.T) {
	for what, leave := range map[string]func(t *testing.T, r *registry.Registry, n registry.Registered, containers []uint64){
		"drained": func(t *testing.T, r *registry.Registry, n registry.Registered, _ []uint64) {
			if _, err := r.SetNodeState(t.Context(), "dn0", muster.Draining); err != nil {
				t.Fatal(err)
			}
		},
		"closed": func(t *testing.T, r *registry.Registry, n registry.Registered, containers []uint64) {
			for _, c := range containers {
				if _, err := r.Report(n.Number, n.Session, false, []registry.Replica{{Container: c, Closed: true}}); err != nil {
					t.Fatal(err)
				}
			}
		},
		"lost": func(t *testing.T, r *registry.Registry, n registry.Registered, containers []uint64) {
			report(t, r, n, containers...)
			report(t, r, n)
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := open(t, registry.Options{})
			dn := join(t, r, 8, "/r0", "/r1")
			q := registry.AllocateRequest{Replication: three, Count: 64}
			var hit []uint64
			for _, p := range allocate(t, r, q).Placements {
				if slices.Contains(p.Nodes, 0) {
					hit = append(hit, p.Container)
				}
			}
			leave(t, r, dn[0], hit)
			for range 20 { // until all that was reserved is given
				for _, b := range allocate(t, r, q).Blocks {
					if slices.Contains(hit, b.Container) {
						t.Fatalf("block %+v", b)
					}
				}
			}
			if len(hit) == 0 {
				t.Fatal("the test is void")
			}
			for _, id := range hit {
				if c, err := r.Container(id); err != nil || !c.Closed {
					t.Errorf("container %d: closed %v, %v", id, c.Closed, err)
				}
			}
		})
	}
}

// TestExcludedDatanodesGetNothing, though open containers are on them; those stay open for others.
func TestExcludedDatanodesGetNothing(t *testing.T) {
	r := open(t, registry.Options{OpenContainers: 2})
	join(t, r, 4, "/r")
	q := registry.AllocateRequest{Replication: three, Count: 10}
	allocate(t, r, q)
	for n := range muster.NodeNumber(4) {
		q.Exclude = []muster.NodeNumber{n}
		for range 3 {
			for _, p := range allocate(t, r, q).Placements {
				if slices.Contains(p.Nodes, n) {
					t.Fatalf("%d is excluded: %+v", n, p)
				}
			}
		}
	}
	if s := r.Stats(); s.Open > 6 || s.Open != s.Containers {
		t.Errorf("%+v", s)
	}
}

// TestManyWritersGetBlocksOfTheirOwn.
func TestManyWritersGetBlocksOfTheirOwn(t *testing.T) {
	r := open(t, registry.Options{ContainerBlocks: 300})
	join(t, r, 6, "/r0", "/r1")
	var mu sync.Mutex
	seen := map[muster.BlockID]bool{}
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			for i := range 40 {
				a, err := r.Allocate(t.Context(), registry.AllocateRequest{Replication: []muster.Replication{three, rs32}[i%2], Count: 1 + i})
				if err != nil {
					return err
				}
				mu.Lock()
				for _, b := range a.Blocks {
					if seen[b] {
						t.Errorf("%+v was given twice", b)
					}
					seen[b] = true
				}
				mu.Unlock()
			}
			return nil
		})
	}
	all.Go(func() error { // who leaves early harms nobody
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Microsecond)
			_, _ = r.Allocate(ctx, registry.AllocateRequest{Replication: three, Count: 500})
			cancel()
		}
		return nil
	})
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 8*820 {
		t.Errorf("%d blocks", len(seen))
	}
}

// TestManyOpenContainersAreUsedAFewAtATime: of those that were imported open, no more are written to
// the disk for a block than should be open, and all get their turn.
func TestManyOpenContainersAreUsedAFewAtATime(t *testing.T) {
	r := open(t, registry.Options{ContainerBlocks: 10, OpenContainers: 4})
	join(t, r, 4, "/r")
	var ids []uint64
	for id := range uint64(3000) {
		ids = append(ids, 1+id)
	}
	member(t, r, false, []muster.NodeNumber{0, 1, 2}, ids...)
	q := registry.AllocateRequest{Replication: three, Count: 40}
	if a := allocate(t, r, q); len(a.Placements) != 4 {
		t.Errorf("40 blocks in %d containers", len(a.Placements))
	}
	if _, err := r.SetNodeState(t.Context(), "dn3", muster.Draining); err != nil {
		t.Fatal(err)
	}
	q.Count = muster.MaxBlocks
	for range 3 {
		allocate(t, r, q)
	}
	if s := r.Stats(); s.Containers > 3000+20 || s.Open > 20 {
		t.Errorf("%+v", s)
	}
	if _, err := r.SetNodeState(t.Context(), "dn0", muster.Draining); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Allocate(t.Context(), q); !errors.Is(err, muster.ErrUnavailable) {
		t.Error(err)
	}
}

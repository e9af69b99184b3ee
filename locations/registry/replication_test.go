package registry_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// hear is one heartbeat, with results, and returns the orders.
func hear(t *testing.T, r *registry.Registry, n registry.Registered, results ...registry.OrderResult) []muster.Order {
	t.Helper()
	w, err := r.Heartbeat(n.Number, n.Session, registry.Beat{Results: results})
	if err != nil {
		t.Fatal(err)
	}
	return w.Orders
}

// holds makes a full report of replicas with ten blocks.
func holds(t *testing.T, r *registry.Registry, n registry.Registered, containers ...uint64) {
	t.Helper()
	has(t, r, n, true, 10, containers...)
}

// has reports replicas with so many blocks.
func has(t *testing.T, r *registry.Registry, n registry.Registered, full bool, blocks uint64, containers ...uint64) {
	t.Helper()
	var all []registry.Replica
	for _, c := range containers {
		all = append(all, registry.Replica{Container: c, Blocks: blocks, Bytes: 100 * blocks})
	}
	if unknown, err := r.Report(n.Number, n.Session, full, all); err != nil || unknown > 0 {
		t.Fatalf("report: %d unknown, %v", unknown, err)
	}
}

// ordersOf are the orders that some datanodes get after d, in which they live.
func ordersOf(t *testing.T, r *registry.Registry, d time.Duration, some ...registry.Registered) (all []muster.Order) {
	t.Helper()
	beat(t, r, d, some...)
	for _, n := range some {
		all = append(all, hear(t, r, n)...)
	}
	return all
}

// TestAfterARestartNothingIsOrderedBeforeAllHaveReported: a replica that is not known yet is not
// missing. One that never reports is waited for as long
// as it takes to be dead.
func TestAfterARestartNothingIsOrderedBeforeAllHaveReported(t *testing.T) {
	for _, c := range []struct {
		name          string
		comes, speaks bool
	}{{"the last comes", true, false}, {"the last never does", false, false}, {"the last never reports", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := registry.Options{FS: vfs.NewMem()}
				r := open(t, o)
				join(t, r, 4, "/r0", "/r1")
				member(t, r, true, []muster.NodeNumber{0, 1}, 1) // now it is on 0 and 3
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				r = open(t, o)
				dn := join(t, r, 3, "/r0", "/r1")
				holds(t, r, dn[0], 1)
				holds(t, r, dn[1])
				holds(t, r, dn[2])
				if c.speaks {
					dn = join(t, r, 4, "/r0", "/r1")
					for _, n := range dn[:3] {
						holds(t, r, n, []uint64{1}[:1-min(1, int(n.Number))]...)
					}
				}
				if all := ordersOf(t, r, 10*time.Minute-time.Second, dn...); len(all) > 0 {
					t.Fatalf("ordered: %+v", all)
				}
				if !c.comes {
					if all := ordersOf(t, r, time.Minute, dn...); len(all) != 1 || all[0].Kind != muster.OrderCopy {
						t.Errorf("ordered: %+v", all)
					}
					return
				}
				dn = join(t, r, 4, "/r0", "/r1")
				for i, n := range dn {
					holds(t, r, n, []uint64{1}[:1-min(1, i%3)]...)
				}
				if all := ordersOf(t, r, time.Hour, dn...); len(all) > 0 {
					t.Errorf("ordered: %+v", all)
				}
			})
		})
	}
}

// TestAnOpenContainerIsClosedWhenAMemberWritesNoMore: else its blocks would never be copied.
func TestAnOpenContainerIsClosedWhenAMemberWritesNoMore(t *testing.T) {
	damaged := func(t *testing.T, r *registry.Registry, n registry.Registered) {
		if _, err := r.Report(n.Number, n.Session, false, []registry.Replica{{Container: 1, Blocks: 10, Damaged: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	drained := func(t *testing.T, r *registry.Registry, _ registry.Registered) {
		if _, err := r.SetNodeState(t.Context(), "dn1", muster.Draining); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what   string
		does   func(*testing.T, *registry.Registry, registry.Registered)
		dies   bool
		target muster.NodeNumber
	}{
		{"dead", func(*testing.T, *registry.Registry, registry.Registered) {}, true, 3},
		{"drained", drained, false, 3},
		{"damaged", damaged, false, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := open(t, registry.Options{})
				dn := join(t, r, 4, "/r0", "/r1")
				member(t, r, false, []muster.NodeNumber{0, 1, 2}, 1)
				for _, n := range dn[:3] {
					holds(t, r, n, 1)
				}
				holds(t, r, dn[3])
				if all := ordersOf(t, r, time.Minute, dn...); len(all) > 0 {
					t.Fatalf("ordered: %+v", all)
				}
				c.does(t, r, dn[1])
				alive, wait := dn, time.Minute
				if c.dies {
					alive, wait = []registry.Registered{dn[0], dn[2], dn[3]}, 11*time.Minute
				}
				all := ordersOf(t, r, wait, alive...)
				if k, err := r.Container(1); err != nil || !k.Closed {
					t.Errorf("it is open; %v", err)
				}
				if orders := hear(t, r, alive[len(alive)-1]); c.target == 3 && len(orders) != 1 {
					t.Errorf("orders of the target: %+v", orders)
				}
				if len(all) != 1 || all[0].Kind != muster.OrderCopy || all[0].Container != 1 || !all[0].Closed {
					t.Errorf("ordered: %+v", all)
				}
				if s := r.Stats(); s.UnderReplicated != 1 || s.Copies != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestADatanodeThatIsBackCountsWhenItHasReported, since it may have lost what it had.
func TestADatanodeThatIsBackCountsWhenItHasReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 4, "/r0", "/r1")
		member(t, r, true, []muster.NodeNumber{0, 1, 2}, 1)
		for _, n := range dn[:3] {
			holds(t, r, n, 1)
		}
		holds(t, r, dn[3])
		alive := []registry.Registered{dn[1], dn[2], dn[3]}
		all := ordersOf(t, r, 11*time.Minute, alive...)
		if len(all) != 1 || all[0].Kind != muster.OrderCopy || len(all[0].Sources) != 2 {
			t.Fatalf("ordered: %+v", all)
		}
		holds(t, r, dn[3], 1)
		hear(t, r, dn[3], registry.OrderResult{ID: all[0].ID})
		if s := r.Stats(); s.OrdersDone != 1 || s.Copies != 0 {
			t.Errorf("%+v", s)
		}
		if all := ordersOf(t, r, time.Hour, dn...); len(all) > 0 {
			t.Errorf("ordered before it has reported: %+v", all)
		}
		holds(t, r, dn[0], 1)
		if all := ordersOf(t, r, 4*time.Minute, dn...); len(all) > 0 {
			t.Errorf("ordered at once: %+v", all)
		}
		all = ordersOf(t, r, 2*time.Minute, dn...)
		if len(all) != 1 || all[0].Kind != muster.OrderDrop || r.Stats().Surplus != 1 {
			t.Fatalf("ordered: %+v", all)
		}
	})
}

// TestAnOrderWithoutProgressIsMadeAnew elsewhere; one with progress goes on for ever. Nobody else
// can end it.
func TestAnOrderWithoutProgressIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 4, "/r0")
		member(t, r, true, []muster.NodeNumber{0, 1}, 1)
		holds(t, r, dn[0], 1)
		for _, n := range dn[1:] {
			holds(t, r, n)
		}
		all := ordersOf(t, r, 15*time.Second, dn...)
		if len(all) != 1 || !slices.Equal(hear(t, r, dn[1])[0].Sources, all[0].Sources) {
			t.Fatalf("ordered: %+v", all)
		}
		first := all[0].ID
		has(t, r, dn[1], false, 0, 1)
		if got := lookup(t, r, 1).Nodes; !slices.Equal(got, []muster.NodeNumber{0}) {
			t.Errorf("readers are told of %v while it is copied", got)
		}
		hear(t, r, dn[2], registry.OrderResult{ID: first})
		hear(t, r, dn[1], registry.OrderResult{ID: first + 1})
		for blocks := range uint64(9) {
			beat(t, r, 9*time.Minute, dn...)
			has(t, r, dn[1], false, blocks+1, 1)
		}
		if all = ordersOf(t, r, 9*time.Minute, dn...); len(all) != 1 || all[0].ID != first {
			t.Fatalf("ordered after progress: %+v", all)
		}
		if _, err := r.Report(dn[1].Number, dn[1].Session, false, []registry.Replica{{Container: 1, Gone: true}}); err != nil {
			t.Fatal(err)
		}
		all = ordersOf(t, r, 3*time.Minute, dn...)
		if len(all) != 1 || all[0].ID == first || len(hear(t, r, dn[1])) > 0 || r.Stats().OrdersFailed != 1 {
			t.Errorf("ordered without progress: %+v; %+v", all, r.Stats())
		}
	})
}

// TestErasureCodedContainersAreNotCopied: they are metadata alone.
func TestErasureCodedContainersAreNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 7, "/r0", "/r1")
		list := []registry.Imported{{Container: 1, Replication: rs32, Closed: true, Members: []muster.NodeNumber{0, 1, 2, 3, 4}}}
		if err := r.Import(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Report(dn[0].Number, dn[0].Session, true, []registry.Replica{{Container: 1, Index: 1, Blocks: 3, Damaged: 1}}); err != nil {
			t.Fatal(err)
		}
		for _, n := range dn[1:] {
			holds(t, r, n)
		}
		if all := ordersOf(t, r, time.Hour, dn...); len(all) > 0 || r.Stats().UnderReplicated > 0 {
			t.Errorf("ordered: %+v", all)
		}
	})
}

// TestBlocksGoWhereDisksHaveRoom, as far as datanodes have any.
func TestBlocksGoWhereDisksHaveRoom(t *testing.T) {
	r := open(t, registry.Options{})
	dn := join(t, r, 4, "/r0", "/r1")
	full, failed, fine := muster.Disk{Name: "/a", State: muster.DiskFull}, muster.Disk{Name: "/b", State: muster.DiskFailed}, muster.Disk{Name: "/c", Free: 1}
	say := func(n registry.Registered, disks ...muster.Disk) {
		t.Helper()
		if _, err := r.Heartbeat(n.Number, n.Session, registry.Beat{Disks: disks}); err != nil {
			t.Fatal(err)
		}
	}
	say(dn[0], full, failed)
	say(dn[1], failed, full, fine)
	q := registry.AllocateRequest{Replication: three, Count: 20}
	for _, p := range allocate(t, r, q).Placements {
		if slices.Contains(p.Nodes, 0) {
			t.Errorf("container %d on %v", p.Container, p.Nodes)
		}
	}
	say(dn[1], full)
	_, err := r.Allocate(t.Context(), q)
	if !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "there are 2 of 4 (2 whose disks are all full or failed)") {
		t.Errorf("too few have room: %v", err)
	}
	say(dn[0], fine)
	allocate(t, r, q)
	if got := r.Datanodes()[0].Disks; !slices.Equal(got, []muster.Disk{fine}) {
		t.Errorf("disks %+v", got)
	}
}

// TestUnfinishedBlocksOfAllDatanodesComeUp, however many there are.
func TestUnfinishedBlocksOfAllDatanodesComeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 25, "/r0")
		for i, n := range dn {
			blocks := make([]muster.UnfinishedBlock, registry.MaxUnfinished)
			for k := range blocks {
				blocks[k] = muster.UnfinishedBlock{Block: muster.BlockID{Container: uint64(i) + 1, LocalID: uint64(k) + 1}, File: 7, Age: time.Hour}
			}
			if _, err := r.Heartbeat(n.Number, n.Session, registry.Beat{Unfinished: blocks}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Heartbeat(n.Number, n.Session, registry.Beat{Unfinished: append(blocks, blocks[0])}); !errors.Is(err, muster.ErrInvalid) {
				t.Errorf("too many of one: %v", err)
			}
		}
		seen := map[muster.BlockID]bool{}
		for range 3 {
			u, err := r.Unfinished()
			if err != nil || len(u.Blocks) > 10_000 {
				t.Fatal(len(u.Blocks), err)
			}
			for _, b := range u.Blocks {
				seen[b.Block] = true
				if i := slices.IndexFunc(u.Nodes, func(n muster.Node) bool { return n.Number == b.Node }); i < 0 || uint64(b.Node)+1 != b.Block.Container {
					t.Fatalf("%v on %d", b, b.Node)
				}
			}
		}
		if len(seen) != 25*registry.MaxUnfinished {
			t.Errorf("%d blocks in three answers", len(seen))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if u, err := r.Unfinished(); err != nil || len(u.Blocks) > 0 {
			t.Errorf("%d of the dead, %v", len(u.Blocks), err)
		}
	})
}

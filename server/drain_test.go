package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc/pb"
)

// finished makes a file of one block that all its datanodes have.
func (k *kept) finished(path string) begun {
	k.Helper()
	f := k.begin(path, penOne)
	for _, n := range f.nodes {
		k.write(n, f.file, f.block, stored{10, true})
	}
	k.apply(muster.FinishFile{File: f.file, Holder: penOne, Last: 10})
	return f
}

// after lets time pass, and checks how many blocks wait for their deletion.
func (k *kept) after(d time.Duration, waiting int) {
	k.Helper()
	time.Sleep(d)
	synctest.Wait()
	if q := k.queue(); len(q) != waiting {
		k.Fatalf("after %v %d blocks wait for their deletion, want %d", d, len(q), waiting)
	}
}

// TestDeletedBlocksGo from all datanodes, and then from the queue.
func TestDeletedBlocksGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f, stays := k.finished("/d/f"), k.finished("/d/stays")
		k.apply(muster.Delete{Path: "/d/f"})
		k.after(12*time.Second, 0)
		k.expect("deleted", f, "gone", "-", "-", "-")
		k.expect("not deleted", stays, "10", "10 committed", "10 committed", "10 committed")
		if n := k.upkeep.deleted.Load(); n != 1 {
			t.Errorf("%d blocks deleted", n)
		}
	})
}

// TestCopiesAreDeletedToo: a datanode that the container was not made for, and which reported it.
func TestCopiesAreDeletedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.finished("/f")
		fourth := slices.IndexFunc(k.nodes, func(n muster.NodeNumber) bool { return !slices.Contains(f.nodes, n) })
		time.Sleep(time.Second)
		if _, err := k.registry.Report(k.nodes[fourth], k.sessions[fourth], false, []registry.Replica{{Container: f.block.Container}}); err != nil {
			t.Fatal(err)
		}
		k.write(k.nodes[fourth], f.file, f.block, stored{10, true})
		k.apply(muster.Delete{Path: "/f"})
		k.after(12*time.Second, 0)
		if got := k.on(k.nodes[fourth], f.block); got != "-" {
			t.Errorf("the copy is still there: %s", got)
		}
	})
}

// TestDeletionsWaitForADatanodeThatIsDown, dead or not: its own, while the others' go, and the others
// are asked once.
func TestDeletionsWaitForADatanodeThatIsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		var all []begun
		for i := range 20 {
			all = append(all, k.finished(fmt.Sprintf("/d/%d", i)))
		}
		downed, waiting := all[0].nodes[0], 0
		for _, f := range all {
			for _, n := range f.nodes {
				if n == downed {
					waiting++
				}
			}
		}
		k.change(func() { k.down[downed] = true })
		k.apply(muster.Delete{Path: "/d", Recursive: true})
		k.after(20*time.Second, waiting)
		for _, f := range all {
			for i, n := range f.nodes {
				want := "-"
				if n == downed {
					want = "10 committed"
				}
				if got := k.on(n, f.block); got != want {
					t.Fatalf("datanode %d of %v has %s, want %s", i, f.block, got, want)
				}
			}
		}
		asked := fmt.Sprint(k.asked)
		k.after(15*time.Minute, waiting)
		k.change(func() { k.tried = 0 })
		k.after(15*time.Minute, waiting)
		if k.tried > 0 {
			t.Errorf("%d calls to a datanode that is dead", k.tried)
		}
		if again := fmt.Sprint(k.asked); again != asked {
			t.Errorf("deletions, by datanode: %s, and later %s; what was confirmed is asked again", asked, again)
		}
		if n := k.upkeep.waiting.Load(); n != int64(waiting) {
			t.Errorf("the status says that %d blocks wait, not %d", n, waiting)
		}
		k.change(func() { k.down[downed] = false })
		k.after(90*time.Second, 0)
		for _, f := range all {
			if got := k.on(downed, f.block); got != "-" {
				t.Fatalf("%v is still there: %s", f.block, got)
			}
		}
	})
}

// TestWhatIsConfirmedIsForgotten once a block is nowhere.
func TestWhatIsConfirmedIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		k.stop()
		d := newDrain(k.upkeep)
		f := k.finished("/f")
		k.apply(muster.Delete{Path: "/f"})
		walk := func(down bool, confirmed, waiting int) {
			t.Helper()
			k.change(func() { k.down[f.nodes[0]] = down })
			time.Sleep(2 * time.Second)
			if err := d.walk(t.Context()); err != nil || len(d.confirmed[f.block]) != confirmed || len(k.queue()) != waiting {
				t.Errorf("down %v: %v; %v confirmed, %d blocks wait", down, err, d.confirmed, len(k.queue()))
			}
		}
		walk(true, 2, 1)
		walk(true, 2, 1)
		time.Sleep(time.Minute)
		walk(false, 0, 0)
		if len(d.confirmed)+len(d.pauses) > 0 {
			t.Errorf("left in memory: %v, %v", d.confirmed, d.pauses)
		}
	})
}

// TestDeletionsThatAreRefusedAreTriedAgain: refused by a datanode, or not possible for want of the
// location service, or of reports to it.
func TestDeletionsThatAreRefusedAreTriedAgain(t *testing.T) {
	for what, set := range map[string]func(k *kept, f begun, on bool){
		"refused": func(k *kept, f begun, on bool) {
			if delete(k.refuses, f.nodes[1]); on {
				k.refuses[f.nodes[1]] = muster.ErrUnauthenticated
			}
		},
		"no location service": func(k *kept, _ begun, on bool) {
			if k.outage = nil; on {
				k.outage = muster.ErrUnavailable
			}
		},
		"reports are missing": func(k *kept, _ begun, on bool) { k.unreported = on },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := newKept(t, Leases{})
				f := k.finished("/f")
				k.change(func() { set(k, f, true) })
				k.apply(muster.Delete{Path: "/f"})
				k.after(10*time.Minute, 1)
				k.change(func() { set(k, f, false) })
				k.after(90*time.Second, 0)
				k.expect("when it works again", f, "gone", "-", "-", "-")
			})
		})
	}
}

// TestBlocksOfNoContainerAreNowhere: their deletions wait for nobody.
func TestBlocksOfNoContainerAreNowhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		k.apply(
			muster.Create{Path: "/f", Mode: 0o644, Length: 9, Replication: threeOf, BlockSize: 9, Blocks: []muster.Block{{Container: 4711, LocalID: 1, Length: 9}}},
			muster.Delete{Path: "/f"},
		)
		k.after(time.Minute, 0)
	})
}

// TestManyDeletions: more than a page of the queue, at the rate that is set, and through a crash.
func TestManyDeletions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const blocks, rate = 9000, 1000
		k := newKept(t, Leases{DeleteRate: rate})
		a, err := k.registry.Allocate(t.Context(), registry.AllocateRequest{Replication: threeOf, Count: blocks})
		if err != nil {
			t.Fatal(err)
		}
		c := muster.Create{Path: "/f", Mode: 0o644, Length: blocks, Replication: threeOf, BlockSize: 1}
		for _, b := range a.Blocks {
			c.Blocks = append(c.Blocks, muster.Block{Container: b.Container, LocalID: b.LocalID, Length: 1})
			for _, n := range k.nodes {
				k.write(n, 1, b, stored{1, true})
			}
		}
		k.apply(c, muster.Delete{Path: "/f"})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(k.queue()); n < 4000 {
			t.Errorf("%d blocks are left after 2 s; at %d a second there are to be more", n, rate)
		}
		k.crash()
		k.after(25*time.Second, 0)
		left := 0
		for _, p := range a.Placements {
			for _, n := range p.Nodes {
				for b := range k.blocks[n] {
					if b.Container == p.Container {
						left++
					}
				}
			}
		}
		if left > 0 {
			t.Errorf("%d copies are left on datanodes", left)
		}
	})
}

// other is the datanode that has no replica of a file's last block.
func (k *kept) other(f begun) muster.NodeNumber {
	return k.nodes[slices.IndexFunc(k.nodes, func(n muster.NodeNumber) bool { return !slices.Contains(f.nodes, n) })]
}

// TestCopiesUnderWayAreDeletedToo: a datanode that is ordered to copy a container is asked to delete
// its blocks before it has any, and waited for, also when the order has been withdrawn meanwhile.
func TestCopiesUnderWayAreDeletedToo(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("the target is down %v", down), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := newKept(t, Leases{})
				f := k.finished("/f")
				fourth := k.other(f)
				if err := k.registry.CloseContainer(t.Context(), f.block.Container); err != nil {
					t.Fatal(err)
				}
				for _, n := range f.nodes {
					at := slices.Index(k.nodes, n)
					if _, err := k.registry.Report(n, k.sessions[at], false, []registry.Replica{{Container: f.block.Container, Closed: true, Blocks: 1, Bytes: 10}}); err != nil {
						t.Fatal(err)
					}
				}
				k.change(func() { k.down[f.nodes[0]] = true })
				time.Sleep(11 * time.Minute)
				if s := k.registry.Stats(); s.Copies != 1 {
					t.Fatalf("%d copies are ordered", s.Copies)
				}
				k.change(func() { k.down[fourth] = down })
				k.apply(muster.Delete{Path: "/f"})
				k.after(30*time.Second, 1)
				k.change(func() { k.down[f.nodes[0]] = false })
				if down {
					k.after(30*time.Minute, 1)
					k.change(func() {
						k.down[fourth] = false
						k.blocks[fourth] = map[muster.BlockID]stored{f.block: {10, true}} // written before it was down
						k.deleted[fourth] = map[muster.BlockID]bool{}
					})
				}
				k.after(90*time.Second, 0)
				k.write(fourth, f.file, f.block, stored{10, true}) // late
				if got := k.on(fourth, f.block); got != "-" {
					t.Errorf("the target has %s", got)
				}
			})
		})
	}
}

// TestWhatIsCopiedWhileItIsDeletedIsDeletedToo: just before the last replica goes, somebody gets a copy
// who was not known to when the deletion began.
func TestWhatIsCopiedWhileItIsDeletedIsDeletedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.finished("/f")
		fourth := k.other(f)
		k.change(func() {
			k.before = func(n muster.NodeNumber) {
				if n == fourth || k.targets[f.block.Container] != nil {
					return
				}
				k.targets[f.block.Container] = []*pb.Node{{Number: uint32(fourth), Id: "dn", Host: "dn", Port: 1, Rack: "/r"}}
				k.blocks[fourth], k.deleted[fourth] = map[muster.BlockID]stored{f.block: {10, true}}, map[muster.BlockID]bool{}
			}
		})
		k.apply(muster.Delete{Path: "/f"})
		k.after(30*time.Second, 0)
		if got := k.on(fourth, f.block); got != "-" {
			t.Errorf("the datanode that got it meanwhile has %s", got)
		}
	})
}

// TestWhatIsUnclearOfOneContainerKeepsOnlyItsBlocks waiting.
func TestWhatIsUnclearOfOneContainerKeepsOnlyItsBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		var all []begun
		for i := range 5 {
			all = append(all, k.finished(fmt.Sprintf("/d/%d", i)))
		}
		stuck := all[2].block.Container
		if stuck == all[1].block.Container || stuck == all[3].block.Container {
			t.Fatal("all files are in one container")
		}
		k.change(func() { k.unclear[stuck] = muster.ErrInternal })
		k.apply(muster.Delete{Path: "/d", Recursive: true})
		k.after(time.Minute, 1)
		k.expect("of the one", all[2], "gone", "10 committed", "10 committed", "10 committed")
		if n := k.upkeep.waiting.Load(); n != 1 {
			t.Errorf("the status says that %d blocks wait", n)
		}
		k.change(func() { clear(k.unclear) })
		k.after(time.Minute, 0)
		k.expect("when it is clear", all[2], "gone", "-", "-", "-")
	})
}

// TestWhoHasDeletedIsAskedAgainBeforeItForgets: while a deletion waits for another datanode, which may
// be the source of a copy when it is back.
func TestWhoHasDeletedIsAskedAgainBeforeItForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := newKept(t, Leases{})
		f := k.finished("/f")
		k.change(func() { k.down[f.nodes[0]] = true })
		k.apply(muster.Delete{Path: "/f"})
		k.after(time.Minute, 1)
		k.change(func() { clear(k.asked) })
		k.after(drainMemory, 1)
		if n := k.asked[f.nodes[1]]; n != 1 || drainMemory > store.TombstoneLife/2 {
			t.Errorf("asked %d times in %v", n, drainMemory)
		}
	})
}

package registry_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// TestEveryContainerHasAnOutcomeOfItsOwn, in the order asked, and each datanode is described once.
func TestEveryContainerHasAnOutcomeOfItsOwn(t *testing.T) {
	r := open(t, registry.Options{})
	join(t, r, 4, "/r0", "/r1")
	member(t, r, true, []muster.NodeNumber{0, 1, 2}, 1, 2, 3)
	var ids []uint64
	for range 700 { // more than one step
		ids = append(ids, 3, 99, 1, 3)
	}
	a, err := r.Lookup(t.Context(), ids)
	if err != nil || len(a.Outcomes) != len(ids) {
		t.Fatal(len(a.Outcomes), err)
	}
	for i, o := range a.Outcomes {
		switch {
		case ids[i] == 99:
			if !errors.Is(o.Err, muster.ErrNotFound) {
				t.Fatalf("container 99: %+v", o)
			}
		case o.Err != nil || o.Placement.Container != ids[i] || !o.Placement.Closed || o.Placement.Replication != three || !slices.Equal(o.Placement.Nodes, []muster.NodeNumber{0, 1, 2}):
			t.Fatalf("container %d: %+v", ids[i], o)
		}
	}
	if len(a.Nodes) != 3 || a.Nodes[1].ID != "dn1" || a.Nodes[1].Rack != "/r1" {
		t.Errorf("datanodes: %+v", a.Nodes)
	}
	if a, err := r.Lookup(t.Context(), nil); err != nil || len(a.Outcomes)+len(a.Nodes) != 0 {
		t.Errorf("nothing: %+v, %v", a, err)
	}
}

// TestAMemberCountsUntilItsDatanodeSaysOtherwise, before and after a restart.
func TestAMemberCountsUntilItsDatanodeSaysOtherwise(t *testing.T) {
	fs := vfs.NewMem()
	r := open(t, registry.Options{FS: fs})
	join(t, r, 4, "/r")
	member(t, r, true, []muster.NodeNumber{0, 1, 2}, 1)
	member(t, r, false, []muster.NodeNumber{0, 1, 2}, 2)
	for range 2 {
		dn := join(t, r, 4, "/r")
		expect := func(when string, closed, open []muster.NodeNumber) {
			t.Helper()
			if got := lookup(t, r, 1).Nodes; !slices.Equal(got, closed) {
				t.Errorf("%s: the closed one is on %v, want %v", when, got, closed)
			}
			if got := lookup(t, r, 2).Nodes; !slices.Equal(got, open) {
				t.Errorf("%s: the open one is on %v, want %v", when, got, open)
			}
		}
		all := []muster.NodeNumber{0, 1, 2}
		expect("at first", all, all)
		report(t, r, dn[0], 1)
		expect("0 has the closed one alone", all, all) // the open one may not have been written yet
		report(t, r, dn[1])
		expect("1 has nothing", []muster.NodeNumber{0, 2}, all)
		report(t, r, dn[3], 1, 2)
		expect("3 has both", []muster.NodeNumber{0, 2, 3}, []muster.NodeNumber{0, 1, 2, 3})
		report(t, r, dn[2], 2)
		expect("2 has the open one", []muster.NodeNumber{0, 3}, []muster.NodeNumber{0, 1, 2, 3})
		report(t, r, dn[2])
		expect("2 lost it", []muster.NodeNumber{0, 3}, []muster.NodeNumber{0, 1, 3})
		change := func(n int, p registry.Replica) {
			t.Helper()
			if unknown, err := r.Report(dn[n].Number, dn[n].Session, false, []registry.Replica{p}); err != nil || unknown != 0 {
				t.Fatal(unknown, err)
			}
		}
		change(0, registry.Replica{Container: 1, Gone: true})
		change(0, registry.Replica{Container: 2, Gone: true})
		expect("0 removed both", []muster.NodeNumber{3}, []muster.NodeNumber{1, 3})
		change(2, registry.Replica{Container: 1})
		expect("2 got one", []muster.NodeNumber{2, 3}, []muster.NodeNumber{1, 3})
		var counts []int
		for _, d := range r.Datanodes() {
			counts = append(counts, d.Containers)
		}
		if !slices.Equal(counts, []int{0, 0, 1, 2}) {
			t.Errorf("the datanodes have %v containers", counts)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		r = open(t, registry.Options{FS: fs})
	}
}

// TestAReportFromBeforeDoesNotSpeakOfWhatIsNew: a datanode that reported all it had does not have to
// report again for each container that is made or closed later.
func TestAReportFromBeforeDoesNotSpeakOfWhatIsNew(t *testing.T) {
	r := open(t, registry.Options{})
	dn := join(t, r, 3, "/r")
	for _, n := range dn {
		report(t, r, n)
	}
	member(t, r, true, []muster.NodeNumber{0, 1, 2}, 1)
	member(t, r, false, []muster.NodeNumber{0, 1, 2}, 2)
	report(t, r, dn[0])
	if got := lookup(t, r, 1).Nodes; !slices.Equal(got, []muster.NodeNumber{1, 2}) {
		t.Errorf("made closed: %v", got)
	}
	if err := r.CloseContainer(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if p := lookup(t, r, 2); !p.Closed || !slices.Equal(p.Nodes, []muster.NodeNumber{0, 1, 2}) {
		t.Errorf("closed: %+v", p)
	}
	report(t, r, dn[1])
	if p := lookup(t, r, 2); !slices.Equal(p.Nodes, []muster.NodeNumber{0, 2}) {
		t.Errorf("closed, and one reported: %+v", p)
	}
	if err := r.CloseContainer(t.Context(), 2); err != nil {
		t.Errorf("closing it again: %v", err)
	}
	if err := r.CloseContainer(t.Context(), 3); !errors.Is(err, muster.ErrNotFound) {
		t.Errorf("closing what is not there: %v", err)
	}
}

// TestErasureCodedReplicasLieAtTheirIndex, whoever has them.
func TestErasureCodedReplicasLieAtTheirIndex(t *testing.T) {
	r := open(t, registry.Options{})
	dn := join(t, r, 7, "/r0", "/r1")
	if err := r.Import(t.Context(), []registry.Imported{{Container: 5, Replication: rs32, Closed: true, Members: []muster.NodeNumber{4, 3, 2, 1, 0}}}); err != nil {
		t.Fatal(err)
	}
	no := muster.NoNode
	expect := func(usable bool, want ...muster.NodeNumber) {
		t.Helper()
		if p := lookup(t, r, 5); !slices.Equal(p.Nodes, want) || p.Usable() != usable {
			t.Errorf("on %v, usable %v; want %v", p.Nodes, p.Usable(), want)
		}
	}
	say := func(n int, full bool, replicas ...registry.Replica) (unknown uint64) {
		t.Helper()
		unknown, err := r.Report(dn[n].Number, dn[n].Session, full, replicas)
		if err != nil {
			t.Fatal(err)
		}
		return unknown
	}
	expect(true, 4, 3, 2, 1, 0)
	for n := 5; n < 7; n++ {
		report(t, r, dn[n])
	}
	say(1, true)
	say(3, true)
	expect(false, 4, no, 2, no, 0)
	say(0, true, registry.Replica{Container: 5, Index: 5})
	say(2, true, registry.Replica{Container: 5, Index: 3})
	say(4, true)
	expect(false, no, no, 3-1, no, 0)
	say(6, false, registry.Replica{Container: 5, Index: 1}, registry.Replica{Container: 5, Index: 2})
	expect(false, no, 6, 2, no, 0)
	say(5, false, registry.Replica{Container: 5, Index: 1})
	expect(true, 5, 6, 2, no, 0)
	if n := say(5, false, registry.Replica{Container: 5, Index: 6}, registry.Replica{Container: 5}, registry.Replica{Container: 6, Index: 1}); n != 3 {
		t.Errorf("%d replicas were passed over", n)
	}
	expect(true, 5, 6, 2, no, 0)
	c, err := r.Container(5)
	if err != nil || c.Outcome.Err != nil || !slices.Equal(c.Members, []muster.NodeNumber{4, 3, 2, 1, 0}) || len(c.Replicas) != 4 || len(c.Nodes) != 7 || c.NextLocalID != 1 || !c.Closed || c.Replication != rs32 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := r.Container(6); !errors.Is(err, muster.ErrNotFound) {
		t.Errorf("container 6: %v", err)
	}
}

// TestImportIsAllOrNothing, and says which container is bad.
func TestImportIsAllOrNothing(t *testing.T) {
	r := open(t, registry.Options{})
	join(t, r, 3, "/r")
	good := registry.Imported{Container: 9, Replication: muster.Replicated(2), Members: []muster.NodeNumber{0, 1}, NextLocalID: 7}
	for what, change := range map[string]func(c *registry.Imported){
		"id 0":     func(c *registry.Imported) { c.Container = 0 },
		"id max":   func(c *registry.Imported) { c.Container = 1<<64 - 1 },
		"none":     func(c *registry.Imported) { c.Replication, c.Members = 0, nil },
		"missing":  func(c *registry.Imported) { c.Members = c.Members[:1] },
		"twice":    func(c *registry.Imported) { c.Members = []muster.NodeNumber{1, 1} },
		"nobody":   func(c *registry.Imported) { c.Members = []muster.NodeNumber{1, 3} },
		"no node":  func(c *registry.Imported) { c.Members = []muster.NodeNumber{1, muster.NoNode} },
		"same two": func(c *registry.Imported) { c.Container = 9 },
	} {
		bad := good
		bad.Container = 10
		change(&bad)
		if err := r.Import(t.Context(), []registry.Imported{good, bad}); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := r.Import(t.Context(), make([]registry.Imported, registry.MaxImport+1)); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("too many: %v", err)
	}
	if s := r.Stats(); s.Containers != 0 {
		t.Errorf("%d containers", s.Containers)
	}
	if err := r.Import(t.Context(), []registry.Imported{good}); err != nil {
		t.Fatal(err)
	}
	if err := r.Import(t.Context(), []registry.Imported{good}); !errors.Is(err, muster.ErrExists) {
		t.Errorf("again: %v", err)
	}
	a := allocate(t, r, registry.AllocateRequest{Replication: muster.Replicated(2), Count: 100})
	for _, b := range a.Blocks {
		if b.Container == 9 && b.LocalID < 7 || b.Container < 9 {
			t.Errorf("block %+v", b)
		}
	}
}

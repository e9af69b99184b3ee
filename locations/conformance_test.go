package locations_test

import (
	"errors"
	"testing"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// These are the cases of Ozone's TestOmContainerLocationCache and TestScmClient, and of
// HDDS-17731, as far as they concern the cache, restated for this one.

func TestOneCallForExactlyWhatIsMissing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cached []uint64
		asked  []uint64
		calls  [][]uint64
	}{
		{"all cached", []uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4}, nil},
		{"all new", nil, []uint64{1, 2, 3, 4}, [][]uint64{{1, 2, 3, 4}}},
		{"half new", []uint64{1, 2}, []uint64{1, 2, 3, 4}, [][]uint64{{3, 4}}},
		{"twice in one call", []uint64{1}, []uint64{3, 1, 3, 2, 3}, [][]uint64{{2, 3}}},
		{"none", nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(1, 2, 3, 4)
			c := newCache(t, s, Options{})
			get(t, c, tc.cached...)
			s.taken()
			for i, l := range get(t, c, tc.asked...) {
				first := muster.NodeNumber(tc.asked[i])
				wantOn(t, l, first%5, (first+1)%5, (first+2)%5)
			}
			wantCalls(t, s, tc.calls...)
		})
	}
}

func TestSecondFileOfACachedContainerCausesNoCall(t *testing.T) {
	s := newService(7)
	c := newCache(t, s, Options{})
	get(t, c, 7)
	wantCalls(t, s, []uint64{7})
	get(t, c, 7)
	wantCalls(t, s)
}

func TestForcingLoadsAllOfTheCallAndReplaces(t *testing.T) {
	for name, cached := range map[string][]uint64{"cached": {1, 2}, "new": {}, "mixed": {2}} {
		t.Run(name, func(t *testing.T) {
			s := newService(1, 2)
			c := newCache(t, s, Options{})
			get(t, c, cached...)
			s.taken()
			s.move(1, 4)
			s.move(2, 3)
			out := reload(t, c, 1, 2)
			wantOn(t, out[0], 4)
			wantOn(t, out[1], 3)
			wantCalls(t, s, []uint64{1, 2})
			out = get(t, c, 1, 2)
			wantOn(t, out[0], 4)
			wantOn(t, out[1], 3)
			wantCalls(t, s)
		})
	}
}

func TestForcingIsForTheNamedContainersAlone(t *testing.T) {
	s := newService(1, 2, 3)
	c := newCache(t, s, Options{})
	out := get(t, c, 1, 2, 3)
	s.taken()
	refresh(t, c, Stale{Container: 2, Seen: out[1].Seen})
	wantCalls(t, s, []uint64{2})
	reload(t, c, 3)
	wantCalls(t, s, []uint64{3})
}

func TestLookupAsksEachTimeAndStatusDoesNot(t *testing.T) {
	s := newService(1, 2)
	c := newCache(t, s, Options{})
	for range 3 {
		get(t, c, 1, 2) // status and listings
	}
	wantCalls(t, s, []uint64{1, 2})
	for range 3 {
		reload(t, c, 1, 2) // lookup
	}
	wantCalls(t, s, []uint64{1, 2}, []uint64{1, 2}, []uint64{1, 2})
}

func TestUnusableAnswersAreGivenAndNotKept(t *testing.T) {
	absent := muster.NoNode
	coded, err := muster.ParseReplication("ec/rs-3-2")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		replication muster.Replication
		nodes       []muster.NodeNumber
		kept        bool
	}{
		{"no node", muster.Replicated(3), nil, false},
		{"fewer nodes than wanted", muster.Replicated(3), []muster.NodeNumber{1}, true},
		{"coded, none", coded, nil, false},
		{"coded, first data index absent", coded, []muster.NodeNumber{absent, 1, 2, 3, 4}, false},
		{"coded, last data index absent", coded, []muster.NodeNumber{0, 1, absent, 3, 4}, false},
		{"coded, too short for the data", coded, []muster.NodeNumber{0, 1}, false},
		{"coded, parity absent", coded, []muster.NodeNumber{0, 1, 2, absent, 4}, true},
		{"coded, all parity absent", coded, []muster.NodeNumber{0, 1, 2, absent, absent}, true},
		{"coded, no word of parity", coded, []muster.NodeNumber{0, 1, 2}, true},
		{"coded, complete", coded, []muster.NodeNumber{0, 1, 2, 3, 4}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService()
			s.put(muster.Placement{Container: 1, Replication: tc.replication, Closed: true, Nodes: tc.nodes})
			c := newCache(t, s, Options{})
			l := get(t, c, 1)[0]
			wantOn(t, l, tc.nodes...)
			if p := l.Placement; p.Container != 1 || p.Replication != tc.replication || !p.Closed || p.Usable() != tc.kept {
				t.Fatalf("answered %+v, usable %v", p, p.Usable())
			}
			s.taken()
			l = get(t, c, 1)[0]
			wantOn(t, l, tc.nodes...)
			if calls := len(s.taken()); (calls == 0) != tc.kept {
				t.Fatalf("%d calls for what was kept: %v", calls, tc.kept)
			}
			if n := c.Stats().Size; (n == 1) != tc.kept {
				t.Fatalf("%d kept", n)
			}
		})
	}
}

func TestEmptyPlacementIsAskedForAgainAndWorks(t *testing.T) {
	s := newService()
	s.move(1)
	c := newCache(t, s, Options{})
	wantOn(t, get(t, c, 1)[0])
	s.move(1, 2, 3)
	wantOn(t, get(t, c, 1)[0], 2, 3)
	wantCalls(t, s, []uint64{1}, []uint64{1})
}

func TestUnusableAnswerEndsTheOneBefore(t *testing.T) {
	s := newService(1, 2)
	c := newCache(t, s, Options{})
	get(t, c, 1, 2)
	s.move(1)
	s.failOne(2, muster.ErrNotFound)
	out := reload(t, c, 1, 2)
	wantOn(t, out[0])
	if !errors.Is(out[1].Err, muster.ErrNotFound) {
		t.Fatal(out[1].Err)
	}
	s.taken()
	get(t, c, 1, 2)
	wantCalls(t, s, []uint64{1, 2})
}

func TestOneBadContainerFailsAlone(t *testing.T) {
	s := newService(1, 3)
	bad := errors.New("of its own")
	s.failOne(3, bad)
	c := newCache(t, s, Options{})
	out := get(t, c, 1, 2, 3)
	wantOn(t, out[0], 1, 2, 3)
	if !errors.Is(out[1].Err, muster.ErrNotFound) || out[1].Placement != nil {
		t.Fatalf("unknown container: %+v", out[1])
	}
	if out[2].Err != bad {
		t.Fatalf("the source's error came as %v", out[2].Err)
	}
	s.taken()
	s.failOne(3, nil)
	get(t, c, 1, 2, 3)
	wantCalls(t, s, []uint64{2, 3})
}

func TestNewAddressOfANodeIsInForceEverywhereAtOnce(t *testing.T) {
	s := newService(0, 1, 2)
	c := newCache(t, s, Options{})
	get(t, c, 0, 1) // on nodes 0, 1, 2 and 1, 2, 3
	old := *c.Node(2)
	same := c.Node(1)
	moved := old
	moved.Address, moved.State = "10.0.0.9", muster.Draining
	s.setNode(moved)
	get(t, c, 2) // on 2, 3, 4: says anew who 2 is
	if n := c.Node(2); *n != moved {
		t.Fatalf("node 2 is %+v, want %+v", *n, moved)
	}
	reload(t, c, 0)
	if c.Node(1) != same {
		t.Fatal("a record that says nothing new has replaced the one there was")
	}
	if c.Node(5) != nil || c.Node(muster.NoNode) != nil {
		t.Fatal("a node that nobody has described")
	}
	if n := c.Stats().Nodes; n != 5 {
		t.Fatalf("%d nodes known, want 5", n)
	}
}

func TestLearnedNodesReplaceThoseOfAnswers(t *testing.T) {
	s := newService(0)
	c := newCache(t, s, Options{})
	get(t, c, 0)
	dead := *c.Node(1)
	dead.State = muster.Dead
	c.Learn([]muster.Node{dead, {Number: 70, ID: "z"}, {Number: muster.MaxNodes, ID: "beyond"}})
	if *c.Node(1) != dead || c.Node(70).ID != "z" || c.Node(muster.MaxNodes) != nil || c.Node(0) == nil {
		t.Fatalf("node 1 %+v, node 70 %+v", c.Node(1), c.Node(70))
	}
}

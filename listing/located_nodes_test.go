package listing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
)

// Each node is sent once a call, and once more if it has changed.
func TestNodesAreSentOnce(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 5, 9}, 1)
	w.place(muster.Replicated(3), []muster.NodeNumber{5, 9, 2}, 2)
	w.file("/d/a", muster.Replicated(3), 1, 1, 2)
	w.file("/e/b", muster.Replicated(3), 2, 1)
	l := w.lister(listing.Config{})
	paths := slices.Repeat([]string{"/d", "/e"}, 50)
	if got := locatedStream(t, l, paths, hint); len(got.table) != 4 {
		t.Errorf("%d nodes were sent, want 4", len(got.table))
	}
	var all locatedCall
	next, send := lockstep([]string{"/d", "/e", "/d", "/e"}, func(m *listing.Message) error {
		all.add(t, m, hint)
		if len(all.outcomes) == 2 && len(all.table) == 4 {
			moved := testNodes()[5]
			moved.Host = "moved"
			w.cache.Learn([]muster.Node{moved})
		}
		return nil
	})
	if err := l.Stream(t.Context(), root, hint, nil, next, send); err != nil {
		t.Fatal(err)
	}
	if len(all.table) != 5 || all.table[4].Host != "moved" || all.table[4].Number != 5 {
		t.Errorf("table %v", all.table)
	}
	for i, want := range []string{"dn5", "dn5", "moved", "moved"} {
		if !slices.Contains(all.located[i].hosts[0], want) {
			t.Errorf("row %d is on %q, want %s", i, all.located[i].hosts, want)
		}
	}
}

// Many nodes go ahead of the rows that name them; a page has a bound.
func TestManyNodesGoAhead(t *testing.T) {
	w := newLocatedWorld(t)
	const many, perContainer = 12_000, 3
	w.nodes = nil
	for n := range muster.NodeNumber(many) {
		w.nodes = append(w.nodes, muster.Node{Number: n, ID: fmt.Sprint("n", n), Host: fmt.Sprint("dn", n), Rack: "/" + strings.Repeat("r", 200)})
	}
	var containers []uint64
	for c := range uint64(many / perContainer) {
		n := muster.NodeNumber(c * perContainer)
		w.place(muster.Replicated(3), []muster.NodeNumber{n, n + 1, n + 2}, c)
		containers = append(containers, c)
	}
	w.file("/d/f", muster.Replicated(3), containers...)
	l := w.lister(listing.Config{})
	got := locatedStream(t, l, []string{"/d"}, hint)
	if len(got.table) != many || got.ahead < 40 || len(got.outcomes) != 1 || slices.ContainsFunc(got.hosts(t, "f"), func(hosts []string) bool { return hosts == nil }) {
		t.Errorf("%d nodes, %d messages of them alone", len(got.table), got.ahead)
	}
	got = locatedPages(t, l, []string{"/d"}, hint)
	if h := got.hosts(t, "f"); len(h) != len(containers) || len(h[0]) != 3 || h[len(h)-1] != nil {
		t.Error("a page has all nodes, or none")
	}
	must := hint
	must.Locations = muster.LocationsMust
	if got := locatedPages(t, l, []string{"/d"}, must); got.outcomes[0].Code != muster.ErrUnavailable || !strings.Contains(got.outcomes[0].Message, "too many datanodes") {
		t.Errorf("%+v", got.outcomes)
	}
}

// Sorted, each block has an order of its own, the reader's rack first, and what is stale or
// dead last; else the order is the service's. What is cached stays as it is.
func TestReplicasAreSortedForTheReader(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 6, 11}, 1)
	w.place(muster.Replicated(5), []muster.NodeNumber{12, 6, 0, 7, 1}, 2)
	w.place(rs32(t), []muster.NodeNumber{1, 4, muster.NoNode, 8, 12}, 3)
	w.file("/d/f", muster.Replicated(3), slices.Repeat([]uint64{1}, 1000)...)
	w.file("/e/g", muster.Replicated(3), slices.Repeat([]uint64{2}, 1000)...)
	w.file("/e/coded", rs32(t), 3)
	w.nodes[6].State, w.nodes[12].State = muster.Dead, muster.Stale
	l := w.lister(listing.Config{})
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for {
			select {
			case <-stop:
				return
			default:
				w.topology.Swap(treeOf(t, testNodes()))
			}
		}
	}()
	defer func() { close(stop); <-swapped }()
	for reader, first := range map[string]string{"/r2": "dn11", "dn11": "dn11", "dn8": "dn11", "/r0": "dn1"} {
		o := hint
		o.Sorted, o.From = true, reader
		if reader == "dn8" {
			o.Reader, o.From = reader, "/r0"
		}
		got := locatedStream(t, l, []string{"/d", "/e"}, o)
		orders := map[string]int{}
		for k, hosts := range got.hosts(t, "f") {
			orders[fmt.Sprint(hosts)]++
			if len(hosts) != 3 || hosts[0] != first || hosts[2] != "dn6" {
				t.Fatalf("reader %s: block %d is on %q", reader, k, hosts)
			}
		}
		if reader == "/r0" {
			for _, hosts := range got.hosts(t, "g") {
				orders[fmt.Sprint(hosts)]++
				if hosts[3] != "dn12" || hosts[4] != "dn6" || hosts[2] != "dn7" {
					t.Fatalf("block on %q", hosts)
				}
			}
			if orders["[dn0 dn1 dn7 dn12 dn6]"] < 300 || orders["[dn1 dn0 dn7 dn12 dn6]"] < 300 {
				t.Errorf("orders %v", orders)
			}
		}
		if h := got.hosts(t, "coded"); !slices.Equal(h[0], []string{"dn1", "dn4", "", "dn8", "dn12"}) {
			t.Errorf("an erasure-coded block is on %q", h)
		}
	}
	o := hint
	o.Reader = "/r2"
	if h := locatedPages(t, l, []string{"/d"}, o).hosts(t, "f"); !slices.Equal(h[7], []string{"dn1", "dn6", "dn11"}) {
		t.Errorf("not sorted: %q", h[7])
	}
	o.Sorted, o.Reader = true, "nowhere"
	orders := map[string]int{}
	for _, hosts := range locatedPages(t, l, []string{"/d"}, o).hosts(t, "f") {
		orders[fmt.Sprint(hosts)]++
	}
	if len(orders) != 2 { // the dead one is last
		t.Errorf("nobody knows the reader: orders %v", orders)
	}
	var kept [1]locations.Located
	if err := w.cache.Get(t.Context(), []uint64{1}, kept[:]); err != nil || !slices.Equal(kept[0].Placement.Nodes, []muster.NodeNumber{1, 6, 11}) {
		t.Errorf("the cache has %+v, %v", kept[0], err)
	}
}

// With own entries, a link in last place is followed if asked.
func TestOwnEntriesFollowLinksIfAsked(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 6, 11}, 1)
	w.file("/d/f", muster.Replicated(3), 1)
	w.build("/l -> d/f", "/m -> d", "/x -> gone")
	l := w.lister(listing.Config{})
	paths := []string{"/l", "/m", "/x", "/d/f"}
	o := hint
	o.Own = true
	if got := locatedPages(t, l, paths, o); got.located[0].Kind != muster.Link || got.located[1].Kind != muster.Link || got.outcomes[2].Code != muster.OK {
		t.Errorf("%+v", got.located)
	}
	o.Follow = true
	for _, got := range []*locatedCall{locatedPages(t, l, paths, o), locatedStream(t, l, paths, o)} {
		if got.located[0].Kind != muster.File || len(got.located[0].hosts[0]) != 3 || got.located[0].Name != "" ||
			got.located[1].Kind != muster.Directory || got.outcomes[2].Code != muster.ErrNotFound || got.located[2].ID != got.located[0].ID {
			t.Errorf("%+v, %+v", got.located, got.outcomes)
		}
	}
}

// A cursor is good for the options that it was made with alone.
func TestCursorsAreBoundToTheOptionsOfLocations(t *testing.T) {
	w := newLocatedWorld(t)
	w.file("/d/a", muster.Replicated(3), 1)
	w.file("/d/b", muster.Replicated(3), 1)
	l := w.lister(listing.Config{})
	must, sorted, reader, limit, own, follow, plain := hint, hint, hint, hint, hint, hint, hint
	must.Locations = muster.LocationsMust
	plain.Locations = muster.NoLocations
	sorted.Sorted = true
	reader.Sorted, reader.Reader = true, "/r1"
	limit.LocationLimit = 3
	own.Own = true
	follow.Own, follow.Follow = true, true
	all := []listing.Options{hint, must, plain, sorted, reader, limit, own, follow}
	for i, o := range all {
		o.Limit = 1
		m, err := page(t.Context(), l, root, []string{"/d", "/d"}, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, other := range all {
			other.Limit, other.From = 1, "10.0.0.1"
			if _, err := page(t.Context(), l, root, []string{"/d", "/d"}, other, m.Cursor); (err == nil) != (i == k) || err != nil && !errors.Is(err, muster.ErrCursor) {
				t.Errorf("cursor of %+v used with %+v: %v", o, other, err)
			}
		}
	}
	for _, o := range []listing.Options{{Locations: 3}, {Locations: muster.LocationsHint, Reader: strings.Repeat("x", muster.MaxRackBytes+1)}} {
		if _, err := page(t.Context(), l, root, []string{"/d"}, o, nil); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A stream with locations resumes from any cursor with a table of its own.
func TestLocatedStreamsResume(t *testing.T) {
	w := newLocatedWorld(t)
	paths := w.locatedTree(rand.New(rand.NewPCG(9, 9)))
	l := w.lister(listing.Config{})
	o := hint
	o.Limit, o.LocationLimit = 2, 5
	want := locatedStream(t, l, paths, o)
	next, send := lockstep(paths, func(*listing.Message) error { return nil })
	var cursors [][]byte
	var indexes, seen []int
	rowsSeen := 0
	err := l.Stream(t.Context(), root, o, nil, next, func(m *listing.Message) error {
		if b, err := rows.Decode(slices.Clone(m.Frame), rows.AllColumns); err != nil {
			t.Fatal(err)
		} else {
			rowsSeen += b.Len()
		}
		if len(m.Cursor) > 0 {
			cursors, indexes, seen = append(cursors, slices.Clone(m.Cursor)), append(indexes, int(m.CursorIndex)), append(seen, rowsSeen)
		}
		return send(m)
	})
	if err != nil || len(cursors) < 5 {
		t.Fatal(len(cursors), err)
	}
	for i, cursor := range cursors {
		got := locatedCall{listed: listed{first: uint64(indexes[i]), resumed: cursor[1] == 1}}
		if cursor[1] == 2 {
			got.first++
		}
		err := l.Stream(t.Context(), root, o, cursor, feedOf(paths[indexes[i]:], 3), func(m *listing.Message) error { got.add(t, m, o); return nil })
		if err != nil {
			t.Fatal(err)
		}
		sameList(t, "resumed", "row", got.located, want.located[seen[i]:])
	}
}

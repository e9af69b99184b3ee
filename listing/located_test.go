package listing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

var hint = listing.Options{Columns: rows.AllColumns, Locations: muster.LocationsHint}

func rs32(t testing.TB) muster.Replication {
	t.Helper()
	r, err := muster.ParseReplication("ec/rs-3-2")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// locatedTree makes files of all kinds, and gives the paths to list them by.
func (w *locatedWorld) locatedTree(random *rand.Rand) []string {
	for c := range uint64(40) {
		if c%5 == 0 {
			w.place(rs32(w), []muster.NodeNumber{1, 4, 8, muster.NoNode, 12}, c)
		} else {
			w.place(muster.Replicated(3), []muster.NodeNumber{muster.NodeNumber(c % 4), 4, 9}, c)
		}
	}
	var paths []string
	for d := range 6 {
		dir := fmt.Sprintf("/t/d%d", d)
		paths = append(paths, dir)
		for f := range random.IntN(5) {
			containers := make([]uint64, random.IntN(6))
			for i := range containers {
				containers[i] = random.Uint64N(45) // some are not there
			}
			r := muster.Replicated(1 + random.IntN(3))
			if f%3 == 2 {
				r = rs32(w)
			}
			w.file(fmt.Sprintf("%s/f%d", dir, f), r, containers...)
		}
		w.build(dir + "/sub/")
	}
	w.do(muster.Create{Path: "/t/d0/meta", Mode: 0o644, Length: 1000, Replication: muster.Replicated(3)})
	w.build("/t/link -> d1/f0")
	return append(paths, "/missing", "/t/link", "/t")
}

// Every location budget gives the rows of the unlimited call, by pages and by stream.
func TestEveryLocationBudgetGivesTheSameRows(t *testing.T) {
	for seed := range uint64(5) {
		w := newLocatedWorld(t)
		paths := w.locatedTree(rand.New(rand.NewPCG(seed, 1)))
		l := w.lister(listing.Config{})
		o := hint
		o.LocationLimit = 1 << 20
		want := locatedPages(t, l, paths, o)
		if len(want.located) < 10 {
			t.Fatal("too few rows to tell")
		}
		all := 0
		for _, r := range want.located {
			all += len(r.Blocks) * r.Replication.Nodes()
		}
		for limit := 1; limit <= all+1; limit++ {
			for _, entries := range []int{0, 1, 3} {
				o.LocationLimit, o.Limit = limit, entries
				sameLocated(t, fmt.Sprintf("seed %d, pages of %d locations", seed, limit), locatedPages(t, l, paths, o), want)
				sameLocated(t, fmt.Sprintf("seed %d, stream of %d locations", seed, limit), locatedStream(t, l, paths, o), want)
			}
		}
		o = hint
		sameLocated(t, "the default budget", locatedPages(t, l, paths, o), want)
		o.Consistency = muster.ConsistencySnapshot
		sameLocated(t, "a snapshot", locatedStream(t, l, paths, o), want)
	}
}

func sameLocated(t testing.TB, what string, got, want *locatedCall) {
	t.Helper()
	sameList(t, what, "row", got.located, want.located)
	sameList(t, what, "outcome", got.outcomes, want.outcomes)
}

// A page ends at its budget; one file always passes.
func TestAPageEndsAtItsLocations(t *testing.T) {
	w := newLocatedWorld(t)
	for f := range 9 {
		w.file(fmt.Sprintf("/d/f%d", f), muster.Replicated(3), 1, 2)
	}
	l := w.lister(listing.Config{})
	for limit, files := range map[int]int{1: 1, 5: 1, 6: 1, 7: 1, 12: 2, 53: 8, 54: 9} {
		o := hint
		o.LocationLimit = limit
		var first locatedCall
		m, err := page(t.Context(), l, root, []string{"/d"}, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first.add(t, m, o); len(first.rows) != files {
			t.Errorf("%d files with %d locations, want %d", len(first.rows), limit, files)
		}
	}
	o := hint
	o.Limit = 1
	if m, err := page(t.Context(), l, root, []string{"/d"}, o, nil); err != nil || m.Done {
		t.Error(m, err)
	}
}

// A file may have 10,000 blocks, each with as many replicas as are told.
func TestAFileOfTheMostBlocksPasses(t *testing.T) {
	w := newLocatedWorld(t)
	wide, err := muster.ParseReplication("ec/rs-10-4")
	if err != nil {
		t.Fatal(err)
	}
	var nodes []muster.NodeNumber
	for n := range muster.NodeNumber(14) {
		nodes = append(nodes, n)
	}
	nodes[13] = muster.NoNode
	containers := make([]uint64, muster.MaxBlocks)
	for i := range containers {
		containers[i] = uint64(i)
	}
	w.place(wide, nodes, containers...)
	w.file("/d/big", wide, containers...)
	for f := range 70 {
		w.file(fmt.Sprintf("/d/a%02d", f), wide, 1, 2)
		w.file(fmt.Sprintf("/d/c%02d", f), wide, 1, 2)
	}
	create := muster.Create{Path: "/d/toobig", Mode: 0o644, Replication: wide, Blocks: make([]muster.Block, muster.MaxBlocks+1)}
	var refused *muster.CommandError
	if _, err := w.tree.Apply(t.Context(), namespace.Request{Caller: *root, Commands: []muster.Command{create}}); !errors.As(err, &refused) {
		t.Errorf("a file of %d blocks: %v", muster.MaxBlocks+1, err)
	}
	l := w.lister(listing.Config{})
	for _, limit := range []int{0, 1} {
		o := hint
		o.LocationLimit = limit
		for _, got := range []*locatedCall{locatedPages(t, l, []string{"/d"}, o), locatedStream(t, l, []string{"/d"}, o)} {
			big := got.hosts(t, "big")
			if len(got.rows) != 141 || len(big) != muster.MaxBlocks || len(big[9999]) != 14 || big[9999][12] != "dn12" || big[9999][13] != "" {
				t.Errorf("%d rows, %d blocks", len(got.rows), len(big))
			}
		}
	}
}

// The cache is asked once a page, for exactly the page's containers, and never forced.
func TestAPageAsksOnceForItsContainers(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 5, 9}, 1, 2, 3, 4)
	w.file("/d/a", muster.Replicated(3), 1, 2, 1)
	w.file("/d/b", muster.Replicated(3), 2)
	w.file("/e/c", muster.Replicated(3), 3)
	w.build("/f/", "/f/empty")
	l := w.lister(listing.Config{})
	plain := hint
	plain.Locations = muster.NoLocations
	if got := locatedPages(t, l, []string{"/d", "/e"}, plain); got.hosts(t, "b")[0] != nil || len(got.table) > 0 {
		t.Error("locations without asking for them")
	}
	w.asked(t, "without locations")
	locatedPages(t, l, []string{"/f", "/missing"}, hint)
	w.asked(t, "no blocks")
	locatedPages(t, l, []string{"/d", "/f", "/e"}, hint)
	w.asked(t, "three paths", []uint64{1, 2, 3})
	w.file("/e/d", muster.Replicated(3), 4)
	for range 3 {
		locatedPages(t, l, []string{"/d", "/e"}, hint)
		locatedStream(t, l, []string{"/d", "/e"}, hint)
	}
	w.asked(t, "one file more", []uint64{4})
}

// The cache is asked when the page's view is given back: a writer, and the end of the tree,
// need not wait for the location service. A snapshot stream gives its view back at its age.
func TestNoViewIsHeldWhileLocationsAreAwaited(t *testing.T) {
	for name, list := range map[string]func(l *listing.Lister, o listing.Options) error{
		"page": func(l *listing.Lister, o listing.Options) error {
			return l.Page(context.Background(), root, []string{"/d"}, o, nil, func(*listing.Message) error { return nil })
		},
		"stream": func(l *listing.Lister, o listing.Options) error {
			return l.Stream(context.Background(), root, o, nil, feedOf([]string{"/d"}, 1), func(*listing.Message) error { return nil })
		},
	} {
		w := newLocatedWorld(t)
		w.place(muster.Replicated(3), []muster.NodeNumber{1, 5, 9}, 1)
		w.file("/d/a", muster.Replicated(3), 1)
		asked, answer, done := make(chan struct{}), make(chan struct{}), make(chan error)
		w.before = func(context.Context) error { close(asked); <-answer; return nil }
		l := w.lister(listing.Config{})
		go func() { done <- list(l, hint) }()
		<-asked
		if err := w.tree.Close(); err != nil { // waits for views
			t.Errorf("%s: %v", name, err)
		}
		close(answer)
		if err := <-done; err != nil && !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A snapshot stream that waits for the location service gives its view back at its age.
func TestASnapshotIsGivenBackAtItsAgeWhileLocationsAreAwaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newLocatedWorld(t)
		w.file("/d/a", muster.Replicated(3), 1)
		w.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		l := w.lister(listing.Config{SnapshotAge: 5 * time.Second})
		o := hint
		o.Consistency = muster.ConsistencySnapshot
		start, done := time.Now(), make(chan error)
		go func() {
			done <- l.Stream(t.Context(), root, o, nil, feedOf([]string{"/d"}, 1), func(*listing.Message) error { return nil })
		}()
		synctest.Wait()
		if err := w.tree.Close(); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("the view is given back after %v, %v", time.Since(start), err)
		}
		if err := <-done; !errors.Is(err, muster.ErrLimit) {
			t.Errorf("the stream: %v", err)
		}
	})
}

// What is unknown is marked, and what is empty is empty.
func TestUnknownLocationsAreMarked(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 5, 9}, 1)
	w.place(muster.Replicated(3), nil, 3)
	w.place(rs32(t), []muster.NodeNumber{muster.NoNode, 4, 8, 12, muster.NoNode}, 4)
	w.failures[2] = fmt.Errorf("%w: nobody has reported", muster.ErrUnavailable)
	w.file("/d/a", muster.Replicated(3), 1, 99, 3, 2)
	w.file("/d/coded", rs32(t), 4)
	w.do(muster.Create{Path: "/d/meta", Mode: 0o644, Length: 1000, Replication: muster.Replicated(3)})
	w.do(muster.Create{Path: "/d/partly", Mode: 0o644, Length: 1000, Replication: muster.Replicated(3), Blocks: []muster.Block{{Container: 1, Length: 10}}})
	w.build("/d/empty", "/d/sub/")
	l := w.lister(listing.Config{})
	for _, got := range []*locatedCall{locatedPages(t, l, []string{"/d"}, hint), locatedStream(t, l, []string{"/d"}, hint)} {
		if h := got.hosts(t, "a"); !slices.Equal(h[0], []string{"dn1", "dn5", "dn9"}) || h[1] != nil || h[2] == nil || len(h[2]) > 0 || h[3] != nil {
			t.Errorf("a file some of whose containers are unknown: %q", h)
		}
		if h := got.hosts(t, "coded"); !slices.Equal(h[0], []string{"", "dn4", "dn8", "dn12", ""}) {
			t.Errorf("an erasure-coded file: %q", h)
		}
		for _, r := range got.located {
			if noData := r.Flags&muster.FlagNoData != 0; noData != (r.Name == "meta" || r.Name == "partly") {
				t.Errorf("%s: no data: %v", r.Name, noData)
			}
		}
		if h := got.hosts(t, "partly"); !slices.Equal(h[0], []string{"dn1", "dn5", "dn9"}) {
			t.Errorf("the block of a file that lacks others: %q", h)
		}
		if got.outcomes[0].Code != muster.OK {
			t.Errorf("outcome %v", got.outcomes[0])
		}
	}
}

// A path that must know what cannot be known now fails alone, at every budget; containers that
// do not exist are marked.
func TestMustFailsItsPathAlone(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 5, 9}, 1)
	w.failures[2] = fmt.Errorf("%w: nobody has reported", muster.ErrUnavailable)
	w.failures[3] = muster.ErrInternal
	w.file("/good/a", muster.Replicated(3), 1, 99)
	w.file("/bad/a", muster.Replicated(3), 1)
	w.file("/bad/b", muster.Replicated(3), 1, 2)
	w.file("/bad/c", muster.Replicated(3), 2)
	w.file("/worse/a", muster.Replicated(3), 3)
	w.build("/none/")
	w.do(muster.Create{Path: "/meta/f", Mode: 0o644, Length: 1000, Parents: true})
	l := w.lister(listing.Config{})
	paths := []string{"/good", "/bad", "/missing", "/worse", "/none", "/meta", "/good"}
	codes := []muster.Code{muster.OK, muster.ErrUnavailable, muster.ErrNotFound, muster.ErrUnavailable, muster.OK, muster.OK, muster.OK}
	for limit := range 12 {
		for _, entries := range []int{0, 1, 2} {
			o := hint
			o.Locations, o.LocationLimit, o.Limit = muster.LocationsMust, limit, entries
			for _, got := range []*locatedCall{locatedPages(t, l, paths, o), locatedStream(t, l, paths, o)} {
				for i, outcome := range got.outcomes {
					if outcome.Code != codes[i] {
						t.Errorf("limits %d and %d: path %s is %v: %s", limit, entries, paths[i], outcome.Code, outcome.Message)
					}
					if outcome.Code == muster.ErrUnavailable && (!strings.Contains(outcome.Message, paths[i]) || !strings.Contains(outcome.Message, "container ")) {
						t.Errorf("path %s: %s", paths[i], outcome.Message)
					}
				}
				if got.hosts(t, "a")[1] != nil || len(got.names(0)) != 1 || len(got.names(6)) != 1 || len(got.names(1)) == 0 {
					t.Errorf("limits %d and %d: rows %v", limit, entries, got.located)
				}
			}
		}
	}
}

// While the service is down, what is cached is told; when it is back, so is the rest.
func TestListingsOutliveTheLocationService(t *testing.T) {
	w := newLocatedWorld(t)
	w.place(muster.Replicated(3), []muster.NodeNumber{1, 5, 9}, 1, 2)
	w.file("/d/a", muster.Replicated(3), 1)
	w.file("/e/b", muster.Replicated(3), 2)
	l := w.lister(listing.Config{})
	locatedPages(t, l, []string{"/d"}, hint)
	must := hint
	must.Locations = muster.LocationsMust
	w.change(func() { w.err = fmt.Errorf("%w: gone", muster.ErrUnavailable) })
	for range 2 {
		got := locatedStream(t, l, []string{"/d", "/e"}, hint)
		if got.hosts(t, "a")[0] == nil || got.hosts(t, "b")[0] != nil || got.outcomes[1].Code != muster.OK {
			t.Errorf("%+v", got.located)
		}
		if got := locatedPages(t, l, []string{"/d", "/e"}, must); got.outcomes[0].Code != muster.OK || got.outcomes[1].Code != muster.ErrUnavailable {
			t.Errorf("%+v", got.outcomes)
		}
	}
	w.change(func() { w.err = nil })
	if got := locatedPages(t, l, []string{"/d", "/e"}, must); got.hosts(t, "b")[0] == nil || got.outcomes[1].Code != muster.OK {
		t.Errorf("%+v", got.located)
	}
	none := w.world.lister(listing.Config{})
	if got := locatedPages(t, none, []string{"/d", "/e"}, must); got.outcomes[0].Code != muster.ErrUnavailable || got.hosts(t, "a")[0] != nil {
		t.Errorf("a server that knows of no locations: %+v", got.outcomes)
	}
}

// A service that does not answer holds up no call past its deadline.
func TestNothingHangsPastTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newLocatedWorld(t)
		w.file("/d/a", muster.Replicated(3), 1)
		w.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		l := w.lister(listing.Config{})
		for _, stream := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			start := time.Now()
			var err error
			if send := func(*listing.Message) error { return nil }; stream {
				err = l.Stream(ctx, root, hint, nil, feedOf([]string{"/d"}, 1), send)
			} else {
				err = l.Page(ctx, root, []string{"/d"}, hint, nil, send)
			}
			if took := time.Since(start); took != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, muster.ErrDeadline) {
				t.Errorf("stream: %v: %v after %v", stream, err, took)
			}
			cancel()
		}
		// With time enough the service's own is over first.
		if got := locatedPages(t, l, []string{"/d"}, hint); got.hosts(t, "a")[0] != nil {
			t.Error(got.located)
		}
		synctest.Wait()
	})
}

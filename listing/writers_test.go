package listing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/namespace"
)

// write runs writers, which create, rename and delete in dirs, until stop is called. They
// leave names that start with "stable" alone.
func (w *world) write(writers int, dirs []string) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	for i := range writers {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		name := func() string { return fmt.Sprintf("%s/w%d-%d", dirs[random.IntN(len(dirs))], i, random.IntN(20)) }
		group.Go(func() {
			for ctx.Err() == nil {
				var c muster.Command
				switch random.IntN(4) {
				case 0, 1:
					c = muster.Create{Path: name(), Mode: 0o644, Overwrite: true}
				case 2:
					c = muster.Rename{From: name(), To: name(), Overwrite: true}
				default:
					c = muster.Delete{Path: name(), Recursive: true}
				}
				_, err := w.tree.Apply(ctx, namespace.Request{Caller: *root, Commands: []muster.Command{c}})
				var refused *muster.CommandError
				if err != nil && !errors.As(err, &refused) && ctx.Err() == nil {
					w.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// While writers create, rename and delete, a name that is there throughout is listed once.
func TestStableNamesAreListedOnceWhileWritersWork(t *testing.T) {
	w := newWorld(t)
	var dirs, stable []string
	for d := range 4 {
		dirs = append(dirs, fmt.Sprintf("/d%d", d))
		for i := range 25 {
			w.build(fmt.Sprintf("/d%d/stable%02d", d, i))
		}
	}
	for i := range 25 {
		stable = append(stable, fmt.Sprintf("stable%02d", i))
	}
	l := w.lister(listing.Config{PageBytes: 4096})
	stop := w.write(8, dirs)
	defer stop()

	check := func(what string, got *listed) {
		t.Helper()
		for i := range dirs {
			wantOK(t, got, i)
			names := got.names(i)
			names = slices.DeleteFunc(names, func(n string) bool { return n[0] != 's' })
			if !slices.Equal(names, stable) {
				t.Fatalf("%s: %s has %q", what, dirs[i], names)
			}
		}
	}
	for round := range 12 {
		o := listing.Options{Limit: 1 + round%9}
		check("pages", pages(t, l, root, dirs, o))
		check("stream", stream(t, l, root, dirs, o, 1))
		o.Consistency = muster.ConsistencySnapshot
		check("snapshot stream", stream(t, l, root, dirs, o, 1))
	}
}

// Within a page, and within a snapshot stream, all paths show one state: what is moved
// between two listed directories is in exactly one of them.
func TestRenameBetweenListedDirectoriesIsSeenOnce(t *testing.T) {
	w := newWorld(t)
	w.build("/left/token", "/right/")
	for i := range 20 { // so that a snapshot stream has many pages
		w.build(fmt.Sprintf("/left/a%02d", i), fmt.Sprintf("/right/a%02d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		from, to := "/left/token", "/right/token"
		for ctx.Err() == nil {
			if _, err := w.tree.Apply(ctx, namespace.Request{Caller: *root, Commands: []muster.Command{muster.Rename{From: from, To: to}}}); err == nil {
				from, to = to, from
			} else if ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	defer group.Wait()
	defer cancel()

	l, paths := w.lister(listing.Config{}), []string{"/left", "/right", "/left"}
	wantOne := func(what string, got *listed) {
		t.Helper()
		var in [3]int
		for _, r := range got.rows {
			if r.Name == "token" {
				in[r.Index]++
			}
		}
		if in[0]+in[1] != 1 || in[0] != in[2] {
			t.Fatalf("%s: the token is %d, %d and %d times in %q", what, in[0], in[1], in[2], paths)
		}
	}
	// Until the token was seen on either side: else nothing was moved meanwhile.
	onLeft := map[bool]bool{}
	for round := 0; (round < 60 || len(onLeft) < 2) && !t.Failed(); round++ {
		page := pages(t, l, root, paths, listing.Options{})
		if page.messages != 1 {
			t.Fatalf("%d pages", page.messages)
		}
		wantOne("page", page)
		onLeft[slices.Contains(page.names(0), "token")] = true
		snapshot := stream(t, l, root, paths, listing.Options{Limit: 3, Consistency: muster.ConsistencySnapshot}, 1)
		wantOne("snapshot stream", snapshot)
		for _, o := range snapshot.outcomes {
			if o.Txid != snapshot.outcomes[0].Txid {
				t.Fatalf("views %d and %d in one snapshot", o.Txid, snapshot.outcomes[0].Txid)
			}
		}
	}
}

func TestEachPageTakesOneView(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/a", 50)...)
	w.build("/b/c/d", "/b/e/", "/l -> a")
	l, paths := w.lister(listing.Config{}), []string{"/a", "/b", "/missing", "/l", "relative", "/b/c"}
	views := func() uint64 { return w.tree.Stats().Views }
	for _, limit := range []int{1, 7, 1000} {
		before := views()
		got := pages(t, l, root, paths, listing.Options{Limit: limit})
		if n := views() - before; n != uint64(got.messages) {
			t.Errorf("limit %d: %d views for %d pages", limit, n, got.messages)
		}
	}
	before := views()
	stream(t, l, root, paths, listing.Options{Limit: 1, Consistency: muster.ConsistencySnapshot}, 1)
	if n := views() - before; n != 1 {
		t.Errorf("%d views for a snapshot stream", n)
	}
	before = views()
	stream(t, l, root, paths, listing.Options{}, 100) // 64 rows, then the rest
	if n := views() - before; n != 2 {
		t.Errorf("%d views for a stream of two pages", n)
	}
	before = views()
	if _, err := page(t.Context(), l, root, nil, listing.Options{}, nil); err == nil || views() != before {
		t.Errorf("a bad call took a view")
	}
}

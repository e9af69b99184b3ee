package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc/pb"
)

// TestStoreReadsOfCallsWithLocations pins what each reads of the store, in one view: what a
// status reads. Links on the way are walked once (HDDS-9297).
func TestStoreReadsOfCallsWithLocations(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2)
	l.file("/w/t/f", 1, 2)
	l.file("/w/t/many", slices.Repeat([]uint64{1}, 1000)...)
	l.apply(
		muster.Symlink{Path: "/l", Target: "w/t"},
		muster.Symlink{Path: "/w/t/to-f", Target: "f"},
		muster.Mkdir{Path: "/w/t/d", Mode: 0o755},
	)
	calls := l.all()
	calls["head status"] = func(ctx context.Context, path string) (*pb.LocatedReply, error) {
		_, err := l.client.Stat(ctx, &pb.PathRequest{Path: []byte(path), Blocks: true})
		return nil, err
	}
	if _, err := calls["head status"](as(t, "root"), "/"); err != nil { // the view keeps the root
		t.Fatal(err)
	}
	for path, want := range map[string]uint64{
		"/w/t/f":    3,     // two directories, the file
		"/l/f":      4,     // the link before them
		"/l/to-f":   5,     // and the second link
		"/w/t/many": 3 + 4, // and its chunks of 256 blocks, past the first 16
	} {
		for name, call := range calls {
			for _, cached := range []bool{false, true} {
				before := l.tree.Stats()
				if _, err := call(as(t, "root"), path); err != nil {
					t.Fatalf("%s %s: %v", name, path, err)
				}
				after := l.tree.Stats()
				if gets, seeks, views := after.Gets-before.Gets, after.Seeks-before.Seeks, after.Views-before.Views; gets != want || seeks != 0 || views != 1 {
					t.Errorf("%s %s (again: %v): %d gets, %d seeks, %d views; want %d, 0, 1", name, path, cached, gets, seeks, views, want)
				}
			}
		}
	}
}

// TestHotCallsReadNothingOfTheStore: names and rows are in memory.
func TestHotCallsReadNothingOfTheStore(t *testing.T) {
	l := startLocatedOn(t, namespace.Options{})
	l.replicated(1, 2)
	l.file("/w/t/f", 1, 2)
	l.apply(muster.Symlink{Path: "/l", Target: "w/t"})
	calls := func() {
		for name, call := range l.all() {
			if _, err := call(as(t, "root"), "/l/f"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for range 20 {
		calls()
	}
	before := l.tree.Stats()
	calls()
	if after := l.tree.Stats(); after.Gets != before.Gets || after.Seeks != before.Seeks || after.Views != before.Views+4 {
		t.Errorf("%d gets, %d seeks, %d views", after.Gets-before.Gets, after.Seeks-before.Seeks, after.Views-before.Views)
	}
}

// TestTheViewIsGivenBackBeforeTheServiceIsAsked: the service's answer waits for all views.
func TestTheViewIsGivenBackBeforeTheServiceIsAsked(t *testing.T) {
	for _, name := range []string{"stat", "locate", "open", "lookup"} {
		l := startLocated(t)
		l.replicated(1)
		l.file("/f", 1)
		l.change(func() {
			l.before = func(context.Context) error { return l.tree.Close() } // waits for the views that are out
		})
		ctx, cancel := context.WithTimeout(as(t, "root"), 10*time.Second)
		defer cancel()
		if r, err := l.all()[name](ctx, "/f"); err != nil || len(r.Located.Nodes) != 3 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

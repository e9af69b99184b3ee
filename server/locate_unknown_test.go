package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// TestMetadataOnlyFilesSayThatDataIsMissing: Open and Lookup refuse them; a status and
// Locate mark what is missing, where it was asked for.
func TestMetadataOnlyFilesSayThatDataIsMissing(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2)
	ctx := as(t, "root")
	l.apply(
		muster.Create{Path: "/none", Length: 1000},
		muster.Create{Path: "/half", Length: 1000, Replication: muster.Replicated(3), Blocks: blocksIn(1, 2)},
	)
	for _, path := range []string{"/none", "/half"} {
		for _, name := range []string{"open", "lookup"} {
			if _, err := l.all()[name](ctx, path); !errors.Is(err, muster.ErrNoData) {
				t.Errorf("%s %s: %v", name, path, err)
			}
		}
	}
	if calls := l.take(); len(calls) > 0 {
		t.Errorf("the service was asked for a file without data: %v", calls)
	}
	for path, blocks := range map[string]int{"/none": 0, "/half": 2} {
		for _, name := range []string{"stat", "locate"} {
			if r, err := l.all()[name](ctx, path); err != nil || !r.Located.NoData || len(r.Located.Placements) != blocks {
				t.Errorf("%s %s: %v, %v", name, path, r, err)
			}
		}
	}
	for _, c := range []struct {
		from, n int64
		missing bool
	}{{0, 0, true}, {0, 200, false}, {0, 201, true}, {150, 50, false}, {200, 1, true}, {999, 1, true}, {1000, 1, false}, {2000, 0, false}} {
		r, err := l.client.Locate(ctx, &pb.LocateRequest{Path: []byte("/half"), Offset: c.from, Length: c.n})
		if err != nil || r.Located.NoData != c.missing {
			t.Errorf("%d bytes at %d: missing %v, %v; want %v", c.n, c.from, r.GetLocated().GetNoData(), err, c.missing)
		}
	}
}

// A file that is being written ends where its blocks end so far.
func TestTheEndOfAFileThatIsWrittenIsNotMissing(t *testing.T) {
	for _, flags := range []uint8{0, muster.FlagWriting} {
		var f file
		f.cut(&muster.Row{Kind: muster.File, Flags: flags, Length: 1000, Blocks: blocksIn(1, 2)}, wanted{to: 5000})
		if f.noData != (flags == 0) || len(f.in) != 2 {
			t.Errorf("flags %d: %+v", flags, f)
		}
	}
}

// TestWithoutTheServiceCachedAnswersGoOn: what is not cached fails, or is marked in a
// status; and is answered again when the service is back.
func TestWithoutTheServiceCachedAnswersGoOn(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3)
	l.file("/cached", 1)
	l.file("/other", 2)
	l.file("/both", 1, 3)
	ctx := as(t, "root")
	old, err := l.all()["stat"](ctx, "/cached")
	if err != nil {
		t.Fatal(err)
	}
	for _, down := range []error{fmt.Errorf("%w: gone", muster.ErrUnavailable), errors.New("something else"), muster.ErrUnauthenticated} {
		l.change(func() { l.err = down })
		for name, call := range l.all() {
			if name == "lookup" {
				continue
			}
			if r, err := call(ctx, "/cached"); err != nil || len(r.Located.Nodes) != 3 {
				t.Errorf("%s of what is cached: %v, %v", name, r, err)
			}
		}
		for name, call := range l.reading() {
			if _, err := call(ctx, "/other"); !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := l.all()["lookup"](ctx, "/cached"); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("lookup: %v", err)
		}
		seen := old.Located.Containers[0].Seen
		if _, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte("/cached"), Refresh: []*pb.Stale{{Container: 1, Seen: seen}}}); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("refresh: %v", err)
		}
		r, err := l.all()["stat"](ctx, "/both")
		if err != nil || len(r.Located.Containers) != 2 || r.Located.Containers[0].Code != 0 || len(r.Located.Containers[0].Nodes) != 3 ||
			r.Located.Containers[1].Code == 0 || r.Located.Containers[1].Message == "" || len(r.Located.Containers[1].Nodes) != 0 {
			t.Errorf("status of what is half cached: %v, %v", r, err)
		}
	}
	l.change(func() { l.err = nil })
	for name, call := range l.all() {
		for _, path := range []string{"/cached", "/other", "/both"} {
			if r, err := call(ctx, path); err != nil || slices.ContainsFunc(r.Located.Containers, func(c *pb.LocatedContainer) bool { return c.Code != 0 }) {
				t.Errorf("%s %s, the service is back: %v, %v", name, path, r, err)
			}
		}
	}
}

// TestACallEndsWithItsDeadline though the service never answers.
func TestACallEndsWithItsDeadline(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.file("/f", 1)
	hung := make(chan struct{})
	l.change(func() {
		l.before = func(ctx context.Context) error {
			select {
			case <-hung:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	})
	for name, call := range l.all() {
		ctx, cancel := context.WithTimeout(as(t, "root"), 50*time.Millisecond)
		if _, err := call(ctx, "/f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	close(hung)
	for name, call := range l.all() {
		if _, err := call(as(t, "root"), "/f"); err != nil {
			t.Errorf("%s, after that: %v", name, err)
		}
	}
}

// TestNoViewIsHeldWhileACallWaitsForTheService: the tree can be closed, which waits for views.
func TestNoViewIsHeldWhileACallWaitsForTheService(t *testing.T) {
	for _, name := range []string{"stat", "locate", "open", "lookup"} {
		l := startLocated(t)
		l.replicated(1)
		l.file("/f", 1)
		asked, answer, done := make(chan struct{}), make(chan struct{}), make(chan error)
		l.change(func() {
			l.before = func(context.Context) error { close(asked); <-answer; return nil }
		})
		go func() {
			_, err := l.all()[name](as(t, "root"), "/f")
			done <- err
		}()
		<-asked
		if err := l.tree.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		close(answer)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAContainerThatDoesNotExistIsMarked in all calls: the file's other blocks can be read.
func TestAContainerThatDoesNotExistIsMarked(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 3)
	l.file("/f", 1, 2, 3, 4)
	for name, call := range l.all() {
		r, err := call(as(t, "root"), "/f")
		if err != nil || len(r.Located.Containers) != 4 {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		for i, c := range r.Located.Containers {
			if lost := i%2 == 1; lost != (c.Code == uint32(muster.ErrNotFound)) || lost == (len(c.Nodes) == 3) || lost != (c.Message != "") {
				t.Errorf("%s: %v", name, c)
			}
		}
	}
	// One that is unknown for now is another matter.
	l.change(func() { l.failures[2] = fmt.Errorf("%w: no replica has been reported yet", muster.ErrUnavailable) })
	for name, call := range l.reading() {
		if _, err := call(as(t, "root"), "/f"); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is not usable is told, and asked for again the next time (HDDS-9709, HDDS-11209).
func TestWhatIsNotUsableIsAnsweredAndNotKept(t *testing.T) {
	const no = muster.NoNode
	for name, c := range map[string]struct {
		placement muster.Placement
		kept      bool
	}{
		"no replica":       {muster.Placement{Replication: muster.Replicated(3)}, false},
		"a data part gone": {muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, no, 3, 4, 5}}, false},
		"parity gone":      {muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, 2, 3, no, no}}, true},
		"too few told":     {muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, 2}}, false},
	} {
		l := startLocated(t)
		l.change(func() { l.placements[1] = c.placement })
		l.file("/f", 1)
		for _, first := range []bool{true, false} {
			r, err := l.all()["open"](as(t, "root"), "/f")
			if err != nil || r.Located.Containers[0].Code != 0 || len(r.Located.Containers[0].Nodes) != len(c.placement.Nodes) {
				t.Errorf("%s: %v, %v", name, r, err)
			}
			if calls := l.take(); (len(calls) == 0) != (c.kept && !first) {
				t.Errorf("%s (first: %v): asked for %v", name, first, calls)
			}
		}
	}
}

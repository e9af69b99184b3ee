package server

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc/pb"
)

// TestARefreshLoadsWhatItNamesOnce: and whoever names the same answer later gets what was
// loaded since.
func TestARefreshLoadsWhatItNamesOnce(t *testing.T) {
	l := startLocated(t)
	l.replicated(1, 2, 3)
	l.file("/f", 1, 2, 3)
	ctx := as(t, "root")
	open := func(stale ...*pb.Stale) *pb.LocatedReply {
		t.Helper()
		r, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte("/f"), Refresh: stale})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	staleOf := func(r *pb.LocatedReply, i int) *pb.Stale {
		return &pb.Stale{Container: r.Located.Containers[i].Container, Seen: r.Located.Containers[i].Seen}
	}
	first := open()
	l.change(func() {
		for id, p := range l.placements {
			p.Nodes = []muster.NodeNumber{2, 7, 12}
			l.placements[id] = p
		}
	})
	for name, c := range map[string]struct {
		stale []*pb.Stale
		want  [][]uint64
	}{
		"nothing":                    {nil, nil},
		"a container of another one": {[]*pb.Stale{{Container: 99, Seen: make([]byte, locations.SeenBytes)}}, nil},
	} {
		l.take()
		if open(c.stale...); !slices.EqualFunc(l.take(), c.want, slices.Equal) {
			t.Errorf("%s: the service was asked", name)
		}
	}
	l.take()
	second := open(staleOf(first, 1))
	if got := l.take(); !slices.EqualFunc(got, [][]uint64{{2}}, slices.Equal) {
		t.Fatalf("the service was asked for %v, want container 2 alone", got)
	}
	for i, nodes := range orders(second) {
		slices.Sort(nodes)
		if want := [][]int{{1, 6, 11}, {2, 7, 12}, {1, 6, 11}}[i]; !slices.Equal(nodes, want) {
			t.Errorf("block %d is on %v, want %v", i, nodes, want)
		}
	}
	for range 100 { // others who had the first answer
		open(staleOf(first, 1))
	}
	if got := l.take(); len(got) > 0 {
		t.Errorf("the service was asked for %v once more", got)
	}
	// What is stale and what is missing are one call.
	l.replicated(4, 5)
	l.file("/g", 4, 3, 5)
	l.take()
	if _, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte("/g"), Refresh: []*pb.Stale{staleOf(first, 2)}}); err != nil {
		t.Fatal(err)
	}
	if got := l.take(); !slices.EqualFunc(got, [][]uint64{{3, 4, 5}}, slices.Equal) {
		t.Errorf("the service was asked for %v, want one call for all", got)
	}
	// Two marks of one container: the newer one counts, wherever it stands.
	for _, reverse := range []bool{false, true} {
		marks := []*pb.Stale{staleOf(first, 1), staleOf(open(), 1)}
		if reverse {
			slices.Reverse(marks)
		}
		l.take()
		open(marks...)
		if got := l.take(); !slices.EqualFunc(got, [][]uint64{{2}}, slices.Equal) {
			t.Errorf("the service was asked for %v, want container 2", got)
		}
	}
}

func TestARefreshThatIsNoneIsRefused(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.file("/f", 1)
	for name, stale := range map[string][]*pb.Stale{
		"short mark": {{Container: 1, Seen: []byte("short")}},
		"no mark":    {{Container: 1}},
		"no message": {nil},
	} {
		if _, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Refresh: stale}); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	seen := make([]byte, locations.SeenBytes)
	if _, err := l.client.Lookup(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Refresh: []*pb.Stale{{Container: 1, Seen: seen}}}); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("lookup: %v", err)
	}
	many := make([]*pb.Stale, muster.MaxBlocks+1)
	for i := range many {
		many[i] = &pb.Stale{Container: uint64(i), Seen: seen}
	}
	if _, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Refresh: many}); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("too many: %v", err)
	}
	if got := l.take(); len(got) > 0 {
		t.Errorf("the service was asked for %v", got)
	}
}

// TestAStormOfRefreshes: when a datanode dies, the service is asked for each of its
// containers once, not once by each reader; whether they come at once or one after another.
func TestAStormOfRefreshes(t *testing.T) {
	const containers, openers = 10, 1000
	for _, atOnce := range []bool{true, false} {
		l := startLocated(t)
		ids := make([]uint64, containers)
		for i := range ids {
			ids[i] = uint64(i + 1)
			l.file(fmt.Sprintf("/f%d", i), ids[i])
		}
		l.replicated(ids...)
		open := func(i int, refresh ...*pb.Stale) (*pb.LocatedReply, error) {
			return l.client.Open(as(t, "root"), &pb.OpenRequest{Path: fmt.Appendf(nil, "/f%d", i%containers), Refresh: refresh})
		}
		stale := make([]*pb.Stale, containers)
		for i := range stale {
			r, err := open(i)
			if err != nil {
				t.Fatal(err)
			}
			stale[i] = &pb.Stale{Container: ids[i], Seen: r.Located.Containers[0].Seen}
		}
		l.change(func() { // node 1 dies
			for id, p := range l.placements {
				p.Nodes = []muster.NodeNumber{6, 11}
				l.placements[id] = p
			}
		})
		l.take()
		var all sync.WaitGroup
		reopen := func(i int) {
			r, err := open(i, stale[i%containers])
			if err != nil || len(r.Located.Containers[0].Nodes) != 2 {
				t.Errorf("opener %d: %v, %v", i, r, err)
			}
		}
		for i := range openers {
			if atOnce {
				all.Go(func() { reopen(i) })
			} else {
				reopen(i)
			}
		}
		all.Wait()
		asked := map[uint64]int{}
		for _, call := range l.take() {
			for _, id := range call {
				asked[id]++
			}
		}
		for _, id := range ids {
			if asked[id] != 1 {
				t.Errorf("at once %v: the service was asked %d times for container %d", atOnce, asked[id], id)
			}
		}
	}
}

package server

import (
	"fmt"
	"slices"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// TestSilentNodesComeLast in the answers of all calls and in listings, wherever they are: stale
// ones after the rest, dead ones after those; others by distance, draining ones among them.
func TestSilentNodesComeLast(t *testing.T) {
	l := startLocated(t)
	l.nodes[1].State, l.nodes[2].State, l.nodes[3].State, l.nodes[6].State = muster.Dead, muster.Stale, muster.Draining, muster.Maintenance
	l.change(func() {
		nodes := []muster.NodeNumber{1, 2, 3, 6, 11, 15}
		l.placements[1] = muster.Placement{Replication: muster.Replicated(6), Nodes: nodes}
		l.placements[2] = muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, 2, 3, muster.NoNode, 6}}
	})
	l.file("/d/f", slices.Repeat([]uint64{1}, 50)...)
	l.file("/coded", slices.Repeat([]uint64{2}, 50)...)
	ctx := as(t, "root")
	check := func(name string, order []int) {
		t.Helper()
		// The reader is in the rack of nodes 1 to 3.
		if middle := slices.Sorted(slices.Values(order[1:4])); order[0] != 3 || !slices.Equal(middle, []int{6, 11, 15}) || order[4] != 2 || order[5] != 1 {
			t.Fatalf("%s: %v", name, order)
		}
	}
	open := func(path string) *pb.LocatedReply {
		r, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte(path), Reader: "/r0"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	replies := map[string]*pb.LocatedReply{"open": open("/d/f")}
	var err error
	if replies["locate"], err = l.client.Locate(ctx, &pb.LocateRequest{Path: []byte("/d/f"), Reader: "/r0"}); err != nil {
		t.Fatal(err)
	}
	if replies["lookup"], err = l.client.Lookup(ctx, &pb.OpenRequest{Path: []byte("/d/f"), Reader: "/r0"}); err != nil {
		t.Fatal(err)
	}
	stat, err := l.client.Stat(ctx, &pb.PathRequest{Path: []byte("/d/f"), Located: true, Sorted: true, Reader: "/r0"})
	if err != nil {
		t.Fatal(err)
	}
	replies["stat"] = &pb.LocatedReply{Entry: stat, Located: stat.Located}
	for name, r := range replies {
		for _, order := range orders(r) {
			check(name, order)
		}
	}
	for name, list := range l.listings() {
		replies, err := list(ctx, &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_MUST, Sorted: true, Reader: "/r0"}, "/d")
		if err != nil {
			t.Fatal(err)
		}
		for _, hosts := range hostsOf(t, replies)[0] {
			order := make([]int, len(hosts))
			for i, host := range hosts {
				if _, err := fmt.Sscanf(host, "dn%d", &order[i]); err != nil {
					t.Fatal(err)
				}
			}
			check(name, order)
		}
	}
	for _, order := range orders(open("/coded")) {
		if !slices.Equal(order, []int{3, 6, 2, 1, -1}) {
			t.Fatalf("coded: %v", order)
		}
	}
}

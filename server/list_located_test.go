package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// listings list paths with locations by a page and by a stream: all replies.
func (l *located) listings() map[string]func(ctx context.Context, o *pb.ListOptions, paths ...string) ([]*pb.ListReply, error) {
	pack := func(paths []string) (packed []byte) {
		prev := ""
		for _, p := range paths {
			packed, prev = rpc.AppendPath(packed, prev, p), p
		}
		return packed
	}
	return map[string]func(ctx context.Context, o *pb.ListOptions, paths ...string) ([]*pb.ListReply, error){
		"page": func(ctx context.Context, o *pb.ListOptions, paths ...string) ([]*pb.ListReply, error) {
			m, err := l.client.ListPage(ctx, &pb.ListPageRequest{Options: o, Paths: pack(paths), Count: uint32(len(paths))})
			return []*pb.ListReply{m}, err
		},
		"stream": func(ctx context.Context, o *pb.ListOptions, paths ...string) (all []*pb.ListReply, err error) {
			s, err := l.client.List(ctx)
			if err != nil {
				return nil, err
			}
			defer s.Close()
			if err := s.Send(&pb.ListRequest{Options: o, Paths: pack(paths), Count: uint32(len(paths)), Last: true}); err != nil {
				return nil, err
			}
			for {
				m, err := s.Recv()
				if errors.Is(err, io.EOF) {
					return all, nil
				}
				if err != nil {
					return all, err
				}
				all = append(all, m)
			}
		},
	}
}

// hostsOf gives the hosts of each block of each row; nil is unknown.
func hostsOf(t testing.TB, replies []*pb.ListReply) (all [][][]string) {
	t.Helper()
	var table []*pb.Node
	for _, m := range replies {
		table = append(table, m.Nodes...)
		b, err := rows.Decode(m.Frame, rows.DefaultColumns|rows.LocatedColumns)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len() {
			var blocks [][]string
			for k := range b.NumBlocks(i) {
				var hosts []string
				if nodes, known := b.Nodes(i, k); known {
					hosts = make([]string, nodes.Len())
					for j := range hosts {
						if at, present := nodes.At(j); present {
							hosts[j] = table[at].Host
						}
					}
				}
				blocks = append(blocks, hosts)
			}
			all = append(all, blocks)
		}
	}
	return all
}

func TestListingsTellLocationsOverTheWire(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.change(func() {
		l.placements[2] = muster.Placement{Replication: rs32, Nodes: []muster.NodeNumber{1, 5, 9, muster.NoNode, 13}}
	})
	l.file("/d/a", 1, 99)
	l.file("/d/b", 2)
	for name, list := range l.listings() {
		replies, err := list(as(t, "root"), &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_HINT}, "/d")
		if err != nil {
			t.Fatal(name, err)
		}
		want := [][][]string{{{"dn1", "dn6", "dn11"}, nil}, {{"dn1", "dn5", "dn9", "", "dn13"}}}
		if got := hostsOf(t, replies); fmt.Sprint(got) != fmt.Sprint(want) || got[0][1] != nil {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if n := replies[0].Nodes; len(n) != 6 || n[0].Id != "node-1" || n[0].Port != 9866 || n[0].Rack != "/r0" {
			t.Errorf("%s: nodes %v", name, n)
		}
	}
	if calls := l.take(); len(calls) > 3 || slices.Equal(calls[0], []uint64{99}) {
		t.Errorf("calls %v", calls)
	}
	bad := &pb.ListOptions{Locations: 7}
	for name, list := range l.listings() {
		if _, err := list(as(t, "root"), bad, "/d"); !errors.Is(rpc.FromWire(err), muster.ErrInvalid) {
			t.Errorf("%s: unknown option: %v", name, err)
		}
	}
}

// Who reads is whom the call names, else where it comes from.
func TestListingsAreSortedForTheCaller(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	l.file("/d/f", slices.Repeat([]uint64{1}, 1000)...)
	nodes := testNodes()
	nodes[6].Address = net.IPv4(127, 0, 0, 1).String()
	l.swap(nodes)
	for name, list := range l.listings() {
		for reader, first := range map[string]string{"": "dn6", "/r2": "dn11", "dn1": "dn1"} {
			replies, err := list(as(t, "root"), &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_MUST, Sorted: true, Reader: reader}, "/d")
			if err != nil {
				t.Fatal(err)
			}
			for _, hosts := range hostsOf(t, replies)[0] {
				if hosts[0] != first {
					t.Fatalf("%s for reader %q: %q", name, reader, hosts)
				}
			}
		}
	}
}

func TestListingsEndAtTheDeadlineOfTheCall(t *testing.T) {
	l := startLocated(t)
	l.file("/d/f", 1)
	l.change(func() { l.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } })
	for name, list := range l.listings() {
		ctx, cancel := context.WithTimeout(as(t, "root"), 100*time.Millisecond)
		_, err := list(ctx, &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_HINT}, "/d")
		if code := muster.CodeOf(rpc.FromWire(err)); code != muster.ErrDeadline {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// A server that asks the service each time tells the same.
func TestDirectPlacesAreThoseOfTheCache(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	d := direct{l.cache, l.source}
	for range 2 {
		var out [2]locations.Located
		if err := d.Get(t.Context(), []uint64{1, 99}, out[:]); err != nil {
			t.Fatal(err)
		}
		if out[0].Err != nil || len(out[0].Placement.Nodes) != 3 || !errors.Is(out[1].Err, muster.ErrNotFound) || d.Node(out[0].Placement.Nodes[2]).Host != "dn11" {
			t.Errorf("%+v", out)
		}
	}
	if calls := l.take(); len(calls) != 2 {
		t.Errorf("%d calls", len(calls))
	}
	l.change(func() { l.err = muster.ErrUnavailable })
	var out [1]locations.Located
	if err := d.Get(t.Context(), []uint64{1}, out[:]); err != nil || !errors.Is(out[0].Err, muster.ErrUnavailable) {
		t.Errorf("the service is down: %+v, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Get(ctx, []uint64{1}, out[:]); !errors.Is(err, context.Canceled) {
		t.Errorf("the call has ended: %v", err)
	}
}

// The largest file there is, as wide as coding makes it, is listed by either call.
func TestTheLargestFileIsListedWithLocations(t *testing.T) {
	l := startLocated(t)
	wide, err := muster.ParseReplication("ec/rs-10-4")
	if err != nil {
		t.Fatal(err)
	}
	containers := make([]uint64, muster.MaxBlocks)
	nodes := []muster.NodeNumber{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, muster.NoNode, 13}
	l.change(func() {
		for i := range containers {
			containers[i] = uint64(i)
			l.placements[uint64(i)] = muster.Placement{Replication: wide, Closed: true, Nodes: nodes}
		}
	})
	l.apply(muster.Create{Path: "/d/f", Mode: 0o644, Parents: true, Replication: wide, BlockSize: 100, Length: 100 * muster.MaxBlocks, Blocks: blocksIn(containers...)})
	l.file("/d/g", 1)
	for name, list := range l.listings() {
		replies, err := list(as(t, "root"), &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_MUST}, "/d")
		if err != nil {
			t.Fatal(name, err)
		}
		blocks := hostsOf(t, replies)[0]
		if len(blocks) != muster.MaxBlocks || len(blocks[9999]) != 14 || blocks[9999][13] != "dn13" || blocks[9999][12] != "" {
			t.Errorf("%s: %d blocks", name, len(blocks))
		}
		if name == "stream" && !replies[len(replies)-1].Done {
			t.Error("the stream is not complete")
		}
	}
}

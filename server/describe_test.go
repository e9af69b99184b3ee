package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc/pb"
)

// TestTheReadersRackComesFirst in each of 1,000 answers of each call and listing, by whatever
// the reader is named, while the topology is swapped in each call.
func TestTheReadersRackComesFirst(t *testing.T) {
	l := startLocated(t)
	l.change(func() {
		l.placements[1] = muster.Placement{Replication: muster.Replicated(3), Nodes: []muster.NodeNumber{9, 6, 2}} // racks 2, 1, 0
		l.placements[2] = muster.Placement{Replication: muster.Replicated(3), Nodes: []muster.NodeNumber{0, 5, 7}} // racks 0, 1, 1
	})
	l.file("/f", 1, 2)
	begun := make(chan struct{}, 1)
	trees := []*topology.Tree{treeOf(t, testNodes()), treeOf(t, testNodes()[:12])}
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			if _, more := <-begun; !more {
				return
			}
			l.topology.Swap(trees[i%len(trees)])
		}
	})
	defer swapping.Wait()
	defer close(begun)
	readers := []string{"/r1", "dn4", "10.1.2.3", "node-5"}
	for name, call := range l.sorting(t) {
		for i := range 1000 {
			begun <- struct{}{}
			reader := readers[i%len(readers)]
			o, err := call("/f", reader)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if o[0][0] != 6 || o[1][2] != 0 || reader == "node-5" && o[1][0] != 5 {
				t.Fatalf("%s from %s: order %v", name, reader, o)
			}
		}
	}
}

// sorting are the calls that sort replicas: they give the nodes of each block of a file.
func (l *located) sorting(t *testing.T) map[string]func(path, reader string) ([][]int, error) {
	ctx := as(t, "root")
	of := func(located *pb.Located, err error) ([][]int, error) {
		if err != nil {
			return nil, err
		}
		return orders(&pb.LocatedReply{Located: located}), nil
	}
	calls := map[string]func(path, reader string) ([][]int, error){
		"stat": func(path, reader string) ([][]int, error) {
			r, err := l.client.Stat(ctx, &pb.PathRequest{Path: []byte(path), Located: true, Sorted: true, Reader: reader})
			return of(r.GetLocated(), err)
		},
		"locate": func(path, reader string) ([][]int, error) {
			r, err := l.client.Locate(ctx, &pb.LocateRequest{Path: []byte(path), Reader: reader})
			return of(r.GetLocated(), err)
		},
		"open": func(path, reader string) ([][]int, error) {
			r, err := l.client.Open(ctx, &pb.OpenRequest{Path: []byte(path), Reader: reader})
			return of(r.GetLocated(), err)
		},
		"lookup": func(path, reader string) ([][]int, error) {
			r, err := l.client.Lookup(ctx, &pb.OpenRequest{Path: []byte(path), Reader: reader})
			return of(r.GetLocated(), err)
		},
	}
	for name, list := range l.listings() {
		calls[name] = func(path, reader string) (all [][]int, err error) {
			replies, err := list(ctx, &pb.ListOptions{Locations: pb.WithLocations_WITH_LOCATIONS_MUST, Sorted: true, Reader: reader}, path)
			if err != nil {
				return nil, err
			}
			for _, hosts := range hostsOf(t, replies)[0] {
				nodes := make([]int, len(hosts))
				for i, host := range hosts {
					if _, err := fmt.Sscanf(host, "dn%d", &nodes[i]); err != nil {
						return nil, err
					}
				}
				all = append(all, nodes)
			}
			return all, nil
		}
	}
	return calls
}

// TestTheReaderIsWhereTheCallComesFrom unless it is named.
func TestTheReaderIsWhereTheCallComesFrom(t *testing.T) {
	l := startLocated(t)
	nodes := testNodes()
	nodes[11].Address = "127.0.0.1"
	l.change(func() { l.nodes = nodes })
	l.swap(nodes)
	l.replicated(1) // on 1, 6 and 11
	l.file("/f", 1)
	for range 100 {
		for reader, first := range map[string]int{"": 11, "/r0": 1} {
			r, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Reader: reader})
			if err != nil || orders(r)[0][0] != first {
				t.Fatalf("reader %q: %v, %v", reader, orders(r), err)
			}
		}
	}
}

// TestBlocksThatLieTogetherHaveOrdersOfTheirOwn: no node is the first choice for much more
// than its share of blocks that are as far from it.
func TestBlocksThatLieTogetherHaveOrdersOfTheirOwn(t *testing.T) {
	l := startLocated(t)
	l.replicated(1)
	const blocks = 3000
	l.file("/f", slices.Repeat([]uint64{1}, blocks)...)
	for _, reader := range []string{"", "/r3", "unknown"} {
		r, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Reader: reader})
		if err != nil || len(r.Located.Containers) != 1 {
			t.Fatal(err)
		}
		first := map[int]int{}
		for _, o := range orders(r) {
			first[o[0]]++
			if s := slices.Sorted(slices.Values(o)); !slices.Equal(s, []int{1, 6, 11}) {
				t.Fatalf("order %v", o)
			}
		}
		for n, count := range first {
			if count < blocks/4 || count > blocks/2 {
				t.Errorf("reader %q: node %d is the first of %d blocks of %d", reader, n, count, blocks)
			}
		}
	}
	// What is cached was sorted for nobody.
	r, err := l.client.Open(as(t, "root"), &pb.OpenRequest{Path: []byte("/f"), Unsorted: true})
	if err != nil || !slices.Equal(orders(r)[0], []int{1, 6, 11}) {
		t.Errorf("%v, %v", orders(r)[:1], err)
	}
}

// TestAFileOfAsManyBlocksAsThereCanBe is answered at once, each in a container of its own.
func TestAFileOfAsManyBlocksAsThereCanBe(t *testing.T) {
	l := startLocated(t)
	containers := make([]uint64, muster.MaxBlocks)
	for i := range containers {
		containers[i] = uint64(1_000_000 + i)
	}
	l.replicated(containers...)
	l.file("/many", containers...)
	for name, call := range l.all() {
		r, err := call(as(t, "root"), "/many")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := containersOf(r); !slices.Equal(got, containers) || r.Located.Next != 0 || len(r.Located.Nodes) != 3 {
			t.Errorf("%s: %d blocks, next %d, %d nodes", name, len(got), r.Located.Next, len(r.Located.Nodes))
		}
		if n := proto.Size(r.Located) + proto.Size(&pb.EntryReply{Blocks: r.Entry.Blocks}); n > 500_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
	if calls := l.take(); len(calls[0]) != muster.MaxBlocks {
		t.Errorf("%d calls, the first for %d containers", len(calls), len(calls[0]))
	}
}

// TestAnAnswerThatIsTooLongComesInPieces: none of them is over 1 MiB, each goes on where
// the one before was cut, and none is without a block.
func TestAnAnswerThatIsTooLongComesInPieces(t *testing.T) {
	t.Run("plain", func(t *testing.T) { startLocated(t).answerInPieces(t) })
	t.Run("signed", func(t *testing.T) {
		l, _ := startSigning(t)
		l.answerInPieces(t)
	})
}

func (l *located) answerInPieces(t *testing.T) {
	const blocks, width = 2000, 14
	coded, err := muster.ParseReplication("ec/rs-10-4")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 40)
	containers := make([]uint64, blocks)
	l.change(func() {
		l.nodes = nil
		for i := range containers {
			containers[i] = 1<<63 + uint64(i)
			p := muster.Placement{Replication: coded}
			for range width {
				n := muster.NodeNumber(len(l.nodes))
				l.nodes = append(l.nodes, muster.Node{Number: n, ID: fmt.Sprintf("%d-%s", n, long), Host: fmt.Sprintf("%s-%d.example", long, n), Rack: "/" + long})
				p.Nodes = append(p.Nodes, n)
			}
			l.placements[containers[i]] = p
		}
	})
	l.apply(muster.Create{Path: "/f", Length: 100 * blocks, Replication: coded, Blocks: blocksIn(containers...)})
	path := []byte("/f")
	for name, call := range map[string]func(ctx context.Context, first uint32) (*pb.LocatedReply, error){
		"stat": func(ctx context.Context, first uint32) (*pb.LocatedReply, error) {
			r, err := l.client.Stat(ctx, &pb.PathRequest{Path: path, Located: true, First: first})
			if err != nil {
				return nil, err
			}
			reply := &pb.LocatedReply{Entry: r, Located: r.Located}
			r.Located = nil // the same again
			return reply, nil
		},
		"locate": func(ctx context.Context, first uint32) (*pb.LocatedReply, error) {
			return l.client.Locate(ctx, &pb.LocateRequest{Path: path, Offset: 550, Length: 100*blocks - 600, First: first})
		},
		"open": func(ctx context.Context, first uint32) (*pb.LocatedReply, error) {
			return l.client.Open(ctx, &pb.OpenRequest{Path: path, First: first})
		},
		"lookup": func(ctx context.Context, first uint32) (*pb.LocatedReply, error) {
			return l.client.Lookup(ctx, &pb.OpenRequest{Path: path, First: first})
		},
	} {
		want := containers
		if name == "locate" {
			want = containers[5:]
		}
		var got []uint64
		pieces := 0
		for first := uint32(0); first > 0 || pieces == 0; pieces++ {
			r, err := call(as(t, "root"), first)
			if err != nil {
				t.Fatalf("%s from %d: %v", name, first, err)
			}
			if n := proto.Size(r); n > 1<<20 {
				t.Errorf("%s from %d: %d bytes", name, first, n)
			} else if n < 1<<20-128<<10 && r.Located.Next > 0 {
				t.Errorf("%s from %d: cut at %d bytes", name, first, n)
			}
			part := containersOf(r)
			if len(part) == 0 || r.Located.Offset != int64(100*(len(got)+blocks-len(want))) || len(r.Located.Nodes) != width*len(part) {
				t.Fatalf("%s from %d: %d blocks at %d, %d nodes", name, first, len(part), r.Located.Offset, len(r.Located.Nodes))
			}
			got = append(got, part...)
			first = r.Located.Next
		}
		if !slices.Equal(got, want) || pieces < 4 {
			t.Errorf("%s: %d blocks in %d pieces", name, len(got), pieces)
		}
	}
}

// The words for what is unknown are told once if they are the same.
func TestWhatIsUnknownForOneReasonIsNotSaidTenThousandTimes(t *testing.T) {
	l := startLocated(t)
	containers := make([]uint64, muster.MaxBlocks)
	for i := range containers {
		containers[i] = uint64(1_000_000 + i)
	}
	l.file("/f", containers...)
	l.change(func() { l.err = fmt.Errorf("%w: %s", muster.ErrUnavailable, strings.Repeat("what a pity ", 100)) })
	r, err := l.all()["stat"](as(t, "root"), "/f")
	if err != nil || r.Located.Next != 0 || len(r.Located.Containers) != muster.MaxBlocks {
		t.Fatalf("next %d, %v", r.GetLocated().GetNext(), err)
	}
	for i, c := range r.Located.Containers {
		if c.Code != uint32(muster.ErrUnavailable) || (c.Message != "") != (i == 0) {
			t.Fatalf("container %d: %v", i, c)
		}
	}
}

func TestPositionsCountKeysInTheirOrder(t *testing.T) {
	for _, n := range []int{0, 1, few, few + 1, few + 2, 1000} {
		var p positions[uint64]
		for range 2 {
			for i := range n {
				if at := p.of(uint64(7 * i)); at != uint32(i) {
					t.Fatalf("key %d of %d is at %d", i, n, at)
				}
			}
		}
		if _, ok := p.find(3); ok || len(p.keys) != n {
			t.Errorf("%d keys: %d are there", n, len(p.keys))
		}
	}
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc/pb"
)

// locator is a server that answers calls with locations as it is told.
type locator struct {
	liar
	answer func(first uint32) (*pb.LocatedReply, error)
	reader atomic.Value // of the last call
	stale  atomic.Value // of the last Open
}

func (l *locator) Stat(_ context.Context, r *pb.PathRequest) (*pb.EntryReply, error) {
	l.reader.Store(r.Reader)
	m, err := l.answer(r.First)
	if err != nil {
		return nil, err
	}
	e := proto.CloneOf(m.Entry)
	e.Located = m.Located
	return e, nil
}

func (l *locator) Locate(_ context.Context, r *pb.LocateRequest) (*pb.LocatedReply, error) {
	l.reader.Store(r.Reader)
	return l.answer(r.First)
}

func (l *locator) Open(_ context.Context, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	l.reader.Store(r.Reader)
	l.stale.Store(r.Refresh)
	return l.answer(r.First)
}

func (l *locator) Lookup(_ context.Context, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	l.reader.Store(r.Reader)
	return l.answer(r.First)
}

// newLocator runs a locator and returns a client of it.
func newLocator(t *testing.T, o client.Options, answer func(first uint32) (*pb.LocatedReply, error)) (*locator, *client.Client) {
	t.Helper()
	l := &locator{liar: liar{schema: rows.SchemaVersion}, answer: answer}
	_, addr := serveAs(t, l, pb.DRPCNamespaceDescription{})
	return l, dial(t, addr, o)
}

// callsOf are the calls with locations of a client.
func callsOf(c *client.Client) map[string]func(ctx context.Context, path string) (client.Located, error) {
	return map[string]func(ctx context.Context, path string) (client.Located, error){
		"stat":   c.StatLocated,
		"locate": func(ctx context.Context, path string) (client.Located, error) { return c.Locate(ctx, path, 0, 0) },
		"open":   func(ctx context.Context, path string) (client.Located, error) { return c.OpenLocated(ctx, path) },
		"lookup": c.Lookup,
	}
}

var rs21, _ = muster.ParseReplication("ec/rs-2-1")

// soundReply is about two replicated blocks, one erasure-coded with a replica absent, and one
// of which nothing is known.
func soundReply() *pb.LocatedReply {
	node := func(n uint32) *pb.Node {
		return &pb.Node{Number: n, Id: fmt.Sprint("id", n), Host: fmt.Sprint("dn", n), Rack: "/r", Port: 1}
	}
	return &pb.LocatedReply{
		Entry: &pb.EntryReply{InodeId: 7, Kind: uint32(muster.File), Length: 310, Blocks: []*pb.Block{
			{Container: 5, LocalId: 1, Length: 100}, {Container: 6, LocalId: 2, Length: 100}, {Container: 5, LocalId: 3, Length: 100}, {Container: 8, LocalId: 4, Length: 10},
		}},
		Located: &pb.Located{
			Placements: []uint32{0, 1, 0, 2},
			Containers: []*pb.LocatedContainer{
				{Container: 5, Replication: uint32(muster.Replicated(2)), Nodes: []uint32{1, 2}, Seen: []byte("five")},
				{Container: 6, Replication: uint32(rs21), Nodes: []uint32{3, 0, 1}, Seen: []byte("six")},
				{Container: 8, Code: uint32(muster.ErrUnavailable), Message: "not now", Seen: []byte("eight")},
			},
			Nodes: []*pb.Node{node(10), node(11), node(12)},
			Order: []byte{0, 1, 2, 0, 1, 1, 0},
		},
	}
}

func describe(l client.Located) (lines []string) {
	for _, b := range l.Blocks {
		line := fmt.Sprintf("%d+%d %d/%d %v:", b.Offset, b.Length, b.Container, b.LocalID, b.Replication)
		for _, r := range b.Replicas {
			line += fmt.Sprintf(" %s#%d", r.Host, r.Index)
		}
		if b.Err != nil {
			line += " " + muster.CodeOf(b.Err).Name() + " " + b.Err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

func TestBlocksComeWithTheirReplicasInOrder(t *testing.T) {
	reply := soundReply()
	reply.Located.Offset = 1000
	l, c := newLocator(t, client.Options{Reader: "/r1"}, func(uint32) (*pb.LocatedReply, error) { return reply, nil })
	want := []string{
		"1000+100 5/1 replicated/2: dn10#0 dn11#0",
		"1100+100 6/2 ec/rs-2-1: dn10#3 dn12#1",
		"1200+100 5/3 replicated/2: dn11#0 dn10#0",
		"1300+10 8/4 : UNAVAILABLE not now",
	}
	for name, call := range callsOf(c) {
		got, err := call(t.Context(), "/f//")
		if err != nil || !slices.Equal(describe(got), want) {
			t.Errorf("%s: %q, %v", name, describe(got), err)
		}
		if got.Path != "/f" || got.Size() != 310 || got.Entry.ID != 7 || len(got.Entry.Blocks) != 4 || got.NoData || l.reader.Load() != "/r1" {
			t.Errorf("%s: %+v from %v", name, got.Info, l.reader.Load())
		}
	}
	got, err := c.StatLocated(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenLocated(t.Context(), "/f", got.Blocks[1].Stale(), got.Blocks[3].Stale()); err != nil {
		t.Fatal(err)
	}
	refresh := l.stale.Load().([]*pb.Stale)
	if len(refresh) != 2 || refresh[0].Container != 6 || string(refresh[0].Seen) != "six" || refresh[1].Container != 8 || string(refresh[1].Seen) != "eight" {
		t.Errorf("refreshed %v", refresh)
	}
	reply.Located.Order = nil // as they were placed
	if got, err := c.Lookup(t.Context(), "/f"); err != nil || describe(got)[1] != "1100+100 6/2 ec/rs-2-1: dn12#1 dn10#3" {
		t.Errorf("%q, %v", describe(got), err)
	}
}

func TestALocatedAnswerThatIsNoneIsCorrupt(t *testing.T) {
	for name, spoil := range map[string]func(r *pb.LocatedReply){
		"no entry":                     func(r *pb.LocatedReply) { r.Entry = nil },
		"fewer places than blocks":     func(r *pb.LocatedReply) { r.Located.Placements = r.Located.Placements[:3] },
		"more places than blocks":      func(r *pb.LocatedReply) { r.Entry.Blocks = r.Entry.Blocks[:3] },
		"place past the containers":    func(r *pb.LocatedReply) { r.Located.Placements[1] = 3 },
		"place of another container":   func(r *pb.LocatedReply) { r.Located.Placements[1] = 0; r.Located.Order = nil },
		"node past the nodes":          func(r *pb.LocatedReply) { r.Located.Containers[0].Nodes[0] = 4 },
		"node that is none":            func(r *pb.LocatedReply) { r.Located.Nodes[0].Host = "" },
		"no replication":               func(r *pb.LocatedReply) { r.Located.Containers[0].Replication = 0 },
		"unknown replication":          func(r *pb.LocatedReply) { r.Located.Containers[0].Replication = 0x0300 },
		"large replication":            func(r *pb.LocatedReply) { r.Located.Containers[0].Replication += 1 << 16 },
		"more replicas than orders go": func(r *pb.LocatedReply) { r.Located.Containers[0].Nodes = make([]uint32, 256) },
		"short order":                  func(r *pb.LocatedReply) { r.Located.Order = r.Located.Order[:6] },
		"long order":                   func(r *pb.LocatedReply) { r.Located.Order = append(r.Located.Order, 0) },
		"order with one twice":         func(r *pb.LocatedReply) { r.Located.Order[1] = 0 },
		"order past the replicas":      func(r *pb.LocatedReply) { r.Located.Order[1] = 2 },
		"goes on where it began":       func(r *pb.LocatedReply) { r.Located.Next = 1; r.Entry.Blocks, r.Located.Placements = nil, nil },
	} {
		reply := soundReply()
		spoil(reply)
		_, c := newLocator(t, client.Options{}, func(uint32) (*pb.LocatedReply, error) { return reply, nil })
		for call, f := range callsOf(c) {
			if name == "no entry" && call == "stat" {
				continue
			}
			var pe *fs.PathError
			if _, err := f(t.Context(), "/f"); !errors.Is(err, muster.ErrCorrupt) || !errors.As(err, &pe) || pe.Path != "/f" || pe.Op != call {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
}

// inPieces answers one block at a time; change may change a piece.
func inPieces(change func(first uint32, r *pb.LocatedReply)) func(first uint32) (*pb.LocatedReply, error) {
	return func(first uint32) (*pb.LocatedReply, error) {
		r := soundReply()
		r.Located.Order = nil
		r.Located.Offset = int64(100 * first)
		r.Entry.Blocks, r.Located.Placements = r.Entry.Blocks[first:first+1], r.Located.Placements[first:first+1]
		if r.Located.Next = first + 1; first == 3 {
			r.Located.Next = 0
		}
		change(first, r)
		return r, nil
	}
}

func TestAnAnswerInPiecesIsPutTogether(t *testing.T) {
	_, c := newLocator(t, client.Options{}, func(uint32) (*pb.LocatedReply, error) {
		r := soundReply()
		r.Located.Order = nil
		return r, nil
	})
	whole, err := c.Lookup(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	_, c = newLocator(t, client.Options{}, inPieces(func(uint32, *pb.LocatedReply) {}))
	for name, call := range callsOf(c) {
		got, err := call(t.Context(), "/f")
		if err != nil || !slices.Equal(describe(got), describe(whole)) || len(got.Entry.Blocks) != 4 {
			t.Errorf("%s: %q, %v", name, describe(got), err)
		}
	}
}

func TestPiecesOfTwoStatesAreAskedForAgain(t *testing.T) {
	var calls atomic.Int64
	_, c := newLocator(t, client.Options{}, inPieces(func(first uint32, r *pb.LocatedReply) {
		if n := calls.Add(1); n <= 3 { // replaced before the third call
			r.Entry.InodeId += uint64(n / 3)
		} else {
			r.Entry.InodeId++
		}
	}))
	got, err := c.Lookup(t.Context(), "/f")
	if err != nil || len(got.Blocks) != 4 || got.Entry.ID != 8 || calls.Load() != 3+4 {
		t.Errorf("%d blocks of inode %d after %d calls, %v", len(got.Blocks), got.Entry.ID, calls.Load(), err)
	}
	var always atomic.Int64
	for name, change := range map[string]func(r *pb.LocatedReply){
		"inode":  func(r *pb.LocatedReply) { r.Entry.InodeId = uint64(always.Add(1)) },
		"length": func(r *pb.LocatedReply) { r.Entry.Length = always.Add(1) },
		"mtime":  func(r *pb.LocatedReply) { r.Entry.Mtime = always.Add(1) },
	} {
		_, c = newLocator(t, client.Options{}, inPieces(func(_ uint32, r *pb.LocatedReply) { change(r) }))
		if _, err := c.Lookup(t.Context(), "/f"); !errors.Is(err, muster.ErrChanged) {
			t.Errorf("another %s each time: %v", name, err)
		}
	}
}

func TestPiecesThatDoNotFitAreCorrupt(t *testing.T) {
	for name, change := range map[string]func(r *pb.LocatedReply){
		"the same again": func(r *pb.LocatedReply) { r.Located.Next = 2 },
		"back":           func(r *pb.LocatedReply) { r.Located.Next = 1 },
		"a gap":          func(r *pb.LocatedReply) { r.Located.Offset++ },
	} {
		_, c := newLocator(t, client.Options{}, inPieces(func(first uint32, r *pb.LocatedReply) {
			if first == 2 {
				change(r)
			}
		}))
		if _, err := c.Lookup(t.Context(), "/f"); !errors.Is(err, muster.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEndlessAnswerEnds(t *testing.T) {
	_, c := newLocator(t, client.Options{}, func(first uint32) (*pb.LocatedReply, error) {
		r := soundReply()
		r.Located.Order, r.Located.Offset = nil, int64(100*first)
		r.Entry.Blocks = slices.Repeat(r.Entry.Blocks[:1], 1000)
		r.Located.Placements = make([]uint32, 1000)
		r.Located.Next = first + 1000
		return r, nil
	})
	if _, err := c.Lookup(t.Context(), "/f"); !errors.Is(err, muster.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatKnowsNoLocationsIsNamed(t *testing.T) {
	_, c := newLocator(t, client.Options{}, func(uint32) (*pb.LocatedReply, error) {
		r := soundReply()
		r.Located = nil
		return r, nil
	})
	for name, call := range callsOf(c) {
		if _, err := call(t.Context(), "/f"); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), "older") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReaderThatIsNoPlaceIsRefused(t *testing.T) {
	for _, reader := range []string{"a b", "/a/../b", "a/b", strings.Repeat("h", 300), "\xff"} {
		if err := (client.Options{Reader: reader}).Validate(); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%q: %v", reader, err)
		}
	}
	for _, reader := range []string{"", "host", "10.0.0.1", "::1", "/rack7", "/dc1/rack7/"} {
		if err := (client.Options{Reader: reader}).Validate(); err != nil {
			t.Errorf("%q: %v", reader, err)
		}
	}
}

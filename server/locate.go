package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Where a file's blocks are is told by four calls, which differ in what they ask the cache
// for and in what they make of what it does not know:
//
//	Stat    from the cache; what is unknown is marked
//	Locate  from the cache; UNAVAILABLE if anything is not known now
//	Open    the same, and loads anew what the caller names as stale; NO_DATA of a metadata-only file
//	Lookup  the same, and loads all anew
//
// Each reads the file once, in one view, which is given back before the cache is asked:
// the cache may wait for the location service.

// Locate returns the blocks of a file that overlap a range, and where they are.
func (h *handlers) Locate(ctx context.Context, r *pb.LocateRequest) (*pb.LocatedReply, error) {
	if r.GetOffset() < 0 {
		return nil, fmt.Errorf("%w: offset %d", muster.ErrInvalid, r.GetOffset())
	}
	want := wanted{path: r.GetPath(), from: r.GetOffset(), to: math.MaxInt64, first: r.GetFirst()}
	if n := r.GetLength(); n > 0 && n < math.MaxInt64-want.from {
		want.to = want.from + n
	}
	return h.locate(ctx, want, order{!r.GetUnsorted(), r.GetReader()}, h.places.Get)
}

// Open returns a file's status and all its blocks for reading.
func (h *handlers) Open(ctx context.Context, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	ask := asking(h.places.Get)
	if len(r.GetRefresh()) > 0 {
		stale, err := staleFromPB(r.GetRefresh())
		if err != nil {
			return nil, err
		}
		ask = func(ctx context.Context, ids []uint64, out []locations.Located) error {
			return refresh(ctx, h.cache, stale, ids, out)
		}
	}
	return h.open(ctx, r, ask)
}

// Lookup is Open that asks for all of the file's containers anew.
func (h *handlers) Lookup(ctx context.Context, r *pb.OpenRequest) (*pb.LocatedReply, error) {
	if len(r.GetRefresh()) > 0 {
		return nil, fmt.Errorf("%w: a lookup asks for all containers anew; leave out those to refresh", muster.ErrInvalid)
	}
	return h.open(ctx, r, h.cache.Reload)
}

func (h *handlers) open(ctx context.Context, r *pb.OpenRequest, ask asking) (*pb.LocatedReply, error) {
	want := wanted{path: r.GetPath(), to: math.MaxInt64, first: r.GetFirst(), data: true, sign: true}
	return h.locate(ctx, want, order{!r.GetUnsorted(), r.GetReader()}, ask)
}

// locate answers a call of a reader: one who may read the file, and is of no use without
// knowing where its blocks are.
func (h *handlers) locate(ctx context.Context, want wanted, o order, ask asking) (*pb.LocatedReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	want.read = true
	f, err := readFile(h.tree, &caller, want)
	if err != nil {
		return nil, err
	}
	places, err := ask.places(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := known(places, f.containers); err != nil {
		return nil, err
	}
	var sign *signing
	if want.sign && len(f.in) > 0 {
		if sign, err = h.signRead(ctx, &caller); err != nil {
			return nil, err
		}
	}
	return &pb.LocatedReply{Entry: f.entry, Located: h.describe(ctx, f, places, o, sign)}, nil
}

// statLocated answers a Stat with locations. They are a hint, for whoever may see the
// status: what is unknown is marked.
func (h *handlers) statLocated(ctx context.Context, r *pb.PathRequest, follow bool) (*pb.EntryReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	f, err := readFile(h.tree, &caller, wanted{path: r.GetPath(), link: !follow, all: true, to: math.MaxInt64, first: r.GetFirst()})
	if err != nil || f.entry.Kind != uint32(muster.File) {
		return f.entry, err
	}
	places, err := asking(h.places.Get).places(ctx, f)
	if err != nil {
		return nil, err
	}
	f.entry.Located = h.describe(ctx, f, places, order{r.GetSorted(), r.GetReader()}, nil)
	return f.entry, nil
}

// asking is how the cache is asked for the places of containers: Get, Reload, or Refresh
// with what is stale.
type asking func(ctx context.Context, containers []uint64, out []locations.Located) error

// places asks for the containers of a file. No container takes no call.
func (ask asking) places(ctx context.Context, f file) ([]locations.Located, error) {
	if len(f.containers) == 0 {
		return nil, nil
	}
	out := make([]locations.Located, len(f.containers))
	return out, ask(ctx, f.containers, out)
}

// known fails with ErrUnavailable if the place of a container is not known now. A container
// that does not exist is known: its blocks are lost, and the others can be read.
func known(places []locations.Located, containers []uint64) error {
	for i := range places {
		switch err := places[i].Err; {
		case err == nil || errors.Is(err, muster.ErrNotFound):
		case errors.Is(err, muster.ErrUnavailable):
			return fmt.Errorf("container %d: %w", containers[i], err)
		default:
			return fmt.Errorf("%w: container %d: %v", muster.ErrUnavailable, containers[i], err)
		}
	}
	return nil
}

// staleFromPB returns what a caller names as stale: of a container that it names more than
// once, the newest mark, which sorts last unless they are of servers that ran before.
func staleFromPB(list []*pb.Stale) (map[uint64]locations.Seen, error) {
	if len(list) > muster.MaxBlocks {
		return nil, fmt.Errorf("%w: %d containers to refresh, at most %d", muster.ErrLimit, len(list), muster.MaxBlocks)
	}
	stale := make(map[uint64]locations.Seen, len(list))
	for _, m := range list {
		seen, err := locations.ParseSeen(m.GetSeen())
		if err != nil {
			return nil, fmt.Errorf("container %d: %w", m.GetContainer(), err)
		}
		if old, ok := stale[m.GetContainer()]; !ok || string(old[:]) < string(seen[:]) {
			stale[m.GetContainer()] = seen
		}
	}
	return stale, nil
}

// refresh asks for containers anew if they are named as stale, in one call for all. Whatever else
// is named is of no concern to this file.
func refresh(ctx context.Context, cache *locations.Cache, stale map[uint64]locations.Seen, ids []uint64, out []locations.Located) error {
	asked := make([]locations.Stale, len(ids))
	for i, id := range ids {
		asked[i] = locations.Stale{Container: id, Seen: stale[id]} // of others the zero mark: any answer is newer
	}
	return cache.Refresh(ctx, asked, out)
}

// order says in which order replicas are told.
type order struct {
	sorted bool   // by distance from the reader
	reader string // host, address or network location; empty: where the call comes from
}

// from returns the reader's view of the topology; nil if it is not known where it is.
func (o order) from(ctx context.Context, m *topology.Map) *topology.Reader {
	host := o.reader
	if host == "" {
		host = addressOf(ctx)
	}
	if host == "" {
		return nil
	}
	return m.ReaderFor(host)
}

// addressOf is the address that a call comes from; "": it is not known.
func addressOf(ctx context.Context) string {
	addr, ok := rpc.RemoteAddr(ctx).(*net.TCPAddr)
	if !ok {
		return ""
	}
	return addr.IP.String()
}

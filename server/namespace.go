package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// handlers are the calls of the namespace service. They keep no state of their own.
type handlers struct {
	pb.DRPCNamespaceUnimplementedServer // the calls that are not here yet
	tree                                *namespace.Tree
	lister                              *listing.Lister
	cache                               *locations.Cache
	places                              listing.Places // the cache, or what is asked instead
	topology                            *topology.Map
	locations                           service    // what else is asked of the location service
	leases                              *leases    // of clients that write
	keys                                *blockKeys // that sign tokens
	upkeep                              *upkeep
	rpc                                 *rpc.Server
	compressor                          *rpc.Compressor
	log                                 *slog.Logger
	version                             string
	started                             time.Time
}

var _ pb.DRPCNamespaceServer = (*handlers)(nil)

// features are what clients may ask for by name, and "tokens" beside them if the cluster has tokens.
var features = []string{"compression", "list", "list-locations", "list-page", "locate", "own-entries", "request-ids", "snapshot", "write"}

// Capabilities says what the server can do and which bounds it keeps.
func (h *handlers) Capabilities(ctx context.Context, _ *pb.CapabilitiesRequest) (*pb.CapabilitiesReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	bounds, has := h.lister.Config(), slices.Clone(features)
	if ring, err := h.keys.current(); err == nil && ring != nil {
		has = append(has, "tokens")
		slices.Sort(has)
	}
	return &pb.CapabilitiesReply{
		Version:          h.version,
		RowSchema:        rows.SchemaVersion,
		MaxPaths:         uint32(bounds.MaxPaths),
		MaxChunkPaths:    rpc.MaxChunkPaths,
		DefaultLimit:     uint32(bounds.Limit),
		MaxLimit:         uint32(bounds.MaxLimit),
		MaxMessageBytes:  rpc.MaxMessage,
		MaxBatchCommands: muster.MaxBatchCommands,
		MaxBatchBytes:    muster.MaxBatchBytes,
		Features:         has,
		User:             caller.User,
		Superuser:        h.tree.Superuser(&caller),
	}, nil
}

// Stat returns the status of what the path names, following a link in last place.
func (h *handlers) Stat(ctx context.Context, r *pb.PathRequest) (*pb.EntryReply, error) {
	return h.entry(ctx, r, true)
}

// Lstat does not follow a link in last place.
func (h *handlers) Lstat(ctx context.Context, r *pb.PathRequest) (*pb.EntryReply, error) {
	return h.entry(ctx, r, false)
}

func (h *handlers) entry(ctx context.Context, r *pb.PathRequest, follow bool) (reply *pb.EntryReply, err error) {
	if r.GetLocated() {
		return h.statLocated(ctx, r, follow)
	}
	err = h.read(ctx, r.GetPath(), follow, r.GetBlocks(), func(res *namespace.Resolved, row *muster.Row, txid uint64) error {
		_, name := muster.SplitPath(res.Path())
		reply = rpc.RowToPB(row, name, txid)
		return nil
	})
	return reply, err
}

// ReadLink returns the target of a link.
func (h *handlers) ReadLink(ctx context.Context, r *pb.PathRequest) (reply *pb.ReadLinkReply, err error) {
	err = h.read(ctx, r.GetPath(), false, false, func(res *namespace.Resolved, row *muster.Row, _ uint64) error {
		if row.Kind != muster.Link {
			return fmt.Errorf("%w: %s is no link", muster.ErrInvalid, res.Path())
		}
		reply = &pb.ReadLinkReply{Target: append([]byte(nil), row.Target...)}
		return nil
	})
	return reply, err
}

// read resolves a path in a view of its own and hands its entry to use, which must not
// keep the row.
func (h *handlers) read(ctx context.Context, path []byte, follow, blocks bool, use func(*namespace.Resolved, *muster.Row, uint64) error) error {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return err
	}
	view, err := h.tree.View()
	if err != nil {
		return err
	}
	defer view.Release()
	reader := view.NewReader(&caller)
	defer reader.Close()
	res, err := reader.Resolve(string(path), follow)
	if err != nil {
		return err
	}
	var row muster.Row
	if err := reader.Row(&res, &row, blocks); err != nil {
		return err
	}
	return use(&res, &row, view.Txid())
}

// Apply applies a batch of commands, all or none. A command that cannot be applied is
// named in the reply; an error is one of the whole call.
func (h *handlers) Apply(ctx context.Context, r *pb.ApplyRequest) (*pb.ApplyReply, error) {
	request, err := applyRequest(ctx, r)
	if err == nil {
		var applied muster.Applied
		if applied, err = h.tree.Apply(ctx, request); err == nil {
			return &pb.ApplyReply{Txid: applied.Txid, InodeIds: applied.IDs}, nil
		}
	}
	if refusal, ok := rpc.RefusalToPB(err); ok {
		return &pb.ApplyReply{Refusal: refusal}, nil
	}
	return nil, err
}

func applyRequest(ctx context.Context, r *pb.ApplyRequest) (namespace.Request, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return namespace.Request{}, err
	}
	if n := len(r.GetCommands()); n == 0 || n > muster.MaxBatchCommands {
		return namespace.Request{}, fmt.Errorf("%w: %d commands in a batch; it has 1 to %d", muster.ErrLimit, n, muster.MaxBatchCommands)
	}
	id, err := rpc.RequestIDFromPB(r.GetClient(), r.GetSequence())
	if err != nil {
		return namespace.Request{}, err
	}
	request := namespace.Request{ID: id, Caller: caller, Commands: make([]muster.Command, len(r.Commands))}
	for i, m := range r.Commands {
		if request.Commands[i], err = rpc.CommandFromPB(m); err != nil {
			return namespace.Request{}, &muster.CommandError{Index: i, Verb: "command", Err: err}
		}
	}
	return request, nil
}

package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Status says how the server is.
func (h *handlers) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusReply, error) {
	tree, calls, process := h.tree.Stats(), h.rpc.Stats(), processNow()
	reply := &pb.StatusReply{
		Version: h.version, Started: h.started.UnixMilli(),
		Txid: tree.Txid, Inodes: tree.Inodes, Reclaiming: tree.Reclaiming, Requests: tree.Requests, StoreBytes: tree.StoreBytes,
		Counters: []*pb.Counter{
			counter("alloc_bytes", process.allocBytes),
			counter("calls", calls.Calls),
			counter("calls_active", calls.CallsActive),
			counter("calls_failed", calls.Failed),
			counter("calls_overload", calls.Overload),
			counter("connections", calls.Connections),
			counter("connections_accepted", calls.Accepted),
			counter("connections_refused", calls.Refused),
			counter("cpu_seconds", process.cpuSeconds),
			counter("files_being_written", tree.Writing),
			counter("goroutines", runtime.NumGoroutine()),
			counter("heap_bytes", process.heapBytes),
			counter("image_budget_bytes", tree.Images.Budget),
			counter("image_bytes", tree.Images.Bytes),
			counter("image_drops", tree.Images.Drops),
			counter("image_evictions", tree.Images.Evictions),
			counter("image_hits", tree.Images.Hits),
			counter("image_loads", tree.Images.Loads),
			counter("image_misses", tree.Images.Misses),
			counter("image_rows_loaded", tree.Images.Rows),
			counter("images", tree.Images.Items),
			counter("mallocs", process.mallocs),
			counter("panics", calls.Panics),
			counter("resident_bytes", process.residentBytes),
			counter("resident_max_bytes", process.residentMax),
			counter("store_commits", tree.Commits),
			counter("store_gets", tree.Gets),
			counter("store_refusals", tree.Refusals),
			counter("store_seeks", tree.Seeks),
			counter("store_syncs", tree.Syncs),
			counter("views", tree.Views),
		},
	}
	reply.Counters = append(reply.Counters, h.locationCounters(ctx)...)
	reply.Counters = append(reply.Counters, h.upkeep.counters()...)
	slices.SortFunc(reply.Counters, func(a, b *pb.Counter) int { return strings.Compare(a.Name, b.Name) })
	return reply, nil
}

func counter[T int | int64 | uint64 | float64](name string, value T) *pb.Counter {
	return &pb.Counter{Name: name, Value: float64(value)}
}

// How many problems of a check, and how many bytes of them, go into one message.
const (
	fsckProblems = 256
	fsckBytes    = 64 << 10
)

// Fsck checks the whole store, or the blocks of files. It reads everything, past all permissions:
// so it is the superuser's.
func (h *handlers) Fsck(r *pb.FsckRequest, stream pb.DRPCNamespace_FsckStream) error {
	ctx := stream.Context()
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return err
	}
	if !h.tree.Superuser(&caller) {
		return fmt.Errorf("%w: user %q is no superuser, who alone may check the store", muster.ErrPermission, caller.User)
	}
	out := &problems{stream: stream, reply: new(pb.FsckReply)}
	if r.GetBlocks() {
		err = h.fsckBlocks(ctx, &caller, string(r.GetPath()), out)
	} else {
		err = h.fsckRecords(ctx, out)
	}
	if err != nil {
		return err
	}
	out.reply.Done = true
	return stream.Send(out.reply)
}

// fsckRecords checks the store, and counts in the last message.
func (h *handlers) fsckRecords(ctx context.Context, out *problems) error {
	sum, err := h.tree.Fsck(ctx, out.add)
	if err != nil {
		return err
	}
	last := out.reply
	last.Inodes, last.Directories, last.Files, last.Links = sum.Inodes, sum.Directories, sum.Files, sum.Links
	last.ProblemCount, last.Reclaiming = sum.Problems, sum.Reclaiming
	return nil
}

// problems sends what a check finds, many in a message.
type problems struct {
	stream pb.DRPCNamespace_FsckStream
	reply  *pb.FsckReply // the message to be sent next
	size   int           // bytes of problems in it
}

func (o *problems) add(p namespace.Problem) error {
	o.reply.Problems = append(o.reply.Problems, &pb.Problem{Kind: p.Kind, InodeId: p.ID, Path: []byte(p.Path), Message: strings.ToValidUTF8(p.Message, "\uFFFD")})
	o.size += len(p.Path) + len(p.Message)
	if len(o.reply.Problems) < fsckProblems && o.size < fsckBytes {
		return nil
	}
	err := o.stream.Send(o.reply)
	o.reply, o.size = new(pb.FsckReply), 0
	return err
}

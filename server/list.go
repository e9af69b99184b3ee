package server

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// ListPage lists one page.
func (h *handlers) ListPage(ctx context.Context, r *pb.ListPageRequest) (*pb.ListReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	options, out, err := h.options(r.GetOptions())
	if err != nil {
		return nil, err
	}
	paths, err := rpc.UnpackPaths(r.GetPaths(), r.GetCount(), h.lister.Config().MaxPaths, rpc.MaxPageBytes)
	if err != nil {
		return nil, err
	}
	var reply *pb.ListReply
	err = h.lister.Page(ctx, &caller, paths, options, r.GetCursor(), func(m *listing.Message) error {
		h.reportDenied(caller.User, m.Outcomes)
		own := *m // the reply is encoded after the message's buffers were given back
		own.Frame, own.Cursor = bytes.Clone(m.Frame), bytes.Clone(m.Cursor)
		reply = out.fill(&own)
		return nil
	})
	return reply, err
}

// List lists any number of paths, while they arrive.
func (h *handlers) List(stream pb.DRPCNamespace_ListStream) error {
	ctx := stream.Context()
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return err
	}
	in := &intake{stream: stream, messages: make(chan received), maxPaths: max(h.lister.Config().MaxPaths, rpc.ChunkPaths)}
	if err := rpc.Go(ctx, func() { in.receive(ctx) }); err != nil {
		return err
	}
	first, err := in.take(ctx)
	if err != nil {
		return err
	}
	options, out, err := h.options(first.GetOptions())
	if err != nil {
		return err
	}
	out.stream = stream
	return h.lister.Stream(ctx, &caller, options, first.GetCursor(), in.next, func(m *listing.Message) error {
		h.reportDenied(caller.User, m.Outcomes)
		return out.send(m)
	})
}

// options returns what is to be listed, and the output that it goes to.
func (h *handlers) options(m *pb.ListOptions) (listing.Options, *output, error) {
	o, err := rpc.ListOptionsFromPB(m)
	if err != nil {
		return listing.Options{}, nil, err
	}
	out := new(output)
	if o.Compress {
		out.compressor = h.compressor
	}
	return listing.Options{
		Limit: o.Limit, Columns: rows.Columns(o.Columns), Hidden: o.Hidden, Own: o.Own, Consistency: o.Consistency,
	}, out, nil
}

// reportDenied logs each path that its caller may not list: the call as a whole goes
// well, and its own line in the log says nothing of that.
func (h *handlers) reportDenied(user string, outcomes []muster.Outcome) {
	for i := range outcomes {
		if o := &outcomes[i]; o.Code == muster.ErrPermission {
			h.log.Info("denied", "call", "List", "user", user, "error", o.Message)
		}
	}
}

// intake takes the requests of a List call. A goroutine of the call receives them, one
// ahead of next, because receiving itself cannot be interrupted before the call ends.
type intake struct {
	stream   pb.DRPCNamespace_ListStream
	messages chan received
	maxPaths int

	kept *pb.ListRequest // taken, its paths not yet
	last bool            // no more requests follow
}

type received struct {
	request *pb.ListRequest
	err     error
}

// receive hands on requests until the last one, or until ctx ends.
func (in *intake) receive(ctx context.Context) {
	for {
		m, err := in.stream.Recv()
		select {
		case in.messages <- received{m, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || m.GetLast() {
			return
		}
	}
}

// take returns the first request, which next goes on with.
func (in *intake) take(ctx context.Context) (*pb.ListRequest, error) {
	select {
	case r := <-in.messages:
		if r.err == io.EOF {
			return nil, fmt.Errorf("%w: the paths ended before the last of them was named", muster.ErrInvalid)
		}
		in.kept = r.request
		return r.request, r.err
	case <-ctx.Done():
		return nil, rpc.Cause(ctx)
	}
}

// next returns the next chunk of paths, and io.EOF after the last.
func (in *intake) next(ctx context.Context) ([]string, error) {
	if in.last {
		return nil, io.EOF
	}
	m := in.kept
	if m == nil {
		var err error
		if m, err = in.take(ctx); err != nil {
			return nil, err
		}
		if m.Options != nil || len(m.Cursor) > 0 {
			return nil, fmt.Errorf("%w: options or a cursor after the first message of a stream", muster.ErrInvalid)
		}
	}
	in.kept, in.last = nil, m.GetLast()
	return rpc.UnpackPaths(m.GetPaths(), m.GetCount(), in.maxPaths, rpc.MaxChunkBytes)
}

// output makes replies of messages. The reply and its buffer are used again and again.
type output struct {
	stream     pb.DRPCNamespace_ListStream
	compressor *rpc.Compressor // nil: frames go as they are
	reply      pb.ListReply
	outcomes   []*pb.Outcome // those of the reply, and more from earlier ones
	packed     []byte        // a compressed frame
	buffer     []byte
}

// send sends a message.
func (out *output) send(m *listing.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(out.buffer[:0], out.fill(m))
	if err != nil {
		return fmt.Errorf("%w: encode rows: %v", muster.ErrInternal, err)
	}
	out.buffer = b
	return rpc.SendRaw(out.stream, b)
}

// fill sets the reply to the message; it shares the message's bytes.
func (out *output) fill(m *listing.Message) *pb.ListReply {
	for len(out.outcomes) < len(m.Outcomes) {
		out.outcomes = append(out.outcomes, new(pb.Outcome))
	}
	for i := range m.Outcomes {
		rpc.OutcomeToPB(out.outcomes[i], &m.Outcomes[i])
	}
	r := &out.reply
	r.Frame, r.FrameSize = m.Frame, 0
	if out.compressor != nil {
		r.Frame, r.FrameSize = out.compressor.Frame(out.packed[:0], m.Frame)
	}
	if r.FrameSize > 0 {
		out.packed = r.Frame
	}
	r.Outcomes, r.Cursor, r.CursorIndex = out.outcomes[:len(m.Outcomes)], m.Cursor, m.CursorIndex
	r.Done, r.TotalRows, r.TotalOutcomes, r.Txid = m.Done, m.TotalRows, m.TotalOutcomes, m.Txid
	return r
}

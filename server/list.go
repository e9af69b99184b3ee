package server

import (
	"context"
	"fmt"
	"io"
	"sync"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// The listing calls read and write their messages by hand, see rpc.ListRequest: between a
// request's bytes and a reply's, nothing is allocated for each path or row.

// listPageCall is the wire's name of ListPage.
const listPageCall = "/muster.v1.Namespace/ListPage"

// ListPage is listPage, which is asked instead.
func (h *handlers) ListPage(context.Context, *pb.ListPageRequest) (*pb.ListReply, error) {
	return nil, fmt.Errorf("%w: a page call that was decoded", muster.ErrInternal)
}

// listPage lists one page: it reads an encoded pb.ListPageRequest, and appends a
// pb.ListReply to dst.
func (h *handlers) listPage(ctx context.Context, request, dst []byte) ([]byte, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	var r rpc.ListRequest
	if err := r.Unmarshal(request); err != nil {
		return nil, err
	}
	paths, err := rpc.UnpackPaths(r.Paths, r.Count, h.lister.Config().MaxPaths, rpc.MaxPageBytes)
	if err != nil {
		return nil, err
	}
	err = h.lister.Page(ctx, &caller, paths, optionsOf(ctx, &r), r.Cursor, func(m *listing.Message) error {
		h.reportDenied(caller.User, m.Outcomes)
		out := h.output(&r)
		defer outputs.Put(out)
		dst = out.append(dst, m)
		return nil
	})
	return dst, err
}

// List lists any number of paths, while they arrive.
func (h *handlers) List(stream pb.DRPCNamespace_ListStream) error {
	ctx := stream.Context()
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return err
	}
	in := &intake{stream: stream, chunks: make(chan chunk), maxPaths: max(h.lister.Config().MaxPaths, rpc.MaxChunkPaths)}
	if err := rpc.Go(ctx, func() { in.receive(ctx) }); err != nil {
		return err
	}
	first, err := in.begin(ctx)
	if err != nil {
		return err
	}
	out := h.output(first)
	defer outputs.Put(out)
	return h.lister.Stream(ctx, &caller, optionsOf(ctx, first), first.Cursor, in.next, func(m *listing.Message) error {
		h.reportDenied(caller.User, m.Outcomes)
		return out.send(stream, m)
	})
}

// optionsOf returns what is to be listed.
func optionsOf(ctx context.Context, r *rpc.ListRequest) listing.Options {
	o := &r.Options
	options := listing.Options{
		Limit: o.Limit, Columns: rows.Columns(o.Columns), Hidden: o.Hidden, Own: o.Own, Consistency: o.Consistency, Follow: o.Follow,
		Locations: o.Locations, LocationLimit: o.LocationLimit, Sorted: o.Sorted, Reader: o.Reader,
	}
	if o.Sorted && o.Reader == "" {
		options.From = addressOf(ctx)
	}
	return options
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

// intake takes the requests of a List call. A goroutine of the call receives and unpacks
// them, one ahead of next, because receiving itself cannot be interrupted before the
// call ends.
type intake struct {
	stream   pb.DRPCNamespace_ListStream
	chunks   chan chunk
	maxPaths int

	kept  chunk // taken and not given yet, if begun
	begun bool
	last  bool // no more chunks follow
}

// chunk is what a request brings. The first one has it all.
type chunk struct {
	first *rpc.ListRequest
	paths []string
	last  bool
	err   error
}

// receive hands on requests until the last one, or until ctx ends.
func (in *intake) receive(ctx context.Context) {
	var message []byte
	for first := true; ; first = false {
		c := in.chunk(&message, first)
		select {
		case in.chunks <- c:
		case <-ctx.Done():
			return
		}
		if c.err != nil || c.last {
			return
		}
	}
}

// chunk receives a request.
func (in *intake) chunk(message *[]byte, first bool) chunk {
	err := rpc.ReceiveRaw(in.stream, message)
	if err == io.EOF {
		err = fmt.Errorf("%w: the paths ended before the last of them was named", muster.ErrInvalid)
	}
	if err != nil {
		return chunk{err: err}
	}
	var r rpc.ListRequest
	if err := r.Unmarshal(*message); err != nil {
		return chunk{err: err}
	}
	c := chunk{last: r.Last}
	if first {
		own := r
		own.Cursor, own.Paths = append([]byte(nil), r.Cursor...), nil
		c.first = &own
	} else if r.HasOptions || len(r.Cursor) > 0 {
		return chunk{err: fmt.Errorf("%w: options or a cursor after the first message of a stream", muster.ErrInvalid)}
	}
	c.paths, c.err = rpc.UnpackPaths(r.Paths, r.Count, in.maxPaths, rpc.MaxChunkBytes)
	return c
}

// begin takes the first request, which next goes on with.
func (in *intake) begin(ctx context.Context) (*rpc.ListRequest, error) {
	c, err := in.take(ctx)
	switch {
	case err != nil:
		return nil, err
	case c.err != nil && c.first == nil:
		return nil, c.err
	}
	in.kept, in.begun = c, true
	return c.first, nil
}

func (in *intake) take(ctx context.Context) (chunk, error) {
	select {
	case c := <-in.chunks:
		return c, nil
	case <-ctx.Done():
		return chunk{}, rpc.Cause(ctx)
	}
}

// next returns the next chunk of paths, and io.EOF after the last.
func (in *intake) next(ctx context.Context) ([]string, error) {
	if in.last {
		return nil, io.EOF
	}
	c := in.kept
	if !in.begun {
		var err error
		if c, err = in.take(ctx); err != nil {
			return nil, err
		}
	}
	in.kept, in.begun, in.last = chunk{}, false, c.last
	return c.paths, c.err
}

// output makes replies of messages. It is used again and again.
type output struct {
	compressor *rpc.Compressor // nil: frames go as they are
	packed     []byte          // a compressed frame
	buffer     []byte          // a stream's reply
}

var outputs = sync.Pool{New: func() any { return new(output) }}

// output returns the output that a request asks for.
func (h *handlers) output(r *rpc.ListRequest) *output {
	out := outputs.Get().(*output)
	out.compressor = nil
	if r.Options.Compress {
		out.compressor = h.compressor
	}
	return out
}

// append appends the reply of a message to dst.
func (out *output) append(dst []byte, m *listing.Message) []byte {
	r := out.reply(m)
	return r.Append(dst)
}

// send sends the reply of a message of a stream.
func (out *output) send(stream drpc.Stream, m *listing.Message) error {
	r := out.reply(m)
	b, at := r.AppendAround(out.buffer[:0])
	out.buffer = b
	return rpc.SendParts(stream, b[:at], r.Frame, b[at:])
}

func (out *output) reply(m *listing.Message) rpc.ListReply {
	r := rpc.ListReply{
		Frame: m.Frame, Outcomes: m.Outcomes, Cursor: m.Cursor, CursorIndex: m.CursorIndex,
		Done: m.Done, TotalRows: m.TotalRows, TotalOutcomes: m.TotalOutcomes, Txid: m.Txid, Nodes: m.Nodes,
	}
	if out.compressor != nil {
		r.Frame, r.FrameSize = out.compressor.Frame(out.packed[:0], m.Frame)
	}
	if r.FrameSize > 0 {
		out.packed = r.Frame
	}
	return r
}

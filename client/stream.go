package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// readAhead is how many batches wait for a consumer that is busy with one, beside the
// one that is being received.
const readAhead = 2

// firstPaths is the size of a call's first chunk of paths: the server begins with it
// while the next, each of four times as many paths, are on their way. Large ones keep the
// server busy for long, however late its goroutines get to run.
const firstPaths = 64

// maxCursorBytes is far more than a cursor takes. The first request of a resumed call has
// it beside paths, and must stay within a message.
const maxCursorBytes = 64 << 10

// endGrace is how long a stream may stay open after its last message; then its connection
// is given up.
const endGrace = time.Second

// listing is one List: calls that follow one another, each from the last one's cursor
// on. It belongs to the goroutine that receives, but for the window, which that shares
// with the one that reads the paths and the one that sends them, and the channel of
// batches, from which the consumer takes them.
type listing struct {
	client  *Client
	options rpc.ListOptions
	columns rows.Columns
	window  *window
	batches chan *Batch
	ledger  ledger
	nodes   nodeTable // of the call in progress
	told    int       // bytes of the messages that it came in
	reply   reply
	cursor  []byte // of the last message
	begun   bool   // a message was delivered
}

// errBroken is the end of a stream whose last message did not come.
var errBroken = fmt.Errorf("%w: the listing was cut off", muster.ErrUnavailable)

// list is List with paths that know the context of their iteration, and a bound of
// how many are read ahead.
func (c *Client) list(ctx context.Context, paths func(context.Context) iter.Seq[string], ahead int, o ListOptions) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		options, err := o.wire(c.options.Reader)
		if err == nil && len(o.Cursor) > 0 {
			err = fmt.Errorf("%w: a stream takes no cursor, it goes on by itself; use Pages or Page", muster.ErrInvalid)
		}
		if err != nil {
			yield(nil, fmt.Errorf("list: %w", err))
			return
		}
		l := &listing{client: c, options: options, columns: o.columns(), window: newWindow(ahead), batches: make(chan *Batch, readAhead)}
		caller := ctx
		ctx, cancel := context.WithCancel(ctx)
		filled, received := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(filled)
			l.window.fill(ctx, caller, paths(ctx))
		}()
		go func() {
			defer close(received)
			err = l.receive(ctx)
		}()
		defer func() { cancel(); l.window.stopped.Store(true); <-received; <-filled }()
		for b := range l.batches {
			if !yield(b, nil) {
				return
			}
		}
		<-received
		l.window.rethrow()
		if err != nil {
			yield(nil, fmt.Errorf("list: %w", err))
		}
	}
}

// receive makes calls until the listing is complete, the consumer has enough, or it
// fails; or until the paths have panicked.
func (l *listing) receive(ctx context.Context) error {
	defer close(l.batches)
	first, _ := l.window.next(ctx, 0, 1, 0)
	if len(first) == 0 {
		return ended(ctx)
	}
	for b := newBackoff(); ; {
		progress, err := l.call(ctx)
		if l.window.failed() {
			return nil
		}
		if progress {
			b = newBackoff()
		}
		if err == nil || !l.resumable() && ctx.Err() == nil {
			return err
		}
		if err := l.client.again(ctx, &b, err); err != nil {
			return err
		}
	}
}

// resumable says whether another call can go on where the last one broke.
func (l *listing) resumable() bool { return !l.begun || len(l.cursor) > 0 }

// call makes one call. It ends without an error when the listing is complete. progress
// says whether it delivered anything; datanodes alone are none.
func (l *listing) call(ctx context.Context) (progress bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := l.client.service.List(l.client.context(ctx))
	if err != nil {
		cancel()
		return false, err
	}
	l.ledger.resume()
	l.nodes, l.told = nil, 0
	request := rpc.ListRequest{HasOptions: true, Options: l.options, Cursor: slices.Clone(l.cursor)}
	from := l.window.rewind()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if !l.send(ctx, stream, &request, from) {
			cancel()
		}
	}()
	// The order matters: cancelling is what ends a send that waits for the server.
	defer func() { cancel(); <-sent; _ = stream.Close() }()
	for {
		if err := stream.MsgRecv(&l.reply, replyEncoding{}); err != nil {
			return progress, broken(err)
		}
		b, err := l.enter(&l.reply)
		if err != nil {
			return progress, err
		}
		progress = progress || b != nil
		if b.tells() && !l.emit(ctx, b) {
			return progress, ended(ctx)
		}
		if l.reply.Done {
			defer time.AfterFunc(endGrace, cancel).Stop()
			return progress, l.finish(stream)
		}
	}
}

// emit hands a batch to the consumer. It is false if the listing is to end: the consumer
// has enough, or the caller.
func (l *listing) emit(ctx context.Context, b *Batch) bool {
	select {
	case l.batches <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// broken gives the end of a stream before its last message its meaning.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return errBroken
	}
	return err
}

// finish takes the end of a complete stream, which leaves the connection to others.
func (l *listing) finish(stream pb.DRPCNamespace_ListClient) error {
	if err := stream.MsgRecv(&l.reply, replyEncoding{}); err == nil {
		return corrupt("a message follows the last one")
	}
	return nil // all has come: how the stream ends then is nobody's loss
}

// send sends the paths from index from on, in chunks, as they come, of which request is
// the first. It says whether the receiving side may wait for an answer: not if the paths
// ended before the last. A stream that broke is no matter here, since that side learns why.
func (l *listing) send(ctx context.Context, stream pb.DRPCNamespace_ListClient, request *rpc.ListRequest, from uint64) bool {
	var message []byte
	for size := min(firstPaths, l.client.maxChunk); !request.Last; size = min(4*size, l.client.maxChunk) {
		if !l.window.gather(ctx, request, from, size) {
			return false
		}
		message = request.Append(message[:0])
		if err := rpc.SendRaw(stream, message); err != nil {
			return true
		}
		from += uint64(request.Count)
		request.HasOptions, request.Cursor = false, nil
	}
	_ = stream.CloseSend()
	return true
}

// gather packs paths from index from on into a request: at least one, for which it waits,
// and as many as are there and go into a chunk. It is false if there is none and none
// will come, since ctx ended or the paths have panicked.
func (w *window) gather(ctx context.Context, request *rpc.ListRequest, from uint64, most int) bool {
	chunk, last := w.next(ctx, from, most, rpc.ChunkBytes)
	if len(chunk) == 0 && !last {
		return false
	}
	packed, prev, count, bytes := request.Paths[:0], "", 0, 0
	for {
		for _, path := range chunk {
			path = wirePath(path)
			packed = rpc.AppendPath(packed, prev, path)
			prev = path
			bytes += len(path)
		}
		count += len(chunk)
		if last || len(chunk) == 0 || count == most || bytes >= rpc.ChunkBytes {
			break
		}
		chunk, last, _ = w.chunk(from+uint64(count), most-count, rpc.ChunkBytes-bytes)
	}
	request.Paths, request.Count, request.Last = packed, uint32(count), last
	return true
}

// packPaths appends the paths in the wire's form.
func packPaths(dst []byte, paths []string) []byte {
	prev := ""
	for _, path := range paths {
		path = wirePath(path)
		dst = rpc.AppendPath(dst, prev, path)
		prev = path
	}
	return dst
}

// wirePath cuts a path that is too long for any server: it stays too long, and so gets
// its own refusal, but does not burst a message.
func wirePath(path string) string { return path[:min(len(path), muster.MaxPathBytes+1)] }

// enter checks a message whole before any of it is delivered, and books it.
func (l *listing) enter(r *reply) (*Batch, error) {
	first := l.ledger.next
	known, all := l.window.given()
	decoded, err := l.client.decode(r, int(max(known, first)-first), l.columns)
	if err != nil {
		return nil, err
	}
	if l.nodes, err = extend(decoded, r, l.nodes, l.options.Locations); err != nil {
		return nil, err
	}
	if l.told += r.told; l.told > maxTold {
		return nil, corrupt("a table of datanodes of more than %d bytes", maxTold)
	}
	if r.onlyNodes() {
		return nil, nil // the cursor of the message before stays
	}
	if err := l.ledger.enter(decoded, r.outcomes, known); err != nil {
		return nil, err
	}
	if r.Done {
		if err := l.ledger.close(r.TotalRows, r.TotalOutcomes, known, all); err != nil {
			return nil, err
		}
	}
	b := &Batch{
		Batch: decoded, Outcomes: r.outcomes, Txid: r.Txid, memory: r.give(),
		located: l.options.Locations != muster.NoLocations, nodes: l.nodes,
		given: l.window.list(first, min(l.ledger.next+1, known)),
	}
	b.namePaths()
	l.begun, l.cursor = true, append(l.cursor[:0], r.Cursor...)
	return b, l.drop(r)
}

// drop forgets the paths that no call asks for again.
func (l *listing) drop(r *reply) error {
	keep := l.ledger.next
	if len(r.Cursor) > maxCursorBytes {
		return corrupt("a cursor of %d bytes, at most %d", len(r.Cursor), maxCursorBytes)
	}
	if len(r.Cursor) > 0 {
		// The cursor is of the path that is being listed, or of the last one finished.
		// Hidden entries can bring it further than our rows and outcomes tell.
		if keep = r.CursorIndex; keep+1 < l.ledger.next || keep > l.ledger.next {
			return corrupt("cursor of path %d where path %d is listed", keep, l.ledger.next)
		}
	}
	if !l.window.drop(keep) {
		return corrupt("cursor of path %d, which an earlier cursor had passed", keep)
	}
	return nil
}

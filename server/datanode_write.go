package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// WriteBlock writes a block in order, from its beginning. One goroutine of the call receives
// and writes; the call itself syncs beside it, answers and commits.
func (b *blockCalls) WriteBlock(stream pb.DRPCBlocks_WriteBlockStream) error {
	ctx := stream.Context()
	w := &blockWrite{stream: stream, steps: make(chan step, stepsAhead), over: make(chan struct{})}
	if err := w.begin(ctx, b); err != nil {
		w.request.Release()
		return err
	}
	defer close(w.over)
	if err := rpc.Go(ctx, func() { w.receive(); <-w.over; w.end(b) }); err != nil {
		w.end(b)
		return err
	}
	return w.carryOn(ctx, b.serving)
}

// stepsAhead is how many steps are received ahead of the one that is carried out: with that
// and what a step has at most, the data that is not durable is bounded.
const stepsAhead = 2

// step is something to be done beside receiving: to make durable what was written before it,
// and to say so, unless it is more than that.
type step struct {
	commit bool  // the block ends here; no step follows
	err    error // no more comes, and why; io.EOF: the client has sent all
}

func (s *step) last() bool { return s.commit || s.err != nil }

// blockWrite is a call of WriteBlock.
type blockWrite struct {
	stream pb.DRPCBlocks_WriteBlockStream
	block  muster.BlockID
	limit  int64 // of the block's length
	writer *store.Writer
	steps  chan step
	over   chan struct{} // closed when the call does not use the writer any more

	// Of the goroutine that receives:
	request  rpc.WriteRequest
	length   int64 // written
	unsynced int64 // since the last step
}

// begin receives the first message, and checks it, before a block is made of it.
func (w *blockWrite) begin(ctx context.Context, b *blockCalls) error {
	r := &w.request
	err := rpc.ReceiveWriteRequest(w.stream, r)
	if err == io.EOF {
		return fmt.Errorf("%w: a call without a message", muster.ErrInvalid)
	}
	if err != nil {
		return err
	}
	g, err := b.allowed(ctx, r.Token, r.Block, token.Write)
	if err != nil {
		return err
	}
	if g.checked && r.File != g.file {
		return fmt.Errorf("%w: block %v is to be written for file %d, and the block token is for file %d", muster.ErrUnauthenticated, r.Block, r.File, g.file)
	}
	w.block, w.limit = r.Block, g.maxLength
	if err := w.check(r); err != nil {
		return err
	}
	select {
	case b.writers <- struct{}{}:
	default:
		return fmt.Errorf("%w: the datanode is writing %d blocks, its limit; try again", muster.ErrUnavailable, cap(b.writers))
	}
	if w.writer, err = b.blocks.Create(r.Block, r.File); err != nil {
		<-b.writers
		return err
	}
	b.writes.Add(1)
	return nil
}

// end gives back what begin took. Nobody uses the writer any more. What is durable of a block
// that is not committed stays.
func (w *blockWrite) end(b *blockCalls) {
	w.request.Release()
	_ = w.writer.Close() // the client was told what is durable
	<-b.writers
}

// check refuses what no store need look at.
func (w *blockWrite) check(r *rpc.WriteRequest) error {
	n := int64(len(r.Data))
	switch {
	case n > muster.MaxTransfer:
		return fmt.Errorf("%w: %d bytes of block %v in a message, at most %d", muster.ErrLimit, n, w.block, muster.MaxTransfer)
	case n > 0 && r.Offset != w.length:
		return fmt.Errorf("%w: data at offset %d of block %v, which has %d bytes", muster.ErrInvalid, r.Offset, w.block, w.length)
	case w.length+n > w.limit:
		return fmt.Errorf("%w: block %v of more than %d bytes", muster.ErrLimit, w.block, w.limit)
	}
	return nil
}

// receive receives and writes until the call has what it is to have, or fails, and leaves the
// rest to the call. The first message is there already.
func (w *blockWrite) receive() {
	for first := true; ; first = false {
		s, ok := w.next(first)
		if !ok {
			continue
		}
		select {
		case w.steps <- s:
		case <-w.over:
			return
		}
		if s.last() {
			return
		}
	}
}

// next takes a message, and says whether there is something to do about it.
func (w *blockWrite) next(first bool) (step, bool) {
	r := &w.request
	if !first {
		if err := rpc.ReceiveWriteRequest(w.stream, r); err != nil {
			return step{err: err}, true
		}
		if r.Block != (muster.BlockID{}) || len(r.Token) > 0 || r.File != 0 {
			return step{err: fmt.Errorf("%w: a block, token or file after the first message for block %v", muster.ErrInvalid, w.block)}, true
		}
		if err := w.check(r); err != nil {
			return step{err: err}, true
		}
	}
	if len(r.Data) > 0 {
		if err := w.writer.Write(r.Offset, r.Data, r.Checksums); err != nil {
			return step{err: err}, true
		}
	} else if len(r.Checksums) > 0 {
		return step{err: fmt.Errorf("%w: checksums of no data of block %v", muster.ErrInvalid, w.block)}, true
	}
	w.length += int64(len(r.Data))
	w.unsynced += int64(len(r.Data))
	if !r.Sync && !r.Commit && w.unsynced < muster.ChunkBytes {
		return step{}, false
	}
	w.unsynced = 0
	return step{commit: r.Commit}, true
}

// carryOn does what receive leaves to the call, until there is no more.
func (w *blockWrite) carryOn(ctx, serving context.Context) error {
	for {
		select {
		case s := <-w.steps:
			now, then := w.gather(s)
			over, err := w.do(now)
			if then != nil && !over {
				over, err = w.do(*then)
			}
			if over {
				return err
			}
		case <-ctx.Done():
			return rpc.Cause(ctx)
		case <-serving.Done():
			return errEnding
		}
	}
}

// gather makes one step of all that wait: a sync makes durable what was written for any of
// them. The one that says that no more comes stays for itself: what was asked for before it
// is still answered.
func (w *blockWrite) gather(s step) (now step, then *step) {
	for !s.last() {
		select {
		case next := <-w.steps:
			if next.err != nil {
				return s, &next
			}
			s = next
		default:
			return s, nil
		}
	}
	return s, nil
}

// do carries out a step. It says whether the call is over, as it is after an error.
func (w *blockWrite) do(s step) (over bool, err error) {
	reply := new(pb.WriteReply)
	switch {
	case errors.Is(s.err, io.EOF):
		return true, nil // the block stays as it is
	case s.err != nil:
		return true, s.err
	case s.commit:
		if err := w.writer.Commit(); err != nil {
			return true, err
		}
		reply.Durable, reply.Committed = w.length, true // nobody receives any more
	default:
		if reply.Durable, err = w.writer.Sync(); err != nil {
			return true, err
		}
	}
	err = w.stream.Send(reply)
	return s.commit || err != nil, err
}

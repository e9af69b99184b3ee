package blocks

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// order is something for a replica to do.
type order struct {
	packet *packet // nil: there is no data
	sync   bool    // and say when all is durable
	commit bool    // and commit the block, which ends here
}

// replica writes a block to one datanode. One goroutine sends, another receives.
type replica struct {
	block  *blockWriter
	node   *muster.Node
	ctx    context.Context // of its call
	cancel context.CancelFunc
	wake   signal        // there are orders, or there will be no more
	done   chan struct{} // closed when the goroutines have ended

	// Guarded by block.mu:
	orders    []order
	stopped   bool      // no more orders come
	moved     time.Time // when it last made progress
	durable   int64     // bytes
	committed bool
	err       error // why it has failed
}

// push adds an order. The lock is held.
func (r *replica) push(o order) {
	if r.stopped || r.err != nil {
		return
	}
	if o.packet != nil {
		o.packet.use()
	}
	r.orders = append(r.orders, o)
	r.wake.set()
}

// stop drops the orders that are not carried out yet. The lock is held.
func (r *replica) stop() {
	for _, o := range r.orders {
		o.done()
	}
	r.orders, r.stopped = nil, true
	r.wake.set()
}

func (o *order) done() {
	if o.packet != nil {
		o.packet.release()
	}
}

// end makes the replica a failed one, unless it is already, or has all that it was to have.
// The lock is held.
func (r *replica) end(err error) {
	if r.err == nil && !r.committed {
		r.err = err
	}
	r.stop()
	r.cancel()
	r.block.changed.set()
}

func (r *replica) fail(err error) {
	r.block.mu.Lock()
	defer r.block.mu.Unlock()
	r.end(err)
}

// progress says that the replica has done something.
func (r *replica) progress() {
	r.block.mu.Lock()
	defer r.block.mu.Unlock()
	r.moved = time.Now()
}

// next waits for an order. It is false when there is none any more.
func (r *replica) next() (order, bool) {
	for {
		if o, ok, more := r.take(); ok || !more {
			return o, ok
		}
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			return order{}, false
		}
	}
}

func (r *replica) take() (o order, ok, more bool) {
	r.block.mu.Lock()
	defer r.block.mu.Unlock()
	if len(r.orders) == 0 {
		return order{}, false, !r.stopped
	}
	o = r.orders[0]
	r.orders = r.orders[1:]
	return o, true, true
}

// run writes the block.
func (r *replica) run() {
	defer close(r.done)
	defer r.cancel()
	stream, err := rpc.WriteBlock(r.ctx, r.block.datanodes.WriteConn(r.node))
	if err != nil {
		r.fail(err)
		return
	}
	defer func() { _ = stream.Close() }() // what went wrong is known by then
	r.progress()
	received := make(chan struct{})
	go func() {
		defer close(received)
		r.fail(r.receive(stream))
	}()
	r.send(stream)
	<-received
}

// send carries out the orders.
func (r *replica) send(stream *rpc.WriteStream) {
	t := &r.block.target
	request := rpc.WriteRequest{Block: t.ID, Token: t.Token, File: t.File}
	for {
		o, ok := r.next()
		if !ok {
			break
		}
		request.Data, request.Checksums = nil, nil
		if p := o.packet; p != nil {
			request.Data, request.Checksums, request.Offset = p.data, p.checksums(), p.at-r.block.start
		}
		request.Sync, request.Commit = o.sync, o.commit
		err := stream.Send(&request)
		o.done()
		if err == io.EOF {
			return // receiving tells how the call has ended
		}
		if err != nil {
			r.fail(err)
			return
		}
		r.progress()
		request = rpc.WriteRequest{Offset: request.Offset + int64(len(request.Data))}
		if o.commit {
			break
		}
	}
	_ = stream.CloseSend() // receiving tells, too
}

// endGrace is how long a datanode may take to end a call whose block is committed.
const endGrace = time.Second

// receive receives until the call is over, and returns why it is.
func (r *replica) receive(stream *rpc.WriteStream) error {
	for {
		reply, err := stream.Receive()
		switch {
		case err == io.EOF && r.isStopped():
			return nil
		case err == io.EOF:
			return fmt.Errorf("%w: the datanode has ended the call before the block was at its end", muster.ErrUnavailable)
		case err != nil:
			return err
		}
		if err := r.acknowledge(reply); err != nil {
			return err
		}
		if reply.Committed {
			defer time.AfterFunc(endGrace, r.cancel).Stop()
		}
	}
}

func (r *replica) isStopped() bool {
	r.block.mu.Lock()
	defer r.block.mu.Unlock()
	return r.stopped
}

// acknowledge takes note of what a datanode says.
func (r *replica) acknowledge(reply *pb.WriteReply) error {
	b := r.block
	b.mu.Lock()
	defer b.mu.Unlock()
	n := reply.GetDurable()
	if n < r.durable || n > b.length || reply.GetCommitted() && (n < b.length || !b.ending) {
		return fmt.Errorf("%w: %d bytes are durable (committed: %v), after %d of %d", muster.ErrCorrupt, n, reply.GetCommitted(), r.durable, b.length)
	}
	r.moved, r.durable, r.committed = time.Now(), n, reply.GetCommitted()
	b.changed.set()
	return nil
}

// commit commits the block at a length, once its call is over.
func (r *replica) commit(ctx context.Context, length int64) error {
	t := &r.block.target
	_, err := pb.NewDRPCBlocksClient(r.block.datanodes.Conn(r.node)).CommitBlock(ctx, &pb.CommitBlockRequest{
		Container: t.ID.Container, LocalId: t.ID.LocalID, Token: t.Token, Length: length,
	})
	if err != nil {
		return r.named(err)
	}
	return nil
}

// named says of which datanode an error is.
func (r *replica) named(err error) error {
	return fmt.Errorf("block %v on datanode %s (%s): %w", r.block.target.ID, r.node.ID, net.JoinHostPort(r.node.Host, strconv.Itoa(int(r.node.Port))), err)
}

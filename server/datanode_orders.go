package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// nodeOrders carry out the orders of the location service: to copy a container from another
// datanode, and to drop one. It is safe for concurrent use.
type nodeOrders struct {
	blocks  *store.Store
	reports *reports
	keys    *blockKeys
	pace    pace
}

func newNodeOrders(d *Datanode, o *DatanodeOptions) *nodeOrders {
	return &nodeOrders{blocks: d.blocks, reports: d.reports, keys: d.calls.guard.keys, pace: pace{rate: o.CopyRate}}
}

// carryOut carries out an order, and reports what that has changed, also when it fails.
func (s *nodeOrders) carryOut(ctx context.Context, o muster.Order) error {
	var err error
	switch o.Kind {
	case muster.OrderCopy:
		err = s.copy(ctx, &o)
	case muster.OrderDrop:
		err = s.blocks.Drop(o.Container)
	default:
		err = fmt.Errorf("%w: order of %v", muster.ErrInvalid, o.Kind)
	}
	return errors.Join(err, s.reports.changes(ctx))
}

// copy gets the blocks of a container that are missing or damaged here: from the first source, and what
// that one cannot give, from those after it.
func (s *nodeOrders) copy(ctx context.Context, o *muster.Order) error {
	if len(o.Sources) == 0 {
		return fmt.Errorf("%w: an order to copy container %d from nowhere", muster.ErrInvalid, o.Container)
	}
	var errs []error
	for i := range o.Sources {
		through, err := s.copyFrom(ctx, &o.Sources[i], o.Container)
		if through && o.Closed {
			err = errors.Join(err, s.close(o.Container))
		}
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("copy container %d from datanode %s: %w", o.Container, o.Sources[i].ID, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// close closes a container. It is not there if none of its blocks is left.
func (s *nodeOrders) close(container uint64) error {
	err := s.blocks.CloseContainer(container)
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	return err
}

// copySource is the other side of a copy.
type copySource struct {
	pool *rpc.Pool
	keys *blockKeys
}

const (
	copyConnections = 2 // the list of blocks, and a block
	copyTimeout     = time.Minute
)

// copyFrom copies from one source. It is through if it got to the end of what is there; the error then
// is of blocks that the source could not give.
func (s *nodeOrders) copyFrom(ctx context.Context, n *muster.Node, container uint64) (through bool, err error) {
	from := &copySource{keys: s.keys}
	from.pool = rpc.NewPool(address(n), rpc.PoolOptions{MaxConnections: copyConnections, DialTimeout: nodeDial})
	defer func() { err = errors.Join(err, from.pool.Close()) }()
	ctx = rpc.ClientContext(ctx, muster.Identity{User: rpc.RoleDatanode})
	missing, err := s.missing(ctx, from, container)
	if err != nil {
		return false, err
	}
	var left error // of a block that another source may give
	for _, b := range missing {
		id := muster.BlockID{Container: container, LocalID: b.GetLocalId()}
		if b.GetDamaged() {
			err = fmt.Errorf("block %v: %w: it is damaged there", id, muster.ErrCorrupt)
		} else {
			err = s.copyBlock(ctx, from, id, b)
		}
		if err != nil && !errors.Is(err, muster.ErrExists) && !errors.Is(err, muster.ErrCorrupt) {
			return false, err
		}
		left = cmp.Or(left, err)
	}
	return true, cmp.Or(left, s.damaged(container))
}

// missing returns the committed blocks that the source has and that are damaged here, or are not here
// and were not deleted here.
func (s *nodeOrders) missing(ctx context.Context, from *copySource, container uint64) ([]*pb.ListedBlock, error) {
	t, err := from.token(muster.BlockID{Container: container}, 0)
	if err != nil {
		return nil, err
	}
	stream, err := pb.NewDRPCBlocksClient(from.pool).ListBlocks(ctx, &pb.ListBlocksRequest{Container: container, Token: t})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // it is at its end, or its error is known
	var missing []*pb.ListedBlock
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			return missing, nil
		}
		if err != nil {
			return nil, err
		}
		for _, b := range reply.GetBlocks() {
			if b.GetCommitted() && s.lacks(muster.BlockID{Container: container, LocalID: b.GetLocalId()}) {
				missing = append(missing, b)
			}
		}
	}
}

// lacks says whether a block is to be copied. One that is here and not committed is not: who
// writes it is at it, or the namespace server decides.
func (s *nodeOrders) lacks(id muster.BlockID) bool {
	if info, err := s.blocks.Stat(id); err == nil {
		return info.Committed && info.Damaged
	} else if errors.Is(err, muster.ErrCorrupt) { // its checksums cannot be read
		return true
	}
	return !s.blocks.Deleted(id)
}

// token is the datanode's own, to read a block.
func (f *copySource) token(id muster.BlockID, file uint64) ([]byte, error) {
	sign, err := f.keys.signer(rpc.RoleDatanode, token.Read)
	if err != nil {
		return nil, err
	}
	return sign.token(blockOfFile{id, file}, muster.MaxBlockSize), nil
}

// copyBlock copies one block: all of it, verified, or nothing. Nothing of it is durable before
// it is committed, so that one that does not get so far leaves no block.
func (s *nodeOrders) copyBlock(ctx context.Context, from *copySource, id muster.BlockID, b *pb.ListedBlock) error {
	t, err := from.token(id, b.GetFile())
	if err != nil {
		return err
	}
	w, err := s.writer(id, b.GetFile())
	if errors.Is(err, muster.ErrExists) && !s.lacks(id) {
		return nil // it has come since, or gone for good
	}
	if err == nil {
		err = s.receive(ctx, from, &rpc.ReadRequest{Block: id, Token: t}, w, b.GetLength())
		if err == nil {
			err = w.Commit()
		}
		_ = w.Close() // it does nothing after Commit
	}
	if err != nil {
		return fmt.Errorf("block %v: %w", id, err)
	}
	return nil
}

// receive writes what the source sends of a block. A source that sends nothing for long is
// given up.
func (s *nodeOrders) receive(ctx context.Context, from *copySource, r *rpc.ReadRequest, w *store.Writer, length int64) error {
	if length == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(copyTimeout, func() { cancel(fmt.Errorf("%w: no data for %v", muster.ErrUnavailable, copyTimeout)) })
	defer idle.Stop()
	stream, err := rpc.ReadBlock(ctx, from.pool, r)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it is at its end, or its error is known
	var reply rpc.ReadReply
	defer reply.Release()
	for at := int64(0); ; {
		err := stream.Receive(&reply)
		switch {
		case err == io.EOF && at == length:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%w: %d bytes of %d came", muster.ErrCorrupt, at, length)
		case err != nil:
			return err
		case reply.Offset != at || at+int64(len(reply.Data)) > length:
			return fmt.Errorf("%w: %d bytes at %d came, after %d of %d", muster.ErrCorrupt, len(reply.Data), reply.Offset, at, length)
		}
		idle.Reset(copyTimeout)
		if err := w.Write(at, reply.Data, reply.Checksums); err != nil { // it verifies them
			return err
		}
		at += int64(len(reply.Data))
		if err := s.pace.wait(ctx, len(reply.Data)); err != nil {
			return err
		}
	}
}

// pace bounds a rate. It is safe for concurrent use.
type pace struct {
	rate int64 // a second

	mu   sync.Mutex // guards next
	next time.Time  // when what was taken so far is paid for
}

// wait takes n, and waits until the rate allows for what was taken before.
func (p *pace) wait(ctx context.Context, n int) error {
	pause := p.take(n, time.Now())
	if pause <= 0 {
		return nil
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pace) take(n int, now time.Time) (pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.Before(now) {
		p.next = now
	}
	pause = p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	return pause
}

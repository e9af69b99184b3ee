package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// blockCalls are the calls of a datanode.
type blockCalls struct {
	id        string
	blocks    *store.Store
	guard     guard
	rpc       *rpc.Server
	serving   context.Context // ends when calls are to finish
	superuser string

	writers chan struct{} // has room for one for each block that may be written at a time
	streams atomic.Int64  // of ReadBlock
	writes  atomic.Int64  // calls of WriteBlock
}

var _ pb.DRPCBlocksServer = (*blockCalls)(nil)

// allowed checks a call that names a block: its token before anything else.
func (b *blockCalls) allowed(ctx context.Context, t []byte, id muster.BlockID, mode token.Modes) (grant, error) {
	g, err := b.guard.check(ctx, t, id, mode)
	if err != nil {
		return g, err
	}
	return g, checkBlock(id)
}

// allowedFor is allowed for a block that is here, and was written for the file that the token is for.
func (b *blockCalls) allowedFor(ctx context.Context, t []byte, id muster.BlockID, mode token.Modes) (grant, error) {
	g, err := b.allowed(ctx, t, id, mode)
	if err != nil || !g.checked {
		return g, err
	}
	file, err := b.blocks.FileOf(id)
	if err == nil && file != g.file {
		err = fmt.Errorf("%w: block %v was written for file %d, and the block token is for file %d", muster.ErrUnauthenticated, id, file, g.file)
	}
	return g, err
}

// GetBlock says how long a block is, committed or not, and what its chunks are.
func (b *blockCalls) GetBlock(ctx context.Context, r *pb.GetBlockRequest) (*pb.GetBlockReply, error) {
	id := muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}
	if _, err := b.allowedFor(ctx, r.GetToken(), id, token.Read); err != nil {
		return nil, err
	}
	info, err := b.blocks.Stat(id)
	if err != nil {
		return nil, err
	}
	return &pb.GetBlockReply{
		Length: info.Length, Committed: info.Committed, File: info.File,
		ChecksumBytes: muster.ChecksumBytes, ChunkBytes: muster.ChunkBytes, Chunks: info.Chunks,
	}, nil
}

// CommitBlock makes a written block readable, cut to a length.
func (b *blockCalls) CommitBlock(ctx context.Context, r *pb.CommitBlockRequest) (*pb.CommitBlockReply, error) {
	id := muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}
	g, err := b.allowedFor(ctx, r.GetToken(), id, token.Write)
	switch n := r.GetLength(); {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, fmt.Errorf("%w: commit block %v at length %d", muster.ErrInvalid, id, n)
	case n > g.maxLength:
		return nil, fmt.Errorf("%w: commit block %v at length %d, and the block token is for %d bytes", muster.ErrLimit, id, n, g.maxLength)
	}
	if err := b.blocks.Commit(id, r.GetLength()); err != nil {
		return nil, err
	}
	return &pb.CommitBlockReply{}, nil
}

// maxDeletions bounds the blocks of one call.
const maxDeletions = 10_000

// DeleteBlocks removes blocks, each with an outcome of its own.
func (b *blockCalls) DeleteBlocks(ctx context.Context, r *pb.DeleteBlocksRequest) (*pb.DeleteBlocksReply, error) {
	if n := len(r.GetBlocks()); n > maxDeletions {
		return nil, fmt.Errorf("%w: %d blocks to be deleted by one call, at most %d", muster.ErrLimit, n, maxDeletions)
	}
	reply := &pb.DeleteBlocksReply{Outcomes: make([]*pb.BlockOutcome, 0, len(r.GetBlocks()))}
	for _, m := range r.GetBlocks() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		outcome := new(pb.BlockOutcome)
		outcome.Code, outcome.Message = rpc.ToStatus(b.deleteBlock(ctx, m))
		reply.Outcomes = append(reply.Outcomes, outcome)
	}
	return reply, nil
}

// deleteBlock deletes a block. Only servers get tokens for that; who deletes a block of no file does not
// know of which it was: its token is for file 0.
func (b *blockCalls) deleteBlock(ctx context.Context, m *pb.BlockDeletion) error {
	id := muster.BlockID{Container: m.GetContainer(), LocalID: m.GetLocalId()}
	if _, err := b.allowed(ctx, m.GetToken(), id, token.Delete); err != nil {
		return err
	}
	if m.GetAgain() {
		return b.blocks.Discard(id)
	}
	return b.blocks.Delete(id)
}

// listPart is how many blocks a message of ListBlocks has.
const listPart = 2000

// ListBlocks streams the blocks of a container.
func (b *blockCalls) ListBlocks(r *pb.ListBlocksRequest, stream pb.DRPCBlocks_ListBlocksStream) error {
	container, after := r.GetContainer(), r.GetAfter()
	if _, err := b.guard.check(stream.Context(), r.GetToken(), muster.BlockID{Container: container}, token.Read); err != nil {
		return err
	}
	if container == 0 {
		return fmt.Errorf("%w: container 0; ids begin at 1", muster.ErrInvalid)
	}
	for {
		list, err := b.blocks.List(container, after, listPart)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return nil
		}
		reply := &pb.ListBlocksReply{Blocks: make([]*pb.ListedBlock, len(list))}
		for i, l := range list {
			reply.Blocks[i] = &pb.ListedBlock{LocalId: l.LocalID, Length: l.Length, Committed: l.Committed, Damaged: l.Damaged, File: l.File}
		}
		after = list[len(list)-1].LocalID
		if err := stream.Send(reply); err != nil {
			return err
		}
		if err := b.ending(); err != nil {
			return err
		}
	}
}

// Scrub has all blocks read again now.
func (b *blockCalls) Scrub(ctx context.Context, _ *pb.ScrubRequest) (*pb.ScrubReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	if caller.User != b.superuser && !caller.In(muster.Supergroup) {
		return nil, fmt.Errorf("%w: only the superuser may have blocks scrubbed, not user %q", muster.ErrPermission, caller.User)
	}
	return &pb.ScrubReply{Started: b.blocks.Scrub()}, nil
}

// ending is the error of calls that have to end because the datanode does; nil: it does not.
func (b *blockCalls) ending() error {
	if b.serving.Err() != nil {
		return errEnding
	}
	return nil
}

var errEnding = fmt.Errorf("%w: the datanode is shutting down", muster.ErrUnavailable)

package server

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// extent is a range of a block, widened to whole checksums.
type extent struct {
	from   int64
	length int64
	offset int64 // that was asked for: not past the end
}

// widen returns the extent of a range of at least one byte.
func widen(block muster.BlockID, offset, length int64) (extent, error) {
	switch {
	case offset < 0 || offset > muster.MaxBlockSize:
		return extent{}, fmt.Errorf("%w: read block %v at offset %d", muster.ErrInvalid, block, offset)
	case length <= 0:
		return extent{}, fmt.Errorf("%w: read %d bytes of block %v", muster.ErrInvalid, length, block)
	}
	const whole = muster.ChecksumBytes
	from := offset &^ (whole - 1)
	end := (offset + min(length, muster.MaxBlockSize) + whole - 1) &^ (whole - 1)
	return extent{from, end - from, offset}, nil
}

// past refuses a range that begins past the end of the block, which end is, or not before.
func (e *extent) past(block muster.BlockID, end int64) error {
	if e.offset > end {
		return fmt.Errorf("%w: read block %v at offset %d, and it has %d bytes", muster.ErrInvalid, block, e.offset, end)
	}
	return nil
}

// readChunk is ReadChunk without copies of the data.
func (b *blockCalls) readChunk(ctx context.Context, r *rpc.ReadRequest, reply *rpc.ReadReply) error {
	g, err := b.allowedFor(ctx, r.Token, r.Block, token.Read)
	if err != nil {
		return err
	}
	e, err := widen(r.Block, r.Offset, r.Length)
	if err != nil {
		return err
	}
	if e.length > muster.MaxTransfer {
		return fmt.Errorf("%w: read %d bytes of block %v, with what completes their checksums, at most %d", muster.ErrLimit, e.length, r.Block, muster.MaxTransfer)
	}
	if err := g.covers(r.Block, r.Offset); err != nil {
		return err
	}
	return b.fill(r.Block, &e, e.from, reply.Room(int(e.length)), reply)
}

// covers refuses an offset past what the token is for. What lies beyond in the same message
// is not kept back: the file had no more when the token was made.
func (g *grant) covers(block muster.BlockID, offset int64) error {
	if offset > g.maxLength {
		return fmt.Errorf("%w: offset %d of block %v, and the block token is for %d bytes", muster.ErrLimit, offset, block, g.maxLength)
	}
	return nil
}

// fill reads into room from an offset on, and makes a reply of it.
func (b *blockCalls) fill(block muster.BlockID, e *extent, at int64, room []byte, reply *rpc.ReadReply) error {
	n, sums, err := b.blocks.Read(block, at, room, reply.Checksums[:0])
	if err != nil {
		return err
	}
	reply.Data, reply.Checksums, reply.Offset = room[:n], sums, at
	if n < len(room) {
		return e.past(block, at+int64(n))
	}
	return nil
}

// ReadChunk is what readChunk is called instead of.
func (b *blockCalls) ReadChunk(ctx context.Context, r *pb.ReadRequest) (*pb.ReadReply, error) {
	var reply rpc.ReadReply
	defer reply.Release()
	id := muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}
	if err := b.readChunk(ctx, &rpc.ReadRequest{Block: id, Token: r.GetToken(), Offset: r.GetOffset(), Length: r.GetLength()}, &reply); err != nil {
		return nil, err
	}
	return &pb.ReadReply{Data: append([]byte(nil), reply.Data...), Checksums: reply.Checksums, Offset: reply.Offset}, nil
}

// How much the messages of a stream have: little at first, so that it comes soon, and little
// if there are so many streams that their memory counts.
const (
	firstRead   = 256 << 10
	manyStreams = 64
)

// ReadBlock streams a range of a committed block.
func (b *blockCalls) ReadBlock(r *pb.ReadRequest, stream pb.DRPCBlocks_ReadBlockStream) error {
	ctx, id := stream.Context(), muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}
	g, err := b.allowedFor(ctx, r.GetToken(), id, token.Read)
	if err != nil {
		return err
	}
	length := r.GetLength()
	if length == 0 {
		length = muster.MaxBlockSize
	}
	e, err := widen(id, r.GetOffset(), length)
	if err != nil {
		return err
	}
	if err := g.covers(id, e.offset); err != nil {
		return err
	}
	many := b.streams.Add(1) > manyStreams
	defer b.streams.Add(-1)
	size := int64(firstRead)
	for at, end := e.from, e.from+e.length; at < end; {
		n, err := b.sendPart(stream, id, &e, at, min(size, end-at))
		if err != nil || n < size {
			return err
		}
		if at += n; !many {
			size = muster.MaxTransfer
		}
		if err := b.ending(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return rpc.Cause(ctx)
		}
	}
	return nil
}

// sendPart sends up to so many bytes, and returns how many there were.
func (b *blockCalls) sendPart(stream pb.DRPCBlocks_ReadBlockStream, id muster.BlockID, e *extent, at, size int64) (int64, error) {
	var reply rpc.ReadReply
	defer reply.Release()
	if err := b.fill(id, e, at, reply.Room(int(size)), &reply); err != nil || len(reply.Data) == 0 {
		return 0, err
	}
	return int64(len(reply.Data)), rpc.SendReadReply(stream, &reply)
}

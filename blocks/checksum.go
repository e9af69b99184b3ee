package blocks

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// checksumCalls is how many blocks Checksum asks for at once.
const checksumCalls = 8

// Checksum returns the CRC-32C of the whole file, as far as its length is known. It is put
// together of those of its chunks, which datanodes keep: no data is read. It does not depend
// on where blocks end. If the file has bytes in no block it is muster.ErrNoData.
func (f *File) Checksum(ctx context.Context) (uint32, error) {
	l := f.layout.Load()
	sums := make([]uint32, len(l.blocks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(checksumCalls)
	end := int64(0)
	for i, b := range l.blocks {
		if b.offset != end {
			break
		}
		end += b.length
		group.Go(func() (err error) {
			sums[i], err = f.checksum(ctx, b)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if end < l.length {
		return 0, fmt.Errorf("%w: no block has the byte at %d of %d", muster.ErrNoData, end, l.length)
	}
	sum := uint32(0)
	for i, b := range l.blocks {
		sum = combine(sum, sums[i], b.length)
	}
	return sum, nil
}

// checksum returns the checksum of a block, from the first replica that has it.
func (f *File) checksum(ctx context.Context, b *block) (uint32, error) {
	for a := f.attempt(b); ; {
		s, err := a.next()
		if err != nil {
			return 0, err
		}
		sum, err := f.askChecksum(ctx, b, a.where, s)
		if err == nil {
			a.served(s)
			return sum, nil
		}
		if ctx.Err() != nil {
			return 0, muster.CodeOf(ctx.Err())
		}
		if err = a.failed(s, err); err != nil {
			return 0, err
		}
	}
}

// askChecksum asks one replica.
func (f *File) askChecksum(ctx context.Context, b *block, w *where, s site) (uint32, error) {
	call, cancel := context.WithTimeoutCause(f.ctx, f.options.Timeout, errNoAnswer)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	reply, err := pb.NewDRPCBlocksClient(s.readers).GetBlock(call, &pb.GetBlockRequest{
		Container: b.id.Container, LocalId: b.id.LocalID, Token: w.token,
	})
	switch {
	case err != nil && context.Cause(call) == errNoAnswer:
		return 0, fmt.Errorf("%w: no answer in %v", muster.ErrUnavailable, f.options.Timeout)
	case err != nil:
		return 0, err
	case !reply.GetCommitted():
		return 0, fmt.Errorf("%w: the block is not committed", muster.ErrNoData)
	}
	if err := f.shorten(reply, b); err != nil {
		return 0, err
	}
	return composite(reply, b.length)
}

// shorten makes what is told of a replica that is longer than its block what it is of the block: a
// datanode may have committed all when another failed, and the writer cut the block. The part of a
// chunk at the end has to be read.
func (f *File) shorten(m *pb.GetBlockReply, b *block) error {
	chunk := int64(m.GetChunkBytes())
	if m.GetLength() <= b.length || chunk == 0 || int64(len(m.GetChunks())) != (m.GetLength()+chunk-1)/chunk {
		return nil
	}
	m.Length, m.Chunks = b.length, m.Chunks[:(b.length+chunk-1)/chunk]
	rest := b.length % chunk
	if rest == 0 {
		return nil
	}
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, io.NewSectionReader(f, b.offset+b.length-rest, rest))
	if err == nil && n < rest {
		err = io.ErrUnexpectedEOF
	}
	m.Chunks[len(m.Chunks)-1] = sum.Sum32()
	return err
}

// composite puts the checksum of a block of so many bytes together.
func composite(m *pb.GetBlockReply, length int64) (sum uint32, err error) {
	chunk := int64(m.GetChunkBytes())
	if m.GetLength() != length || chunk == 0 || int64(len(m.GetChunks())) != (length+chunk-1)/chunk {
		return 0, fmt.Errorf("%w: it has %d bytes in %d chunks of %d, instead of %d bytes", muster.ErrCorrupt, m.GetLength(), len(m.GetChunks()), chunk, length)
	}
	for _, c := range m.GetChunks() {
		n := min(chunk, length)
		sum = combine(sum, c, n)
		length -= n
	}
	return sum, nil
}

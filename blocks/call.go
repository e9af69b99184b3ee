package blocks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// caller makes calls one after the other, each with a bound in time, and has the answer to
// the last one. It is used again and again, since a context and a timer for each call would
// cost more than the rest of it, and all would be entered with the file's own context, which
// has a lock.
type caller struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer // cancels ctx
	request rpc.ReadRequest
	reply   rpc.ReadReply
}

var errNoAnswer = errors.New("no answer in time")

// keptCallers is how many callers a file keeps that are not in use.
const keptCallers = 16

// caller returns one that nobody uses.
func (f *File) caller() *caller {
	for i := range f.callers {
		if c := f.callers[i].Swap(nil); c != nil {
			return c
		}
	}
	c := new(caller)
	c.ctx, c.cancel = context.WithCancelCause(f.ctx)
	c.timer = time.AfterFunc(f.options.Timeout, func() { c.cancel(errNoAnswer) })
	c.timer.Stop()
	return c
}

// free takes back a caller, whose answer is not needed any more.
func (f *File) free(c *caller) {
	c.reply.Release()
	if c.ctx.Err() == nil {
		for i := range f.callers {
			if f.callers[i].CompareAndSwap(nil, c) {
				return
			}
		}
	}
	c.cancel(nil)
}

// begin begins the time for an answer.
func (c *caller) begin(timeout time.Duration) { c.timer.Reset(timeout) }

// end ends it. If it was over, the error becomes that, and the caller is of no use any more.
func (c *caller) end(timeout time.Duration, err error) error {
	if !c.timer.Stop() {
		c.cancel(errNoAnswer) // it will be soon
	}
	if err != nil && context.Cause(c.ctx) == errNoAnswer {
		return fmt.Errorf("%w: no answer in %v", muster.ErrUnavailable, timeout)
	}
	return err
}

// readChunk reads the bytes from, to of a block, which are whole checksums but at the end of
// the block, by one call, and verifies them.
func (c *caller) readChunk(conn drpc.Conn, timeout time.Duration) error {
	c.begin(timeout)
	err := c.end(timeout, rpc.ReadChunk(c.ctx, conn, &c.request, &c.reply))
	if err != nil {
		return err
	}
	if int64(len(c.reply.Data)) != c.request.Length {
		return fmt.Errorf("%w: it sent %d bytes from %d on instead of %d", muster.ErrCorrupt, len(c.reply.Data), c.request.Offset, c.request.Length)
	}
	return verify(&c.reply, c.request.Offset)
}

// ask sets the request: the bytes from, to of b.
func (c *caller) ask(b *block, w *where, from, to int64) {
	c.request = rpc.ReadRequest{Block: b.id, Token: w.token, Offset: from, Length: to - from}
}

// verify says whether an answer is the data at offset, and as it was written.
func verify(r *rpc.ReadReply, offset int64) error {
	if r.Offset != offset {
		return fmt.Errorf("%w: it sent bytes from %d on instead of %d", muster.ErrCorrupt, r.Offset, offset)
	}
	data, sums := r.Data, r.Checksums
	if n := (len(data) + muster.ChecksumBytes - 1) / muster.ChecksumBytes; len(data) == 0 || len(sums) != 4*n {
		return fmt.Errorf("%w: it sent %d bytes of checksums for %d of data", muster.ErrCorrupt, len(sums), len(data))
	}
	for at := offset; len(data) > 0; at += muster.ChecksumBytes {
		n := min(len(data), muster.ChecksumBytes)
		if crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(sums) {
			return fmt.Errorf("%w: the bytes from %d on do not have their checksum", muster.ErrCorrupt, at)
		}
		data, sums = data[n:], sums[4:]
	}
	return nil
}

// align returns the whole checksums that the bytes from, to of the block lie in.
func (b *block) align(from, to int64) (int64, int64) {
	const n = muster.ChecksumBytes
	return from - from%n, min((to+n-1)/n*n, b.length)
}

// byStream opens a stream of the bytes that were asked for.
func (c *caller) byStream(conn drpc.Conn, timeout time.Duration) (*rpc.ReadStream, error) {
	c.begin(timeout)
	s, err := rpc.ReadBlock(c.ctx, conn, &c.request)
	return s, c.end(timeout, err)
}

// receive receives a stream's next answer, the bytes from at on, to the end of what was asked
// for at most.
func (c *caller) receive(s *rpc.ReadStream, at int64, timeout time.Duration) error {
	c.begin(timeout)
	err := c.end(timeout, s.Receive(&c.reply))
	if err == io.EOF {
		return fmt.Errorf("%w: it ended at %d", muster.ErrCorrupt, at)
	}
	if err != nil {
		return err
	}
	end, got := c.request.Offset+c.request.Length, at+int64(len(c.reply.Data))
	if got > end || got < end && got%muster.ChecksumBytes != 0 {
		return fmt.Errorf("%w: it sent bytes %d to %d of %d", muster.ErrCorrupt, at, got, end)
	}
	return verify(&c.reply, at)
}

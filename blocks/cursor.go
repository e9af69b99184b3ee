package blocks

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// cursor is the sequential side of a file: where it is read, and what was read ahead.
type cursor struct {
	turn chan struct{} // has one element while somebody uses what follows, parked apart

	at     int64 // in the file
	run    int64 // bytes that were read on and on since the cursor was moved last
	piece  piece
	ahead  ahead
	stream *stream     // is read on; nil: there is none
	crowd  int64       // in the file: up to there it goes by chunk, since no stream was free
	timer  *time.Timer // tidies what nobody uses; nil: there was never anything

	parked atomic.Pointer[stream] // is not read at the moment, though somebody has the turn
}

// piece is data that was verified.
type piece struct {
	from  int64 // in the file
	reply rpc.ReadReply
}

// streamAfter is how much is read on and on before a stream is opened for more, and
// streamAgain how much before that is tried again.
const (
	streamAfter = 1 << 20
	streamAgain = 16 << 20
)

// enter takes the turn. Close ends waiting for it.
func (f *File) enter() error {
	if err := f.ended(); err != nil {
		return err
	}
	select {
	case f.cursor.turn <- struct{}{}:
		return nil
	case <-f.done:
		return f.ended()
	}
}

// leave gives the turn to others. What is held is given up when nobody comes for long.
func (f *File) leave() {
	c := &f.cursor
	if c.holds() {
		f.watch()
	}
	<-c.turn
	if f.closed.Load() {
		f.tidy()
	}
}

func (c *cursor) holds() bool {
	return len(c.piece.reply.Data) > 0 || c.stream != nil || len(c.ahead.reads) > 0
}

// watch has what is held given up after a time. Whoever has the turn calls it.
func (f *File) watch() {
	if c := &f.cursor; c.timer == nil {
		c.timer = time.AfterFunc(f.options.Idle, f.tidy)
	} else {
		c.timer.Reset(f.options.Idle)
	}
}

// tidy gives up what is held, unless somebody has the turn. That one calls watch, or tidy if
// the file is closed; but a stream that it does not read is ended.
func (f *File) tidy() {
	c := &f.cursor
	select {
	case c.turn <- struct{}{}:
	default:
		c.abandon()
		return
	}
	f.drop()
	f.endStream()
	c.piece.forget()
	if f.closed.Load() && c.timer != nil {
		c.timer.Stop()
	}
	<-c.turn
}

// abandon ends the stream if nobody reads it.
func (c *cursor) abandon() {
	if s := c.parked.Load(); s != nil {
		s.abandon()
	}
}

// Read fills p from the cursor on. Less comes at the end of the file, before a failure, and
// with none of them never; at the end it is 0 and io.EOF. With an error n is 0.
func (f *File) Read(p []byte) (n int, err error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	for n < len(p) {
		data, err := f.more(int64(len(p) - n))
		if err != nil {
			if n > 0 {
				return n, nil // and the next Read meets the error again, or not
			}
			return 0, err
		}
		k := copy(p[n:], data)
		f.cursor.advance(k)
		n += k
	}
	return n, nil
}

// WriteTo writes all from the cursor to the end to w. io.Copy uses it. The cursor moves by
// what w took.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	c := &f.cursor
	c.run = max(c.run, streamAfter) // it will be read on and on
	for {
		data, err := f.more(math.MaxInt64)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		k, err := f.writeTo(w, data)
		if k < 0 || k > len(data) {
			return n, fmt.Errorf("%w: the writer says that it took %d bytes of %d", muster.ErrInternal, k, len(data))
		}
		c.advance(k)
		n += int64(k)
		if err == nil && k < len(data) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
	}
}

// writeTo writes to w. The stream does not hold its connection when that takes long.
func (f *File) writeTo(w io.Writer, data []byte) (int, error) {
	c := &f.cursor
	if c.stream == nil {
		return w.Write(data)
	}
	c.parked.Store(c.stream)
	defer c.parked.Store(nil)
	if f.closed.Load() {
		c.abandon() // Close may have come before there was anything to abandon
	}
	f.watch()
	return w.Write(data)
}

// Seek moves the cursor. Past the end is allowed, where reading is io.EOF; before the
// beginning is muster.ErrInvalid, and the cursor stays.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	c := &f.cursor
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = c.at
	case io.SeekEnd:
		base = f.Length()
	default:
		return 0, fmt.Errorf("%w: whence is %d; use io.SeekStart, io.SeekCurrent or io.SeekEnd", muster.ErrInvalid, whence)
	}
	to := base + offset
	if to < 0 { // or more than there is a number for
		return 0, fmt.Errorf("%w: %d bytes from %d is no place in a file", muster.ErrInvalid, offset, base)
	}
	if to != c.at {
		c.at, c.run, c.crowd = to, 0, 0
	}
	return to, nil
}

// advance moves the cursor by n bytes that were delivered.
func (c *cursor) advance(n int) {
	c.at += int64(n)
	c.run += int64(n)
}

// more returns data at the cursor, at least a byte, which stays until the next call. At the
// end it is io.EOF. want is how much will be read on.
func (f *File) more(want int64) ([]byte, error) {
	if f.closed.Load() {
		return nil, fs.ErrClosed
	}
	c := &f.cursor
	if data := c.piece.data(c.at); len(data) > 0 {
		return data, nil
	}
	b, err := f.layout.Load().at(c.at)
	if err != nil {
		return nil, err
	}
	c.piece.forget()
	err = errNoStream
	if f.takesStream(b) {
		if err = f.nextOfStream(b); err == errNoStream {
			c.crowd = c.at + streamAgain
		}
	}
	if err == errNoStream {
		err = f.nextChunk(b, want)
	}
	if err != nil {
		return nil, err
	}
	return c.piece.data(c.at), nil
}

// takesStream says whether the cursor's byte is to come by stream: one is there that comes to
// it soon, or one is wanted. What was read ahead is used before.
func (f *File) takesStream(b *block) bool {
	c := &f.cursor
	if c.stream != nil {
		if c.stream.reaches(b, c.at) {
			return true
		}
		f.endStream()
	}
	return f.wantsStream() && !c.ahead.has(c.at)
}

// wantsStream says whether what comes is to come by stream.
func (f *File) wantsStream() bool {
	c := &f.cursor
	long := f.options.Mode == ByStream || f.options.Mode == Auto && c.run >= streamAfter
	return long && c.at >= c.crowd
}

// take makes the piece the answer that c has, which begins at an offset of the file.
func (p *piece) take(from int64, c *caller) {
	p.from = from
	p.reply, c.reply = c.reply, p.reply
}

// data returns what the piece has from an offset of the file on.
func (p *piece) data(at int64) []byte {
	if at < p.from || at >= p.from+int64(len(p.reply.Data)) {
		return nil
	}
	return p.reply.Data[at-p.from:]
}

// forget gives back the memory.
func (p *piece) forget() {
	p.reply.Release()
	p.reply.Data = nil
}

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// FileWriter is a file that is being written, from its beginning to its end. It must be
// closed or aborted, in the end. Its methods may be called from any goroutine; one that
// writes waits for those that do, and Abort ends them. Errors are *fs.PathError.
//
// Write returns when the data is on its way. Only Close says that all of it is durable on
// the file's datanodes. If one of these fails, what it did not confirm goes elsewhere, and
// the writer notices nothing but the pause. After an error of Write every other fails with
// the same one. If the server cannot be reached for as long as its lease lasts, 60 s unless it
// says otherwise, writing fails with muster.ErrUnavailable: it may have closed the file by then.
type FileWriter struct {
	client  *Client
	path    string // as it was given
	name    string // under which it is written
	target  string // of a file that is written atomically: its name in the end
	file    uint64 // inode id
	options WriteOptions
	life    context.Context         // of all that waits after Create
	cancel  context.CancelCauseFunc // ends it

	writing turn // of those who write, and of Close
	using   turn // of who uses what follows; a writer that waits for its source has the other alone

	writer   *blocks.Writer
	block    muster.BlockID // was given last
	sequence uint64         // of the request for another one that has failed, and may be carried out; 0: there is none

	ending atomic.Bool // Close or Abort was called
}

var (
	_ io.WriteCloser  = (*FileWriter)(nil)
	_ io.ReaderFrom   = (*FileWriter)(nil)
	_ io.StringWriter = (*FileWriter)(nil)
)

// Name returns the path that the file was, or will be, given: that of the call which made it.
func (w *FileWriter) Name() string { return w.path }

// Size returns the bytes that were written so far, durable or not.
func (w *FileWriter) Size() int64 {
	defer w.using.take()()
	return w.writer.Size()
}

// turn is what one goroutine has at a time; others may wait for it as long as calls take.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn.
func (t turn) take() (back func()) {
	t <- struct{}{}
	return t.back
}

func (t turn) back() { <-t }

// Write appends p to the file. It keeps nothing of it.
func (w *FileWriter) Write(p []byte) (int, error) {
	defer w.writing.take()()
	defer w.using.take()()
	if w.life.Err() != nil {
		return 0, pathError("write", w.path, context.Cause(w.life))
	}
	n, err := w.writer.Write(p)
	if err != nil && w.life.Err() != nil {
		err = context.Cause(w.life)
	}
	return n, pathError("write", w.path, err)
}

// WriteString is Write.
func (w *FileWriter) WriteString(s string) (int, error) {
	n, err := w.ReadFrom(strings.NewReader(s))
	return int(n), err
}

// ReadFrom appends all that r has, and returns how much that was. io.Copy uses it, and then
// needs no buffer. An error of r is returned as it is.
func (w *FileWriter) ReadFrom(r io.Reader) (int64, error) {
	defer w.writing.take()()
	defer w.using.take()()
	if w.life.Err() != nil {
		return 0, pathError("write", w.path, context.Cause(w.life))
	}
	from := &source{r: r, using: w.using}
	n, err := w.writer.ReadFrom(from)
	switch {
	case w.life.Err() != nil:
		err = context.Cause(w.life)
	case err != nil && err == from.err:
		return n, err
	}
	return n, pathError("write", w.path, err)
}

// source is the reader of ReadFrom. While it is waited for, which may take for ever, the writer
// may be aborted. It remembers whether it was the reader that failed.
type source struct {
	r     io.Reader
	using turn
	err   error
}

func (s *source) Read(p []byte) (n int, err error) {
	s.using.back()
	defer func() { s.using.take() }()
	n, s.err = s.r.Read(p)
	return n, s.err
}

// Close waits until all that was written is durable on the datanodes, and the file has its
// final length, and its name. A caller whose own source of data has failed calls Abort
// instead, or the file ends there.
//
// After a failed Write, or if it fails itself, it returns that error, and the file has what
// was durable by then, as a local file has after a full disk; of one that is written
// atomically nothing stays. If the server cannot be reached for that, it does so by itself when
// the client's lease has ended: after its last file was closed, that is. A second Close is
// fs.ErrClosed.
func (w *FileWriter) Close() error {
	if w.ending.Swap(true) {
		return pathError("close", w.path, fs.ErrClosed)
	}
	defer w.writing.take()()
	defer w.using.take()()
	defer w.leave(fs.ErrClosed)
	if w.life.Err() != nil {
		_ = w.writer.Close() // why it has ended is known
		return pathError("close", w.path, context.Cause(w.life))
	}
	err := w.writer.Close()
	if err == nil {
		var length int64
		if length, err = w.finish(w.block, w.writer.Last()); err == nil && length >= 0 && length != w.writer.Size() {
			err = corrupt("a file of %d bytes has the length %d", w.writer.Size(), length)
		}
	} else if w.target == "" {
		w.salvage()
	}
	if err != nil && w.target != "" {
		_ = w.client.Remove(w.life, w.name) // err says that it has failed
	}
	if err != nil && w.life.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(w.life), err)
	}
	return pathError("close", w.path, err)
}

// salvage ends the file with what is durable of it. If it may have been given another block
// without a word, the server says so: nothing of that one is kept.
func (w *FileWriter) salvage() {
	_, err := w.finish(w.block, w.writer.Last())
	if errors.Is(err, muster.ErrChanged) && w.sequence != 0 {
		_, _ = w.finish(muster.BlockID{}, 0)
	}
	// Close returns why writing has failed.
}

// finish gives the last block and so the file its final length, and the file the name that it
// is to have. A zero block is whichever is the last one. The length is -1 if it is not known any
// more, since somebody has removed the file before the server was asked again.
func (w *FileWriter) finish(block muster.BlockID, last int64) (length int64, err error) {
	c := w.client
	request := &pb.FinishWriteRequest{
		Client: c.id[:], Sequence: c.sequence.Add(1), File: w.file, Last: last, Ends: rpc.BlockIDToPB(block),
		Rename: []byte(w.target), Overwrite: w.options.Overwrite && w.target != "", Mtime: millis(w.options.MTime),
	}
	reply, err := once(w.life, c, 0, func(ctx context.Context) (*pb.FinishWriteReply, error) { return c.service.FinishWrite(ctx, request) })
	return reply.GetLength(), err
}

// next asks for another block.
func (w *FileWriter) next(ctx context.Context, previous int64, failed []muster.NodeNumber) (blocks.Target, error) {
	c := w.client
	if w.sequence == 0 {
		w.sequence = c.sequence.Add(1) // a request that was refused is made again under its id
	}
	request := &pb.AddBlockRequest{Client: c.id[:], Sequence: w.sequence, File: w.file, Previous: previous, Ends: rpc.BlockIDToPB(w.block), Reader: c.options.Reader}
	attempts := c.options.Attempts
	for _, n := range failed {
		request.Failed = append(request.Failed, uint32(n))
		attempts = 1 // without others it is worth no waiting: the writer asks for any
	}
	var asked time.Time
	reply, err := once(ctx, c, attempts, func(ctx context.Context) (*pb.AddBlockReply, error) {
		asked = time.Now()
		return c.service.AddBlock(ctx, request)
	})
	if err != nil {
		return blocks.Target{}, err
	}
	c.writers.leases.heard(asked)
	t, err := targetOf(w.file, reply.GetTarget())
	w.sequence, w.block = 0, t.ID
	return t, err
}

// errAborted is why calls fail that Abort has ended.
var errAborted = fmt.Errorf("writing was aborted: %w", fs.ErrClosed)

// Abort ends writing and removes the file; what an Overwrite has replaced is not brought
// back, unless the file is written atomically. It ends a Write that waits, and does nothing
// after Close: so it can be deferred. ctx bounds the removal. A file that somebody has renamed
// meanwhile is left alone.
func (w *FileWriter) Abort(ctx context.Context) error {
	if w.ending.Swap(true) {
		return nil
	}
	w.cancel(errAborted)
	defer w.using.take()()
	defer w.leave(errAborted)
	_ = w.writer.Close() // errAborted
	return pathError("abort", w.path, w.remove(ctx))
}

// remove removes the file.
func (w *FileWriter) remove(ctx context.Context) error {
	info, err := w.client.Lstat(ctx, w.name)
	if err == nil && info.Entry.ID == w.file {
		err = w.client.Remove(ctx, w.name)
	}
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	return inner(err)
}

// leave ends what is kept for the file while it is written.
func (w *FileWriter) leave(cause error) {
	w.cancel(cause)
	w.client.writers.remove(w)
}

// shut ends the writer since its client is closed: what was written is left to the server.
func (w *FileWriter) shut() {
	w.cancel(errClientClosed)
	defer w.using.take()()
	_ = w.writer.Close() // errClientClosed
}

// errClientClosed is why writing fails when the client was closed.
var errClientClosed = fmt.Errorf("%w: the client was closed: %w", muster.ErrUnavailable, net.ErrClosed)

// writers are the files that a client writes.
type writers struct {
	leases leases

	mu     sync.Mutex           // guards what follows
	open   map[*FileWriter]bool // whether they are under the lease, and not left from one before
	closed bool
}

// add adds a file under a lease that lasts so long since the server was asked.
func (s *writers) add(w *FileWriter, lease time.Duration, since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClientClosed
	}
	s.open[w] = true
	s.leases.add(lease, since)
	return nil
}

// fence ends all files since the lease has ended, unless it was renewed just now. For them it is not
// renewed any more: the server is to close them.
func (s *writers) fence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases.rest() > 0 {
		return
	}
	for w, leased := range s.open {
		if leased {
			w.cancel(errLeaseEnded)
			s.open[w] = false
			s.leases.remove()
		}
	}
}

// errLeaseEnded is why writing fails when the server cannot be reached for too long.
var errLeaseEnded = fmt.Errorf("%w: the server could not be reached to renew the lease before its end, and closes the file at what was durable; write it again", muster.ErrUnavailable)

// remove removes a file, if it is there.
func (s *writers) remove(w *FileWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[w] {
		s.leases.remove()
	}
	delete(s.open, w)
}

// close ends all files, and waits for their goroutines.
func (s *writers) close() {
	for _, w := range s.shut() {
		w.shut()
		s.remove(w)
	}
	s.leases.wait()
}

func (s *writers) shut() (open []*FileWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for w := range s.open {
		open = append(open, w)
	}
	return open
}

package rpc

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"storj.io/drpc"
	"storj.io/drpc/drpcerr"
	"storj.io/drpc/drpcstream"

	"github.com/muster-fs/muster"
)

// clientStream is a call of a Pool with streams of messages.
type clientStream struct {
	pool   *Pool
	conn   *conn
	stream *drpcstream.Stream
	ctx    context.Context    // the caller's
	cancel context.CancelFunc // cancels the call on the wire

	once     sync.Once
	done     chan struct{} // closed when the caller has enough of the call
	released chan struct{} // closed when the connection was given back

	decoding decoding // of the message that is received

	sent  atomic.Int64 // messages
	ended atomic.Bool  // by the server
}

var _ drpc.Stream = (*clientStream)(nil)

// watch waits until the call is over on the wire and gives its connection back.
func (s *clientStream) watch() {
	defer close(s.released)
	ended := false
	select {
	case <-s.stream.Finished():
		ended = true // by the server, unless the connection is closed
	case <-s.ctx.Done():
		s.stop()
	case <-s.done:
		s.stop()
	}
	s.pool.release(s.conn, ended || s.reusable())
}

// stop ends a call that the server has not ended.
func (s *clientStream) stop() {
	if !s.ended.Load() {
		s.cancel()
	}
	s.conn.awaitEnd(s.stream)
}

// reusable says whether the connection can carry another call once this one is over.
// The server reads a cancellation only after the messages before it, and it does not
// read those while it has enough to do with earlier ones.
func (s *clientStream) reusable() bool { return s.ended.Load() || s.sent.Load() <= 1 }

// Context ends with the call.
func (s *clientStream) Context() context.Context { return s.stream.Context() }

// MsgSend sends a message. io.EOF says that the server has ended the call: receiving
// then tells how. The first message succeeds even so, since the generated code of a call
// with one request would return io.EOF and never ask. A message that is too large fails
// alone, the call goes on.
func (s *clientStream) MsgSend(msg drpc.Message, enc drpc.Encoding) error {
	encoded, ok := msg.(*raw)
	if !ok {
		b, err := encode(msg, enc)
		if err != nil {
			return err
		}
		defer release(b)
		encoded = (*raw)(b)
	}
	first := s.sent.Add(1) == 1
	err := s.stream.MsgSend(encoded, rawEncoding{})
	if drpc.ClosedError.Has(err) {
		err = io.EOF
	}
	if first && err == io.EOF {
		err = nil
	}
	return s.failure(err)
}

// MsgRecv receives a message. After an error, io.EOF or any other, the call is over.
func (s *clientStream) MsgRecv(msg drpc.Message, enc drpc.Encoding) error {
	s.decoding = decoding{enc, muster.ErrCorrupt, &s.conn.transport.incoming}
	err := s.stream.MsgRecv(msg, &s.decoding)
	if err == nil {
		return nil
	}
	if err == io.EOF || drpcerr.Code(err) != 0 {
		s.ended.Store(true)
		<-s.released // at once: it is over on the wire, too
		return s.failure(err)
	}
	err = s.failure(err)
	s.finish()
	return err
}

// CloseSend says that no more messages are sent.
func (s *clientStream) CloseSend() error { return s.failure(s.stream.CloseSend()) }

// Close ends the call, whatever state it is in, and gives its connection back.
func (s *clientStream) Close() error {
	s.finish()
	<-s.released
	return nil
}

func (s *clientStream) finish() { s.once.Do(func() { close(s.done) }) }

func (s *clientStream) failure(err error) error {
	switch {
	case err == nil || drpcerr.Code(err) != 0:
	case s.ctx.Err() != nil && !s.ended.Load():
		return contextError(s.ctx)
	case s.isClosed() && !s.ended.Load():
		return fmt.Errorf("%w: the stream was closed", muster.ErrCancelled)
	}
	return s.pool.failure(s.ctx, err)
}

func (s *clientStream) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

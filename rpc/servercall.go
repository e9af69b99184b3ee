package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"storj.io/drpc"
	"storj.io/drpc/drpcmetadata"
	"storj.io/drpc/drpcstream"

	"github.com/muster-fs/muster"
)

type callKey struct{}

// callContext is the context of a call's handler, which knows the call.
type callContext struct {
	context.Context
	call *call
}

// Value returns the call for its key.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// call is one call on the server, and the stream that its handler sees.
type call struct {
	server *Server
	conn   *serverConn
	stream *drpcstream.Stream
	name   string
	caller muster.Identity
	ctx    context.Context
	own    callContext             // ctx, or a parent of it
	cancel context.CancelCauseFunc // nil if the call has one request and one reply

	decoding decoding       // of the message that is received
	reply    *outgoing      // of a RawFunc, until the end of the call is sent; nil: none
	direct   *directRequest // nil: it has a stream

	waiting bool           // for the one request, under a deadline
	tasks   sync.WaitGroup // see Go
}

var _ drpc.Stream = (*call)(nil)

// handle carries out a call and tells the client how it ended.
func (s *Server) handle(conn *serverConn, stream *drpcstream.Stream, name string) {
	c := &call{server: s, conn: conn, stream: stream, name: name, ctx: stream.Context()}
	started := time.Now()
	err := c.run()
	s.calls.Add(1)
	if err != nil {
		s.failed.Add(1)
		_ = stream.SendError(ToWire(err)) // fails if the client is gone
	} else if err = stream.Close(); err != nil {
		err = c.lost(err)
	}
	c.replied()
	if c.cancel != nil {
		c.cancel(nil)
	}
	c.tasks.Wait()
	c.report(err, time.Since(started))
}

// run admits the call and lets the handler do it.
func (c *call) run() (err error) {
	s := c.server
	defer s.active.Add(-1)
	if n := s.active.Add(1); n > int64(s.options.MaxCalls) {
		s.overloaded.Add(1)
		return fmt.Errorf("%w: the server has %d calls in flight, its limit; try again", muster.ErrUnavailable, s.options.MaxCalls)
	}
	if c.conn.refused {
		s.overloaded.Add(1)
		return fmt.Errorf("%w: the server has %d connections, its limit; try again", muster.ErrUnavailable, s.options.MaxConnections)
	}
	m, known := s.methods[c.name]
	if !known {
		return fmt.Errorf("%w: the server has no call %.100q; it may be older than the client, or have another role", muster.ErrInvalid, c.name)
	}
	md := c.metadata()
	if err := checkMetadata(md); err != nil {
		return err
	}
	if c.caller, err = c.identify(m.audience, md); err != nil {
		return err
	}
	timeout, err := callTimeout(md)
	if err != nil {
		return err
	}
	defer c.prepare(m.unary, timeout)()
	defer func() {
		if p := recover(); p != nil {
			err = c.panicked(p)
		}
	}()
	switch {
	case c.direct != nil:
		return c.replyTo(c.direct.message, m.raw)
	case m.raw != nil:
		return c.runRaw(m.raw)
	}
	return s.mux.HandleRPC(c, c.name)
}

func (c *call) metadata() map[string]string {
	if c.direct != nil {
		return c.direct.metadata
	}
	md, _ := drpcmetadata.Get(c.ctx)
	return md
}

// prepare makes the handler's context. A call of one request and one reply sends its
// reply and its end as one, and must get its request in time.
func (c *call) prepare(unary bool, timeout time.Duration) (cancel context.CancelFunc) {
	cancel = func() {}
	c.own = callContext{c.ctx, c}
	c.ctx = &c.own
	if !unary {
		c.ctx, c.cancel = context.WithCancelCause(c.ctx)
	}
	if timeout > 0 {
		c.ctx, cancel = context.WithTimeout(c.ctx, timeout)
	}
	if unary && c.direct == nil {
		c.stream.SetManualFlush(true)
		c.waiting = c.conn.SetReadDeadline(time.Now().Add(c.server.options.StallTimeout)) == nil
	}
	return cancel
}

func (c *call) panicked(p any) error {
	c.server.panics.Add(1)
	c.server.log.Error("a handler panicked", "call", c.name, "user", c.caller.User, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("%w: the server failed in this call; its log says more", muster.ErrInternal)
}

// report logs the call.
func (c *call) report(err error, took time.Duration) {
	log, level := c.server.log, levelOf(err)
	if !log.Enabled(context.Background(), level) {
		return
	}
	attrs := []any{"call", c.name, "user", c.caller.User, "remote", c.conn.RemoteAddr(), "took", took, "code", muster.CodeOf(err).Name()}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	log.Log(context.Background(), level, "call", attrs...)
}

// levelOf says how loud the end of a call is logged: faults of the server are errors,
// what an administrator may want to know of are warnings, the rest is everyday life.
func levelOf(err error) slog.Level {
	switch muster.CodeOf(err) {
	case muster.ErrInternal, muster.ErrCorrupt:
		return slog.LevelError
	case muster.ErrUnavailable, muster.ErrUnauthenticated, muster.ErrLimit:
		return slog.LevelWarn
	case muster.ErrPermission:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Context is that of the handler: it has the caller and the caller's deadline, and it
// ends with the call, or when the client goes away.
func (c *call) Context() context.Context { return c.ctx }

// MsgSend sends a message.
func (c *call) MsgSend(msg drpc.Message, enc drpc.Encoding) error {
	if _, ok := msg.(*raw); ok {
		return c.lost(c.stream.MsgSend(msg, enc))
	}
	b, err := encode(msg, enc)
	if err != nil {
		return err
	}
	defer release(b)
	return c.lost(c.stream.MsgSend((*raw)(b), rawEncoding{}))
}

// MsgRecv receives a message; io.EOF says that the client sends no more.
func (c *call) MsgRecv(msg drpc.Message, enc drpc.Encoding) error {
	c.decoding = decoding{enc, muster.ErrInvalid, &c.conn.incoming}
	err := c.stream.MsgRecv(msg, &c.decoding)
	if c.waiting {
		c.waiting = false
		_ = c.conn.SetReadDeadline(time.Time{}) // fails if the connection has, which shows
	}
	if err == io.EOF {
		return err
	}
	return c.lost(err)
}

// lost gives a failure to reach the client its code.
func (c *call) lost(err error) error {
	if err == nil {
		return nil
	}
	var code muster.Code
	switch {
	case errors.As(err, &code):
		return err
	case c.conn.stalled.Load():
		return c.conn.stallError()
	}
	return fmt.Errorf("%w: the client ended the call or is gone: %v", muster.ErrCancelled, err)
}

// CloseSend does nothing: the call ends when the handler returns.
func (c *call) CloseSend() error { return nil }

// Close does nothing: the call ends when the handler returns.
func (c *call) Close() error { return nil }

// Go runs f in a goroutine that belongs to the call of a stream handler's context: the
// call is over, and the next one on its connection begins, when f has returned. f may
// receive from the call's stream: receiving fails once the handler has failed or the
// client is gone. A panic of f cancels the handler's context.
func Go(ctx context.Context, f func()) error {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok || c.cancel == nil {
		return fmt.Errorf("%w: not the context of a stream's handler", muster.ErrInternal)
	}
	c.tasks.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				c.cancel(c.panicked(p))
			}
		}()
		f()
	})
	return nil
}

// Cause returns why a call's context has ended: the cause if it has a code, and else
// the context's error.
func Cause(ctx context.Context) error {
	cause := context.Cause(ctx)
	var code muster.Code
	if errors.As(cause, &code) {
		return cause
	}
	return ctx.Err()
}

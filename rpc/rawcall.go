package rpc

import (
	"context"
	"fmt"

	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
)

// RawFunc carries out a call with one request and one reply by their encoded messages:
// it appends the reply to dst. Both are the server's again when it returns.
type RawFunc func(ctx context.Context, request, dst []byte) (reply []byte, err error)

// rawHandler carries out a call by its encoded request: it puts the reply's parts into one
// that has none.
type rawHandler func(ctx context.Context, request []byte, reply *outgoing) error

// HandleRaw lets f carry out a call of the service instead of its method. The call is one
// with one request and one reply; name is the wire's, as in "/package.Service/Method". It
// comes before Serve.
func (s *Server) HandleRaw(name string, f RawFunc) error {
	return s.handleRaw(name, false, func(ctx context.Context, request []byte, reply *outgoing) (err error) {
		b, err := f(ctx, request, reply.fields)
		if err == nil {
			reply.fields = b
			reply.parts = append(reply.parts, b)
		}
		return err
	})
}

func (s *Server) handleRaw(name string, direct bool, f rawHandler) error {
	m := s.methods[name]
	if !m.unary {
		return fmt.Errorf("rpc: %w: the service has no call %q with one request and one reply", muster.ErrInvalid, name)
	}
	m.raw, m.direct = f, direct
	s.direct = s.direct || direct
	s.methods[name] = m
	return nil
}

// runRaw is HandleRPC for f. The request lies in a pooled buffer.
func (c *call) runRaw(f rawHandler) error {
	request := buffers.Get().(*[]byte)
	defer release(request)
	if err := ReceiveRaw(c, request); err != nil {
		return err
	}
	if err := c.replyTo(*request, f); err != nil {
		return err
	}
	b := standIn
	if c.reply.large() {
		c.conn.outgoing.Store(c.reply) // written together with the end of the call
	} else {
		b = c.reply.join()
	}
	return c.lost(c.stream.RawWrite(drpcwire.KindMessage, b))
}

// replyTo makes the reply to a request.
func (c *call) replyTo(request []byte, f rawHandler) error {
	c.reply = newOutgoing()
	if err := f(c.ctx, request, c.reply); err != nil {
		return err
	}
	return checkSize(c.reply.count())
}

// replied gives back the reply of a RawFunc. The call has ended, for the client too.
func (c *call) replied() {
	if c.reply != nil {
		c.conn.outgoing.Store(nil)
		c.reply.release()
		c.reply = nil
	}
}

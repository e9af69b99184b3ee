package rpc

import (
	"context"
	"fmt"

	"storj.io/drpc"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
)

// RawFunc carries out a call with one request and one reply by their encoded messages:
// it appends the reply to dst. Both are the server's again when it returns.
type RawFunc func(ctx context.Context, request, dst []byte) (reply []byte, err error)

// HandleRaw lets f carry out a call of the service instead of its method. The call is one
// with one request and one reply; name is the wire's, as in "/package.Service/Method". It
// comes before Serve.
func (s *Server) HandleRaw(name string, f RawFunc) error {
	if unary, known := s.methods[name]; !known || !unary {
		return fmt.Errorf("rpc: %w: the service has no call %q with one request and one reply", muster.ErrInvalid, name)
	}
	s.raw[name] = f
	return nil
}

// runRaw is HandleRPC for f. Request and reply lie in pooled buffers.
func (c *call) runRaw(f RawFunc) error {
	request, reply := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer release(request)
	defer release(reply)
	if err := c.MsgRecv((*borrowed)(request), borrowing{}); err != nil {
		return err
	}
	b, err := f(c.ctx, *request, (*reply)[:0])
	if err != nil {
		return err
	}
	*reply = b
	if err := checkSize(len(b)); err != nil {
		return err
	}
	return c.lost(c.stream.RawWrite(drpcwire.KindMessage, b))
}

// borrowed is an encoded message that is received into a buffer that grows with it.
type borrowed []byte

// borrowing is the encoding of *borrowed, for receiving alone.
type borrowing struct{}

func (borrowing) Marshal(drpc.Message) ([]byte, error) { return nil, muster.ErrInternal }

func (borrowing) Unmarshal(b []byte, msg drpc.Message) error {
	m := msg.(*borrowed)
	*m = append((*m)[:0], b...)
	return nil
}

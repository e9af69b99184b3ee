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

// HandleRaw lets f carry out a call of the service instead of its method. The call is one
// with one request and one reply; name is the wire's, as in "/package.Service/Method". It
// comes before Serve.
func (s *Server) HandleRaw(name string, f RawFunc) error {
	m := s.methods[name]
	if !m.unary {
		return fmt.Errorf("rpc: %w: the service has no call %q with one request and one reply", muster.ErrInvalid, name)
	}
	m.raw = f
	s.methods[name] = m
	return nil
}

// runRaw is HandleRPC for f. Request and reply lie in pooled buffers.
func (c *call) runRaw(f RawFunc) error {
	request, reply := buffers.Get().(*[]byte), buffers.Get().(*[]byte)
	defer release(request)
	defer release(reply)
	if err := ReceiveRaw(c, request); err != nil {
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

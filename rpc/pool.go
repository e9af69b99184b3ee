package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"storj.io/drpc"
	"storj.io/drpc/drpcerr"
	"storj.io/drpc/drpcmanager"
	"storj.io/drpc/drpcstream"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
)

// PoolOptions say how a pool behaves. The zero value works.
type PoolOptions struct {
	// MaxConnections bounds the open connections and so the calls at one time; further
	// calls wait. 0: 64.
	MaxConnections int
	// WaitTimeout is how long a call waits for a connection to be free; then it fails
	// with muster.ErrUnavailable. 0: 60 s.
	WaitTimeout time.Duration
	// DialTimeout bounds the making of one connection. 0: 10 s.
	DialTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. 0: 60 s.
	IdleTimeout time.Duration
	// StallTimeout ends a connection on which a send makes no progress. 0: 60 s.
	StallTimeout time.Duration
	// PeerKey is proven on each new connection, in the role PeerRole, before its first
	// call; the other side must prove it, too. nil: nothing is proven.
	PeerKey  *PeerKey
	PeerRole string
	// Dial makes a connection; nil dials the pool's address by TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

func (o PoolOptions) withDefaults() PoolOptions {
	o.MaxConnections = positiveOr(o.MaxConnections, 64)
	o.WaitTimeout = positiveOr(o.WaitTimeout, time.Minute)
	o.DialTimeout = positiveOr(o.DialTimeout, 10*time.Second)
	o.IdleTimeout = positiveOr(o.IdleTimeout, time.Minute)
	o.StallTimeout = positiveOr(o.StallTimeout, time.Minute)
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
	return o
}

func positiveOr[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// cancelGrace is how long a connection may take to carry the message that a call was
// cancelled; then it is closed.
const cancelGrace = time.Second

// Pool makes calls to one address. It is a drpc.Conn for generated clients, for any
// number of goroutines: each call has a connection of its own until it ends, since
// dRPC carries one call at a time. Messages are bounded before a connection is touched,
// so one that is too large costs none.
//
// Errors have passed [FromWire]; see [Retryable]. The context's identity and deadline
// go along with the call. When the context of a call ends, the server is told and the
// connection kept. It is closed instead if a write was in flight, or if the server may
// not have read that far: a stream that had sent more than one message.
//
// Calls of ReadChunk have connections of their own, which are closed to cancel a call. Both
// kinds share the bound; if there are as many as may be, an unused one of one kind makes way
// for one of the other.
//
// A stream ends, and gives its connection back, when receiving returns an error (io.EOF
// is the normal one), when its context ends, or by Close, whichever comes first.
type Pool struct {
	address string
	options PoolOptions
	slots   chan struct{}   // one for each call that has, or dials, a connection
	open    context.Context // ends with Close
	close   context.CancelFunc
	out     sync.WaitGroup // calls, and the expiry timer

	mu      sync.Mutex // guards what follows; never held while anything blocks
	closed  bool
	conns   map[*conn]struct{} // all that are open
	idle    []*conn            // unused ones, the longest unused first
	dialing int                // connections that are being made
	expiry  *time.Timer        // runs while there are idle ones
}

// conn is one connection. It is used by one call at a time.
type conn struct {
	*drpcmanager.Manager         // nil: direct is not
	direct               *direct // nil: Manager is not
	transport            transport
	unused               time.Time // since when; zero: it was never kept
}

// NewPool returns a pool of connections to address (host:port), none of which is made
// before the first call.
func NewPool(address string, o PoolOptions) *Pool {
	o = o.withDefaults()
	p := &Pool{
		address: address,
		options: o,
		slots:   make(chan struct{}, o.MaxConnections),
		conns:   make(map[*conn]struct{}),
	}
	p.open, p.close = context.WithCancel(context.Background())
	return p
}

var _ drpc.Conn = (*Pool)(nil)

// Invoke makes a call with one request and one reply.
func (p *Pool) Invoke(ctx context.Context, rpc string, enc drpc.Encoding, in, out drpc.Message) error {
	request, err := encode(in, enc)
	if err != nil {
		return err
	}
	defer release(request)
	callCtx, watch := ctx, unwatched
	if ctx.Done() != nil {
		detached, cancel := detach(ctx)
		callCtx, watch = detached, func() (stop func() bool) { return context.AfterFunc(ctx, cancel) }
	}
	c, stream, err := p.start(ctx, callCtx, rpc)
	if err != nil {
		return err
	}
	stop := watch()
	ended, err := c.exchange(stream, *request, enc, out)
	cancelled := !stop()
	switch {
	case ended:
		<-stream.Finished() // at once, the server has said all
		p.release(c, !cancelled)
	case cancelled:
		go p.settle(c, stream) // joined by Close
	default:
		p.release(c, false)
	}
	return p.failure(ctx, err)
}

// unwatched is the watch over a context that never ends.
func unwatched() (stop func() bool) { return func() bool { return true } }

// detach returns a context with ctx's values for dRPC to watch. It is cancelled only
// to cancel a call that goes on, never to clean up: dRPC may close a connection whose
// context ends when its call has ended just now. It holds nothing that needs cleaning.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithoutCancel(ctx))
}

// exchange sends a request and receives its reply, then the end of the call, which is
// on its way with the reply: so the connection is free without another message. It says
// whether the server has ended the call.
func (c *conn) exchange(stream *drpcstream.Stream, request []byte, enc drpc.Encoding, out drpc.Message) (ended bool, err error) {
	sendErr := stream.RawWrite(drpcwire.KindMessage, request)
	if sendErr == nil {
		sendErr = stream.CloseSend() // flushes
	}
	// The server may have answered before it had all of the request, and be gone already.
	answer := &decoding{enc, muster.ErrCorrupt, &c.transport.incoming}
	if err = stream.MsgRecv(out, answer); err == io.EOF {
		// The first receive may only say that the rest of the request could not be flushed.
		err = stream.MsgRecv(out, answer)
	}
	switch {
	case err == nil:
		_, end := stream.RawRecv()
		return end == io.EOF, nil
	case drpcerr.Code(err) != 0:
		return true, err
	case err == io.EOF:
		return false, broken("the server ended the call without an answer")
	case sendErr != nil && sendErr != io.EOF:
		return false, sendErr
	}
	return false, err
}

// NewStream starts a call with streams of messages. The call reaches the server at
// once. One goroutine may send while another receives.
func (p *Pool) NewStream(ctx context.Context, rpc string, enc drpc.Encoding) (drpc.Stream, error) {
	callCtx, cancel := detach(ctx)
	c, stream, err := p.start(ctx, callCtx, rpc)
	if err != nil {
		return nil, err
	}
	s := &clientStream{
		pool: p, conn: c, stream: stream, ctx: ctx, cancel: cancel,
		done: make(chan struct{}), released: make(chan struct{}),
	}
	go s.watch() // joined by the pool's Close
	if err := stream.RawFlush(); err != nil {
		_ = s.Close()
		return nil, p.failure(ctx, fmt.Errorf("start the call: %w", err))
	}
	return s, nil
}

// start takes a connection and begins a call on it, which dRPC cancels with callCtx. A
// kept connection that turns out to be closed is replaced: nothing was asked on it yet.
func (p *Pool) start(ctx, callCtx context.Context, rpc string) (*conn, *drpcstream.Stream, error) {
	md, err := callMetadata(ctx)
	if err != nil {
		return nil, nil, unsentError{err}
	}
	for {
		c, err := p.acquire(ctx, false)
		if err != nil {
			return nil, nil, unsentError{err}
		}
		kept := !c.unused.IsZero()
		stream, err := c.begin(callCtx, rpc, md)
		if err == nil && !(kept && c.isClosed()) {
			return c, stream, nil
		}
		p.release(c, false)
		if !kept {
			return nil, nil, p.failure(ctx, fmt.Errorf("start the call: %w", err))
		}
	}
}

// begin begins a call; the messages that say so wait for the first flush.
func (c *conn) begin(ctx context.Context, rpc string, md []byte) (*drpcstream.Stream, error) {
	stream, err := c.NewClientStream(ctx, rpc)
	if err != nil {
		return nil, err
	}
	if len(md) > 0 {
		if err := stream.RawWrite(drpcwire.KindInvokeMetadata, md); err != nil {
			return nil, err
		}
	}
	return stream, stream.RawWrite(drpcwire.KindInvoke, []byte(rpc))
}

// settle waits until a cancelled call is over and gives its connection back.
func (p *Pool) settle(c *conn, stream *drpcstream.Stream) {
	c.awaitEnd(stream)
	p.release(c, true)
}

// awaitEnd waits until a call that was cancelled, or that the server has ended, is over
// on the wire. To cancel, the connection tells the server, or closes itself if a write
// is in flight; if even that takes long it is closed here.
func (c *conn) awaitEnd(stream *drpcstream.Stream) {
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case <-stream.Finished():
	case <-grace.C:
		_ = c.Close() // ends the stream
		<-stream.Finished()
	}
}

// failure makes of a call's error what the caller can use. A bare io.EOF is the end of
// a stream; dRPC wraps that of a connection.
func (p *Pool) failure(ctx context.Context, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var code muster.Code
	var other *Error
	if wire := FromWire(err); errors.As(wire, &other) || errors.As(err, &code) {
		return wire
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	if p.open.Err() != nil {
		return p.closedError()
	}
	return broken("the connection to %s ended before the answer: %v", p.address, err)
}

// contextError returns the context's error with its code and cause.
func contextError(ctx context.Context) error {
	code, cause := muster.CodeOf(ctx.Err()), context.Cause(ctx)
	if cause == ctx.Err() {
		return code
	}
	return fmt.Errorf("%w: %w", code, cause)
}

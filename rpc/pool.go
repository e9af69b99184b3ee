package rpc

import (
	"context"
	"net"
	"time"

	"storj.io/drpc"
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
	// Dial makes a connection; nil dials the pool's address by TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Pool makes calls to one address. It is a drpc.Conn for generated clients.
type Pool struct{}

// NewPool returns a pool of connections to address (host:port), none of which is made
// before the first call.
func NewPool(address string, o PoolOptions) *Pool { panic("not yet") }

func (p *Pool) Invoke(ctx context.Context, rpc string, enc drpc.Encoding, in, out drpc.Message) error {
	panic("not yet")
}

func (p *Pool) NewStream(ctx context.Context, rpc string, enc drpc.Encoding) (drpc.Stream, error) {
	panic("not yet")
}

// Close closes the connections and waits for their calls, which fail.
func (p *Pool) Close() error { panic("not yet") }

// Closed returns a channel that is closed once Close was called.
func (p *Pool) Closed() <-chan struct{} { panic("not yet") }

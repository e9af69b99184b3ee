package rpc

import (
	"context"
	"log/slog"
	"net"
	"time"

	"storj.io/drpc"
)

// ServerOptions are the limits of a server. The zero value works.
type ServerOptions struct {
	// MaxConnections bounds the open connections. 0: 4,096.
	MaxConnections int
	// MaxCalls bounds the calls in flight over all connections. 0: 1,024.
	MaxCalls int
	// HandshakeTimeout is how long a new connection may take to say that it speaks
	// this protocol. 0: 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long a connection may stay without a call. 0: 10 min.
	IdleTimeout time.Duration
	// StallTimeout ends a connection on which a send makes no progress, or on which the
	// request of a call does not come. 0: 60 s.
	StallTimeout time.Duration
	// Logger gets failed calls and refused connections, and at debug level all calls;
	// nil discards them.
	Logger *slog.Logger
}

// Server serves the calls of one service.
type Server struct{}

// NewServer returns a server of the service that desc describes, with impl's methods.
func NewServer(impl any, desc drpc.Description, o ServerOptions) (*Server, error) { panic("not yet") }

// Serve accepts connections until Shutdown.
func (s *Server) Serve(lis net.Listener) error { panic("not yet") }

// Shutdown stops gracefully.
func (s *Server) Shutdown(ctx context.Context) error { panic("not yet") }

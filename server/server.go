// Package server runs a namespace server: a tree, its listing, and the calls over them.
package server

import (
	"context"
	"log/slog"
	"net"

	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
)

// Options configure a server. Dir is required; the rest has a zero value that works.
type Options struct {
	Dir     string // folder of the store; made if missing
	Listen  string // host:port; "" is 127.0.0.1:0: loopback, any free port
	KeyFile string // cluster key, 32 bytes raw or hexadecimal; "": Dir/cluster.key, made at the first start
	Version string // told to clients, for people

	Namespace namespace.Options
	Listing   listing.Config // its Key is the cluster key, whatever is set
	RPC       rpc.ServerOptions
	Logger    *slog.Logger // nil discards; also for Namespace and RPC unless they have one
}

// Server is a running namespace server.
type Server struct{}

// Start opens the store, listens and serves.
func Start(ctx context.Context, o Options) (*Server, error) { panic("not yet") }

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { panic("not yet") }

// Done is closed when the server has stopped: after Shutdown, or by itself.
func (s *Server) Done() <-chan struct{} { panic("not yet") }

// Err says why the server stopped by itself; nil after Shutdown and while it runs.
func (s *Server) Err() error { panic("not yet") }

// Shutdown stops the server.
func (s *Server) Shutdown(ctx context.Context) error { panic("not yet") }

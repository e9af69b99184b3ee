// Package server runs a namespace server: a tree, its listing, and the calls over them.
//
// [Start] opens the store, listens and serves; [Server.Shutdown] finishes the calls in
// progress and closes the store. A server whose store fails stops by itself: watch
// [Server.Done], then ask [Server.Err]. All of it is safe for concurrent use.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Options configure a server. Dir is required; the rest has a zero value that works.
type Options struct {
	Dir     string // folder of the store and the cluster key; made if missing
	Listen  string // host:port; "" is 127.0.0.1:0: loopback, any free port
	KeyFile string // cluster key, 32 bytes raw or hexadecimal; "": Dir/cluster.key, made at the first start
	Version string // told to clients, for people

	Namespace namespace.Options
	Listing   listing.Config // a Key is taken instead of the key file
	RPC       rpc.ServerOptions
	Logger    *slog.Logger // nil discards; also for Namespace and RPC unless they have their own
}

// Validate names the first option that is out of bounds.
func (o Options) Validate() error {
	if o.Dir == "" {
		return fmt.Errorf("%w: no data folder", muster.ErrInvalid)
	}
	return cmp.Or(o.Namespace.Validate(), o.Listing.Validate(), o.RPC.Validate())
}

// fatalGrace is how long calls in progress may take to get their answer when the store
// has failed.
const fatalGrace = 5 * time.Second

// Server is a running namespace server.
type Server struct {
	log  *slog.Logger
	tree *namespace.Tree
	rpc  *rpc.Server
	lis  net.Listener

	stop     sync.Once
	stopping chan context.Context // of Shutdown; has room for one
	fatal    chan error           // of the store; has room for one
	done     chan struct{}        // closed when all has ended; guards the errors
	err      error                // why it ended by itself
	stopErr  error                // what went wrong while it stopped
}

// Start opens the store, listens and serves. The context bounds the start alone.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s := &Server{
		log:      o.Logger,
		stopping: make(chan context.Context, 1),
		fatal:    make(chan error, 1),
		done:     make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.open(ctx, o); err != nil {
		return nil, fmt.Errorf("start server: %w", s.abandon(err))
	}
	go s.run() // ends with the server: Done
	return s, nil
}

// open makes the parts. Those that it made before it failed are for abandon.
func (s *Server) open(ctx context.Context, o Options) (err error) {
	o.Namespace.OnFatal = s.onFatal(o.Namespace.OnFatal)
	if o.Namespace.Logger == nil {
		o.Namespace.Logger = s.log
	}
	if o.RPC.Logger == nil {
		o.RPC.Logger = s.log
	}
	// The tree comes first: it finds out whose folder this is, and how old.
	if s.tree, err = namespace.Open(o.Dir, o.Namespace); err != nil {
		return err
	}
	if len(o.Listing.Key) == 0 {
		if o.Listing.Key, err = clusterKey(o.Dir, o.KeyFile, s.log); err != nil {
			return err
		}
	}
	lister, err := listing.New(s.tree, o.Listing)
	if err != nil {
		return err
	}
	compressor, err := rpc.NewCompressor()
	if err != nil {
		return err
	}
	h := &handlers{tree: s.tree, lister: lister, compressor: compressor, log: s.log, version: o.Version, started: time.Now()}
	if s.rpc, err = rpc.NewServer(h, pb.DRPCNamespaceDescription{}, o.RPC); err != nil {
		return err
	}
	h.rpc = s.rpc
	if err := s.rpc.HandleRaw(listPageCall, h.listPage); err != nil {
		return err
	}
	var lc net.ListenConfig
	s.lis, err = lc.Listen(ctx, "tcp", cmp.Or(o.Listen, "127.0.0.1:0"))
	if err != nil {
		return fmt.Errorf("%w: %w", muster.ErrUnavailable, err)
	}
	return nil
}

// abandon closes what a failed start has opened, and returns err.
func (s *Server) abandon(err error) error {
	if s.tree == nil {
		return err
	}
	return errors.Join(err, s.tree.Close())
}

// onFatal returns what the tree calls when it has failed.
func (s *Server) onFatal(also func(error)) func(error) {
	return func(err error) {
		s.fatal <- err // called once, so there is room
		if also != nil {
			also(err)
		}
	}
}

// run serves until the server is told to stop, or cannot go on; then it ends everything.
func (s *Server) run() {
	defer close(s.done)
	served := make(chan error, 1)
	go func() { served <- s.rpc.Serve(s.lis) }()
	s.log.Info("serving", "address", s.lis.Addr())
	ctx := context.Background()
	select {
	case ctx = <-s.stopping:
	case s.err = <-s.fatal:
	case s.err = <-served:
		served <- nil
	}
	if s.err != nil {
		s.log.Error("the server ends", "error", s.err)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, fatalGrace)
		defer cancel()
	}
	stopErr := s.rpc.Shutdown(ctx)
	<-served
	closeErr := s.tree.Close()
	if s.err == nil {
		s.stopErr = errors.Join(stopErr, closeErr)
	}
	s.log.Info("stopped")
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.lis.Addr() }

// Done is closed when the server has ended: after Shutdown, or by itself.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server has ended by itself. It is nil while it runs, and after
// Shutdown.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Shutdown lets the calls in progress finish, ends everything and closes the store. If
// the context ends first those calls are cancelled and its error is returned; the store
// is closed all the same. A server that has ended by itself returns why.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() { s.stopping <- ctx })
	<-s.done
	return cmp.Or(s.err, s.stopErr)
}

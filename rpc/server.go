package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"storj.io/drpc"
	"storj.io/drpc/drpcmux"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// ServerOptions are the limits of a server. The zero value works.
type ServerOptions struct {
	// MaxConnections bounds the open connections; on one past it each call is
	// answered with muster.ErrUnavailable. 0: 4,096.
	MaxConnections int
	// MaxCalls bounds the calls in flight over all connections; one past it is answered
	// with muster.ErrUnavailable. 0: 1,024.
	MaxCalls int
	// HandshakeTimeout is how long a new connection may take to say that it speaks
	// this protocol. 0: 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long a connection may stay without a call. 0: 10 min.
	IdleTimeout time.Duration
	// StallTimeout ends a connection on which a send makes no progress, or on which the
	// request of a call does not come. 0: 60 s.
	StallTimeout time.Duration
	// PeerKey is what peers prove on their connections, and the server to them; nil: there
	// are no peers.
	PeerKey *PeerKey
	// Logger gets failed calls and refused connections, and at debug level all of
	// them; nil discards.
	Logger *slog.Logger
}

// Validate names the first setting that is out of bounds.
func (o ServerOptions) Validate() error {
	switch {
	case o.MaxConnections < 0:
		return fmt.Errorf("%w: max connections %d; use 1 or more, or 0 for the default", muster.ErrInvalid, o.MaxConnections)
	case o.MaxCalls < 0:
		return fmt.Errorf("%w: max calls %d; use 1 or more, or 0 for the default", muster.ErrInvalid, o.MaxCalls)
	case o.HandshakeTimeout < 0 || o.IdleTimeout < 0 || o.StallTimeout < 0:
		return fmt.Errorf("%w: a timeout below 0 (handshake %v, idle %v, stall %v)", muster.ErrInvalid, o.HandshakeTimeout, o.IdleTimeout, o.StallTimeout)
	}
	return nil
}

func (o ServerOptions) withDefaults() ServerOptions {
	o.MaxConnections = positiveOr(o.MaxConnections, 4096)
	o.MaxCalls = positiveOr(o.MaxCalls, 1024)
	o.HandshakeTimeout = positiveOr(o.HandshakeTimeout, 10*time.Second)
	o.IdleTimeout = positiveOr(o.IdleTimeout, 10*time.Minute)
	o.StallTimeout = positiveOr(o.StallTimeout, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ServerStats are the counters of a server since it was made.
type ServerStats struct {
	Connections int64  // open now
	CallsActive int64  // in flight now
	Accepted    uint64 // connections
	Refused     uint64 // connections: past the limit, or not of this protocol
	Calls       uint64 // that have ended
	Failed      uint64 // of them, with an error
	Overload    uint64 // of them, past the limit of calls or connections
	Panics      uint64 // of handlers
}

// counters are the changing form of ServerStats.
type counters struct {
	connections, active                                  atomic.Int64
	accepted, refused, calls, failed, overloaded, panics atomic.Uint64
}

// Server serves the calls of its services: it finds the handler, says who calls and until
// when, turns its errors into wire codes, and survives its panics.
//
// The order is NewServer, further services, any number of concurrent Serve, Shutdown.
type Server struct {
	options ServerOptions
	log     *slog.Logger
	mux     *drpcmux.Mux
	methods map[string]method // by the wire's names
	direct  bool              // there are methods for direct calls
	counters

	ctx    context.Context // of all calls; ends when a stop is not graceful any more
	cancel context.CancelFunc
	wg     sync.WaitGroup // connections

	mu        sync.Mutex // guards what follows
	stopping  bool
	listeners map[net.Listener]struct{}
	conns     map[*serverConn]struct{}
}

// NewServer returns a server of the service for users that desc describes, with impl's methods.
func NewServer(impl any, desc drpc.Description, o ServerOptions) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	if err := s.add(impl, desc, forUsers); err != nil {
		return nil, err
	}
	return s, nil
}

func newServer(o ServerOptions) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("rpc: %w", err)
	}
	s := &Server{
		options:   o.withDefaults(),
		mux:       drpcmux.New(),
		methods:   make(map[string]method),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*serverConn]struct{}),
	}
	s.log = s.options.Logger
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if o.PeerKey != nil {
		if err := s.add(peerService{o.PeerKey}, pb.DRPCPeerDescription{}, forAnyone); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Stats returns the counters.
func (s *Server) Stats() ServerStats {
	return ServerStats{
		Connections: s.connections.Load(), CallsActive: s.active.Load(), Accepted: s.accepted.Load(), Refused: s.refused.Load(),
		Calls: s.calls.Load(), Failed: s.failed.Load(), Overload: s.overloaded.Load(), Panics: s.panics.Load(),
	}
}

// Serve accepts connections from lis until Shutdown, which makes it return nil, or
// until lis fails. It closes lis.
func (s *Server) Serve(lis net.Listener) error {
	defer func() { _ = lis.Close() }()
	if !s.addListener(lis) {
		return nil
	}
	defer s.removeListener(lis)
	for pause := time.Duration(0); ; {
		nc, err := lis.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(nc)
		case s.isStopping():
			return nil
		case isTemporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("cannot accept a connection; will try again", "error", err, "pause", pause)
			s.sleep(pause)
		default:
			return fmt.Errorf("accept connections on %v: %w", lis.Addr(), err)
		}
	}
}

// isTemporary says whether accepting may work later, as when files ran out.
func isTemporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}

func (s *Server) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

func (s *Server) addListener(lis net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.listeners[lis] = struct{}{}
	return true
}

func (s *Server) removeListener(lis net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, lis)
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// refusing is how many connections past the limit are kept for a moment, to be told so.
const refusing = 64

// accept serves a connection in a goroutine of its own, or closes it if there are far
// too many.
func (s *Server) accept(nc net.Conn) {
	s.accepted.Add(1)
	c := &serverConn{server: s}
	c.begin(nc, s.options.StallTimeout)
	if !s.admit(c) {
		s.refused.Add(1)
		_ = nc.Close() // it was not used
		return
	}
	if c.refused {
		s.refused.Add(1)
	}
	s.connections.Add(1)
	go c.serve()
}

// admit adds the connection to those that Shutdown waits for, and decides what to do
// with its calls.
func (s *Server) admit(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := len(s.conns)
	if s.stopping || open >= s.options.MaxConnections+refusing {
		return false
	}
	c.refused = open >= s.options.MaxConnections
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Server) forget(c *serverConn) {
	defer s.wg.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.connections.Add(-1)
}

// Shutdown stops the server: it accepts nothing more, closes the connections without a
// call, and waits for the others to finish theirs. If ctx ends first, those calls are
// cancelled and their connections closed, and Shutdown returns the context's error.
// Either way every goroutine of the server has ended when it returns.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.wg.Wait()
	}()
	defer s.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	for _, c := range s.stop() {
		_ = c.Close() // a send may be stuck in it
	}
	<-done
	return fmt.Errorf("stop: calls in progress were cancelled: %w", contextError(ctx))
}

// stop ends what is not a call in progress, and returns the connections that are left.
func (s *Server) stop() (busy []*serverConn) {
	listeners, conns := s.beginStop()
	for _, lis := range listeners {
		_ = lis.Close() // Serve has nothing to report about it
	}
	for _, c := range conns {
		if !c.endIfIdle() {
			busy = append(busy, c)
		}
	}
	return busy
}

func (s *Server) beginStop() ([]net.Listener, []*serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	return slices.Collect(maps.Keys(s.listeners)), slices.Collect(maps.Keys(s.conns))
}

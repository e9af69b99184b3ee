package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a namespace service whose calls a test sets.
type service struct {
	pb.DRPCNamespaceUnimplementedServer
	stat func(context.Context, *pb.PathRequest) (*pb.EntryReply, error)
	list func(pb.DRPCNamespace_ListStream) error
}

func (s *service) Stat(ctx context.Context, r *pb.PathRequest) (*pb.EntryReply, error) {
	return s.stat(ctx, r)
}

// Lstat answers with its path, in every test.
func (s *service) Lstat(_ context.Context, r *pb.PathRequest) (*pb.EntryReply, error) {
	return &pb.EntryReply{Kind: 1, Name: r.Path}, nil
}

func (s *service) List(stream pb.DRPCNamespace_ListStream) error { return s.list(stream) }

// startServer serves s on loopback until the test ends, and then expects a clean stop.
func startServer(t *testing.T, s *service, o ServerOptions) (*Server, string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, s, lis, o), lis.Addr().String()
}

func serve(t *testing.T, s *service, lis net.Listener, o ServerOptions) *Server {
	t.Helper()
	server := made(t, s, o)
	run(t, server, lis)
	return server
}

func made(t *testing.T, s *service, o ServerOptions) *Server {
	t.Helper()
	server, err := NewServer(s, pb.DRPCNamespaceDescription{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// run runs a server until the test ends, and then expects a clean stop.
func run(t *testing.T, server *Server, lis net.Listener) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		// Nothing may need to be cancelled but what the test left in progress.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// newPool returns a pool that is closed when the test ends, before its server stops.
func newPool(t *testing.T, addr string, o PoolOptions) *Pool {
	t.Helper()
	p := NewPool(addr, o)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func client(p *Pool) pb.DRPCNamespaceClient { return pb.NewDRPCNamespaceClient(p) }

// as is a context of a call by user.
func as(ctx context.Context, user string) context.Context {
	return ClientContext(ctx, muster.Identity{User: user})
}

// check makes a call that always works and looks at its answer.
func check(t *testing.T, p *Pool) {
	t.Helper()
	r, err := client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{Path: []byte("/check")})
	if err != nil {
		t.Fatalf("a plain call: %v", err)
	}
	if string(r.Name) != "/check" {
		t.Fatalf("a plain call answered %q", r.Name)
	}
}

func wantCode(t *testing.T, err error, code muster.Code) {
	t.Helper()
	if !errors.Is(err, code) || muster.CodeOf(err) != code {
		t.Fatalf("got error %v (%s), want %s", err, muster.CodeOf(err).Name(), code.Name())
	}
}

// counting counts and remembers the connections that a pool dials.
type counting struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *counting) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		c.add(nc)
	}
	return nc, err
}

func (c *counting) add(nc net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, nc)
}

func (c *counting) dials() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

// pipes is a network of net.Pipe, for tests in a synctest bubble. It is a listener and
// dials itself.
type pipes struct {
	counting
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dialPipe(ctx context.Context, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accept <- theirs:
		p.add(ours)
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

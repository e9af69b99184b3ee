package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestHandlerPanicIsAnErrorOfItsCall(t *testing.T) {
	var log syncBuffer
	server, addr := startServer(t, &service{
		stat: func(context.Context, *pb.PathRequest) (*pb.EntryReply, error) { panic("the secret reason") },
		list: func(s pb.DRPCNamespace_ListStream) error {
			if err := s.Send(&pb.ListReply{}); err != nil {
				return err
			}
			panic("the secret reason")
		},
	}, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	for range 3 {
		_, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
		wantCode(t, err, muster.ErrInternal)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the caller was told %q", err)
		}
		s, err := client(p).List(as(t.Context(), "u"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, muster.ErrInternal)
		check(t, p)
	}
	if n := server.Stats().Panics; n != 6 {
		t.Errorf("%d panics were counted, want 6", n)
	}
	if !strings.Contains(log.String(), "the secret reason") || !strings.Contains(log.String(), "server_test.go") {
		t.Errorf("the log has neither reason nor stack:\n%s", log.String())
	}
	if n := dialed.dials(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

func TestPanicInAGoroutineOfACallEndsTheCall(t *testing.T) {
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		if err := Go(s.Context(), func() { panic("oh") }); err != nil {
			return err
		}
		<-s.Context().Done()
		return Cause(s.Context())
	}}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	wantCode(t, err, muster.ErrInternal)
	check(t, p)
}

func TestGoroutinesOfACallEndBeforeTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, what)
		}
		network := newPipes()
		serve(t, &service{
			list: func(s pb.DRPCNamespace_ListStream) error {
				err := Go(s.Context(), func() {
					_, err := s.Recv()      // until the handler has failed
					time.Sleep(time.Second) // a next call would not wait as long
					note("received " + muster.CodeOf(err).Name())
				})
				if err != nil {
					return err
				}
				return muster.ErrNotFound
			},
			stat: func(ctx context.Context, _ *pb.PathRequest) (*pb.EntryReply, error) {
				note("next call")
				return &pb.EntryReply{}, Go(ctx, func() {})
			},
		}, network, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{MaxConnections: 1, Dial: network.dialPipe})
		s, err := client(p).List(as(t.Context(), "u"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, muster.ErrNotFound)
		_, err = client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
		wantCode(t, err, muster.ErrInternal) // no stream, no goroutine
		if want := []string{"received CANCELLED", "next call"}; !slices.Equal(events, want) || network.dials() != 1 {
			t.Errorf("got %v on %d connections, want %v on one", events, network.dials(), want)
		}
	})
}

func TestDeadlineAndIdentityReachTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		var left time.Duration
		var caller muster.Identity
		serve(t, &service{stat: func(ctx context.Context, _ *pb.PathRequest) (*pb.EntryReply, error) {
			left = 0
			if d, ok := ctx.Deadline(); ok {
				left = time.Until(d)
			}
			var err error
			if caller, err = Caller(ctx); err != nil {
				return nil, err
			}
			if left == 3*time.Second {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &pb.EntryReply{}, nil
		}}, network, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
		ctx := ClientContext(t.Context(), muster.Identity{User: "anna", Groups: []string{"staff", "domain users"}})
		if _, err := client(p).Stat(ctx, &pb.PathRequest{}); err != nil || left != 0 {
			t.Errorf("without a deadline the handler had %v; error %v", left, err)
		}
		if caller.User != "anna" || !caller.In("staff") || !caller.In("domain users") || len(caller.Groups) != 2 {
			t.Errorf("the caller was %+v", caller)
		}
		timed, cancel := context.WithTimeout(as(t.Context(), "otto"), 2*time.Second)
		defer cancel()
		if _, err := client(p).Stat(timed, &pb.PathRequest{}); err != nil || left != 2*time.Second {
			t.Errorf("with 2 s to go the handler had %v; error %v", left, err)
		}
		if caller.User != "otto" || len(caller.Groups) != 0 {
			t.Errorf("the second caller was %+v", caller)
		}
		passing, cancel := context.WithTimeout(as(t.Context(), "otto"), 3*time.Second)
		defer cancel()
		_, err := client(p).Stat(passing, &pb.PathRequest{})
		wantCode(t, err, muster.ErrDeadline)
		if !errors.Is(err, context.DeadlineExceeded) || Retryable(err) {
			t.Errorf("past the deadline: %v", err)
		}
		_, err = client(p).Stat(passing, &pb.PathRequest{})
		wantCode(t, err, muster.ErrDeadline)
		check(t, p)
	})
}

func TestCallsWithoutAnIdentityAreRefused(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	_, err := client(p).Lstat(t.Context(), &pb.PathRequest{})
	wantCode(t, err, muster.ErrUnauthenticated)
	for _, id := range []muster.Identity{{}, {User: "a\nb"}, {User: "a", Groups: []string{""}}, {User: strings.Repeat("u", 256)}} {
		_, err := client(p).Lstat(ClientContext(t.Context(), id), &pb.PathRequest{})
		wantCode(t, err, muster.ErrUnauthenticated)
	}
	check(t, p)
}

func TestUnknownCallIsNamed(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	err := p.Invoke(as(t.Context(), "u"), "/muster.v1.Namespace/Levitate", rawEncoding{}, &raw{}, &raw{})
	wantCode(t, err, muster.ErrInvalid)
	if !strings.Contains(err.Error(), "Levitate") {
		t.Errorf("got %v", err)
	}
	err = p.Invoke(as(t.Context(), "u"), "/muster.v1.Namespace/Lstat", rawEncoding{}, &raw{0xff}, &raw{})
	wantCode(t, err, muster.ErrInvalid) // bytes that are no request
	check(t, p)
}

// The generated code of a call with one request and many replies sends, and gives up when
// that fails: it would not learn why a server ended the call at once.
func TestACallThatEndedBeforeItsRequestTellsWhy(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	s, err := p.NewStream(as(t.Context(), "u"), "/muster.v1.Namespace/Levitate", rawEncoding{})
	if err != nil {
		t.Fatal(err)
	}
	<-s.Context().Done()
	if err := s.MsgSend(&raw{1}, rawEncoding{}); err != nil {
		t.Errorf("the first message: %v", err)
	}
	if err := s.MsgSend(&raw{1}, rawEncoding{}); err != io.EOF {
		t.Errorf("a later message: %v", err)
	}
	if err := s.CloseSend(); err != nil {
		t.Errorf("the end of the messages: %v", err)
	}
	wantCode(t, s.MsgRecv(&raw{}, rawEncoding{}), muster.ErrInvalid)
	check(t, p)
}

func TestCallsPastTheLimitAreUnavailable(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	server, addr := startServer(t, &service{stat: func(context.Context, *pb.PathRequest) (*pb.EntryReply, error) {
		entered <- struct{}{}
		<-release
		return &pb.EntryReply{}, nil
	}}, ServerOptions{MaxCalls: 2})
	p := newPool(t, addr, PoolOptions{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{}); err != nil {
				t.Errorf("a call within the limit: %v", err)
			}
		})
		<-entered
	}
	_, err := client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrUnavailable)
	if !Retryable(err) || !strings.Contains(err.Error(), "2 calls in flight") {
		t.Errorf("got %v", err)
	}
	close(release)
	wg.Wait()
	check(t, p)
	if s := server.Stats(); s.Overload != 1 || s.CallsActive != 0 || s.Calls != 4 || s.Failed != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestConnectionsPastTheLimitAreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		server := serve(t, &service{}, network, ServerOptions{MaxConnections: 2})
		var kept []*Pool
		for range 2 {
			p := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
			check(t, p)
			kept = append(kept, p)
		}
		late := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
		_, err := client(late).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
		wantCode(t, err, muster.ErrUnavailable)
		if !Retryable(err) || !strings.Contains(err.Error(), "2 connections") {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := server.Stats().Connections; n != 2 {
			t.Errorf("%d connections are open, want 2", n)
		}
		check(t, kept[1])
		_ = kept[0].Close()
		synctest.Wait()
		check(t, late)

		// Far too many are closed without a word, and even those that are told wait no
		// longer than the handshake takes.
		for range 2 * refusing {
			if _, err := network.dialPipe(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := server.Stats().Connections; n != 2+refusing {
			t.Errorf("%d connections are open, want %d", n, 2+refusing)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := server.Stats().Connections; n != 2 {
			t.Errorf("%d connections are open, want 2", n)
		}
		check(t, late)
	})
}

// The answer to a call that is refused at once is not lost, although most of the request
// is still on its way then.
func TestRefusedConnectionGetsItsAnswerWhateverItSends(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{MaxConnections: 1})
	p := newPool(t, addr, PoolOptions{})
	check(t, p)
	for range 20 {
		late := newPool(t, addr, PoolOptions{})
		_, err := client(late).Lstat(as(t.Context(), "u"), &pb.PathRequest{Path: make([]byte, 3<<20)})
		wantCode(t, err, muster.ErrUnavailable)
		if !strings.Contains(err.Error(), "1 connections, its limit") {
			t.Fatalf("got %v", err)
		}
		_ = late.Close()
	}
}

// answered is a connection whose long writes end when the answer to them comes.
type answered struct {
	net.Conn
	came chan struct{}
	once sync.Once
}

func (a *answered) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	a.once.Do(func() { close(a.came) })
	return n, err
}

func (a *answered) Write(b []byte) (int, error) {
	n, err := a.Conn.Write(b)
	if len(b) > writeBuffer {
		<-a.came
	}
	return n, err
}

// An answer that comes while the end of the request, a few bytes, has not been sent is
// the call's all the same. It is handled while that end is written, sooner or later.
func TestAnAnswerBeforeTheEndOfTheRequestCounts(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{MaxConnections: 1})
	check(t, newPool(t, addr, PoolOptions{}))
	for range 300 {
		late := newPool(t, addr, PoolOptions{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			nc, err := d.DialContext(ctx, "tcp", addr)
			return &answered{Conn: nc, came: make(chan struct{})}, err
		}})
		_, err := client(late).Lstat(as(t.Context(), "u"), &pb.PathRequest{Path: make([]byte, 64<<10)})
		wantCode(t, err, muster.ErrUnavailable)
		if !strings.Contains(err.Error(), "1 connections, its limit") {
			t.Fatalf("got %v", err)
		}
		_ = late.Close()
	}
}

func TestServerOptionsAreChecked(t *testing.T) {
	for _, o := range []ServerOptions{{MaxCalls: -1}, {MaxConnections: -1}, {IdleTimeout: -1}} {
		_, err := NewServer(&service{}, pb.DRPCNamespaceDescription{}, o)
		wantCode(t, err, muster.ErrInvalid)
	}
}

// syncBuffer is a log for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

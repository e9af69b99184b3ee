package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmetadata"
	"storj.io/drpc/drpcmigrate"
	"storj.io/drpc/drpcwire"

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
	var mu sync.Mutex
	var events []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, what)
	}
	_, addr := startServer(t, &service{
		list: func(s pb.DRPCNamespace_ListStream) error {
			err := Go(s.Context(), func() {
				_, err := s.Recv() // until the handler has failed
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
	}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{MaxConnections: 1})
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	wantCode(t, err, muster.ErrNotFound)
	_, err = client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrInternal) // no stream, no goroutine
	if len(events) != 2 || events[0] != "received CANCELLED" {
		t.Errorf("got %v", events)
	}
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

func TestGarbageConnectionsAreClosed(t *testing.T) {
	var log syncBuffer
	server, addr := startServer(t, &service{}, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := newPool(t, addr, PoolOptions{})
	check(t, p)
	frame := drpcwire.AppendFrame(nil, drpcwire.Frame{Kind: drpcwire.KindInvoke, ID: drpcwire.ID{Stream: 1, Message: 1}, Done: true, Data: []byte("x")})
	for name, sent := range map[string]string{
		"http":            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"tls":             "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"short":           "DRPC",
		"plain drpc":      string(frame),
		"bad varint":      preface + strings.Repeat("\xff", 64),
		"unknown kind":    preface + string(frame) + "\x7f\x01\x02\x00",
		"ids go back":     preface + string(frame) + string(frame),
		"unknown call":    preface + string(frame),
		"bad metadata":    preface + "\x0f\x01\x01\x03\xff\xff\xff",
		"oversize packet": preface + "\x04\x01\x01\xff\xff\xff\xff\x0f" + strings.Repeat("x", 5<<20),
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			_, _ = nc.Write([]byte(sent)) // may fail half way
			_ = nc.(*net.TCPConn).CloseWrite()
			_, _ = io.ReadAll(nc) // until the server closes
			check(t, p)
		})
	}
	_ = p.Close()
	if !strings.Contains(log.String(), "not a Muster client") {
		t.Errorf("the log does not name the strangers:\n%s", log.String())
	}
	if n := server.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

// A client that does not check sizes is cut off, and nobody else.
func TestRequestOf5MiBFromACarelessClient(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	careless := drpcconn.New(drpcmigrate.NewHeaderConn(nc, preface))
	defer func() { _ = careless.Close() }()
	ctx := drpcmetadata.Add(t.Context(), keyUser, "u")
	_, err = pb.NewDRPCNamespaceClient(careless).Lstat(ctx, &pb.PathRequest{Path: make([]byte, 5<<20)})
	if err == nil {
		t.Fatal("a request of 5 MiB was answered")
	}
	<-careless.Closed()
	check(t, p)
}

func TestSilentConnectionsAreTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		server := serve(t, &service{}, network, ServerOptions{})
		dial := func(sent string) {
			nc, err := network.dialPipe(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = nc.Write([]byte(sent))
		}
		dial("")                // says nothing
		dial("DRP")             // half a preface
		dial(preface)           // no call
		dial(preface + "\x0f")  // half a frame
		dial(preface + "GET /") // a frame of another kind, which dRPC waits with
		call := preface
		call += string(drpcwire.AppendFrame(nil, drpcwire.Frame{Kind: drpcwire.KindInvokeMetadata, ID: drpcwire.ID{Stream: 1, Message: 1}, Done: true,
			Data: []byte("\x0a\x09\x0a\x04user\x12\x01u")}))
		call += string(drpcwire.AppendFrame(nil, drpcwire.Frame{Kind: drpcwire.KindInvoke, ID: drpcwire.ID{Stream: 1, Message: 2}, Done: true,
			Data: []byte("/muster.v1.Namespace/Lstat")}))
		dial(call) // no request
		for _, step := range []struct {
			after time.Duration
			open  int64
		}{{0, 6}, {11 * time.Second, 4}, {50 * time.Second, 3}, {10 * time.Minute, 0}} {
			time.Sleep(step.after)
			synctest.Wait()
			if n := server.Stats().Connections; n != step.open {
				t.Errorf("after %v more: %d connections are open, want %d", step.after, n, step.open)
			}
		}
		p := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
		check(t, p)
	})
}

func TestClientThatStopsReadingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, left := newPipes(), make(chan error, 1)
		server := serve(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
			var err error
			for err == nil {
				err = SendRaw(s, make([]byte, 256<<10))
			}
			left <- err
			return err
		}}, network, ServerOptions{StallTimeout: 60 * time.Second})
		p := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
		s, err := client(p).List(as(t.Context(), "u"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // slow is not stuck
			if err := s.MsgRecv(new(raw), rawEncoding{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Second)
		}
		started := time.Now()
		err = <-left
		wantCode(t, err, muster.ErrUnavailable)
		if took := time.Since(started); took > 60*time.Second || !strings.Contains(err.Error(), "took no data for 1m0s") {
			t.Errorf("after %v: %v", took, err)
		}
		synctest.Wait()
		if n := server.Stats().Connections; n != 0 {
			t.Errorf("%d connections are open, want 0", n)
		}
		check(t, p)
		for err = nil; err == nil; {
			err = s.MsgRecv(new(raw), rawEncoding{})
		}
		wantCode(t, err, muster.ErrUnavailable)
	})
}

func TestVanishedClientEndsTheHandler(t *testing.T) {
	left := make(chan error, 1)
	server, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		_, err := s.Recv()
		for err == nil {
			err = SendRaw(s, make([]byte, 256<<10))
		}
		left <- err
		return err
	}}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := s.MsgRecv(new(raw), rawEncoding{}); err != nil {
		t.Fatal(err)
	}
	_ = dialed.conns[0].(*net.TCPConn).SetLinger(0) // the machine is gone: a reset, no goodbye
	_ = dialed.conns[0].Close()
	wantCode(t, <-left, muster.ErrCancelled)
	check(t, p)
	if n := server.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestShutdownFinishesCallsInProgress(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const messages = 50
	entered, proceed := make(chan struct{}), make(chan struct{})
	server := serve(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		close(entered)
		<-proceed
		for i := range messages {
			if err := s.Send(&pb.ListReply{Frame: make([]byte, 100_000), Done: i == messages-1}); err != nil {
				return err
			}
		}
		return nil
	}}, lis, ServerOptions{})
	p := newPool(t, lis.Addr().String(), PoolOptions{})
	check(t, p)
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	check(t, p) // on a second connection, which is idle then
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(t.Context()) }()
	for err == nil { // until the server has begun to stop
		_, err = client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
	}
	wantCode(t, err, muster.ErrUnavailable)
	select {
	case err := <-stopped:
		t.Fatalf("shutdown did not wait: %v", err)
	default:
	}
	close(proceed)
	for i := range messages {
		m, err := s.Recv()
		if err != nil || m.Done != (i == messages-1) {
			t.Fatalf("message %d: %v, %v", i, m.GetDone(), err)
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatalf("at the end: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownCancelsWhatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		server, err := NewServer(&service{
			stat: func(ctx context.Context, _ *pb.PathRequest) (*pb.EntryReply, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			list: func(s pb.DRPCNamespace_ListStream) error {
				var err error
				for err == nil {
					err = s.Send(&pb.ListReply{Frame: make([]byte, 100_000)})
				}
				return err
			},
		}, pb.DRPCNamespaceDescription{}, ServerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(network) }()
		p := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
		failed := make(chan error, 1)
		go func() {
			_, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
			failed <- err
		}()
		if _, err := client(p).List(as(t.Context(), "u")); err != nil { // and never reads
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		started := time.Now()
		wantCode(t, server.Shutdown(ctx), muster.ErrDeadline)
		if took := time.Since(started); took != 5*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		err = <-failed
		wantCode(t, err, muster.ErrUnavailable)
		if !Retryable(err) {
			t.Errorf("%v is not retryable", err)
		}
		if n := server.Stats().Connections; n != 0 {
			t.Errorf("%d connections are open", n)
		}
		if err := server.Serve(newPipes()); err != nil {
			t.Errorf("serve after shutdown: %v", err)
		}
	})
}

func TestServeGoesOnAfterTemporaryFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		server := serve(t, &service{}, &flaky{pipes: network, failures: 5}, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{Dial: network.dialPipe})
		check(t, p)
		if n := server.Stats().Accepted; n != 1 {
			t.Errorf("%d connections were accepted, want 1", n)
		}
		broken, err := NewServer(&service{}, pb.DRPCNamespaceDescription{}, ServerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := broken.Serve(&flaky{pipes: newPipes(), failures: -1}); err == nil {
			t.Error("a listener that failed for good was no error")
		}
		_ = broken.Shutdown(t.Context())
	})
}

// flaky is a listener that fails a number of times, or for good.
type flaky struct {
	*pipes
	failures int
}

type temporary struct{}

func (temporary) Error() string   { return "too many open files" }
func (temporary) Temporary() bool { return true }

func (f *flaky) Accept() (net.Conn, error) {
	switch {
	case f.failures < 0:
		return nil, errors.New("the network is gone")
	case f.failures > 0:
		f.failures--
		return nil, temporary{}
	}
	return f.pipes.Accept()
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

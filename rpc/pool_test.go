package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestPoolReusesAConnection(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	for range 20 {
		check(t, p)
	}
	if n := dialed.dials(); n != 1 {
		t.Errorf("20 calls one after another dialed %d connections, want 1", n)
	}
}

func TestPoolKeepsAConnectionWhoseCallFailed(t *testing.T) {
	_, addr := startServer(t, &service{stat: func(context.Context, *pb.PathRequest) (*pb.EntryReply, error) {
		return nil, fmt.Errorf("%w: /x", muster.ErrNotFound)
	}}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	for range 20 {
		_, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
		wantCode(t, err, muster.ErrNotFound)
		var remote *Error
		if !errors.As(err, &remote) || remote.Text != "no such file or directory: /x" {
			t.Fatalf("got %#v", err)
		}
	}
	if n := dialed.dials(); n != 1 {
		t.Errorf("20 calls dialed %d connections, want 1", n)
	}
}

func TestPoolBoundsConnectionsAndWaits(t *testing.T) {
	const most, calls = 3, 24
	var active, highest atomic.Int64
	gate, entered := make(chan struct{}), make(chan struct{}, calls)
	_, addr := startServer(t, &service{stat: func(context.Context, *pb.PathRequest) (*pb.EntryReply, error) {
		n := active.Add(1)
		defer active.Add(-1)
		for {
			old := highest.Load()
			if n <= old || highest.CompareAndSwap(old, n) {
				break
			}
		}
		entered <- struct{}{}
		<-gate
		return &pb.EntryReply{}, nil
	}}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{MaxConnections: most, Dial: dialed.dial})
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if _, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{}); err != nil {
				t.Errorf("call: %v", err)
			}
		})
	}
	for range most {
		<-entered
	}
	close(gate)
	wg.Wait()
	if n := dialed.dials(); n > most {
		t.Errorf("%d connections were dialed, at most %d allowed", n, most)
	}
	if n := highest.Load(); n != most {
		t.Errorf("at most %d calls ran at one time, want %d", n, most)
	}
}

func TestPoolWaitEndsWithAClearError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, release := newPipes(), make(chan struct{})
		serve(t, &service{stat: func(context.Context, *pb.PathRequest) (*pb.EntryReply, error) {
			<-release
			return &pb.EntryReply{}, nil
		}}, network, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{MaxConnections: 1, WaitTimeout: 7 * time.Second, Dial: network.dialPipe})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{}); err != nil {
				t.Errorf("the call that holds the connection: %v", err)
			}
		})
		synctest.Wait()
		started := time.Now()
		_, err := client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
		wantCode(t, err, muster.ErrUnavailable)
		if took := time.Since(started); took != 7*time.Second || !strings.Contains(err.Error(), "all 1 connections to pipe") {
			t.Errorf("after %v: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = client(p).Lstat(as(ctx, "u"), &pb.PathRequest{})
		if !errors.Is(err, muster.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || Retryable(err) {
			t.Errorf("with a deadline: %v; want unavailable and deadline exceeded, not to be retried", err)
		}
		close(release)
		wg.Wait()
	})
}

func TestPoolClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		s := serve(t, &service{}, network, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{IdleTimeout: time.Minute, Dial: network.dialPipe})
		check(t, p)
		time.Sleep(59 * time.Second)
		check(t, p)
		time.Sleep(59 * time.Second)
		check(t, p)
		synctest.Wait()
		if n := network.dials(); n != 1 || s.Stats().Connections != 1 {
			t.Errorf("within the idle time: %d dials, %d open; want 1 and 1", n, s.Stats().Connections)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if n := s.Stats().Connections; n != 0 {
			t.Errorf("%d connections are open after the idle time, want 0", n)
		}
		check(t, p)
		if n := network.dials(); n != 2 {
			t.Errorf("%d dials, want 2", n)
		}
	})
}

func TestPoolDropsConnectionsThatTheServerClosed(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	first, err := NewServer(&service{}, pb.DRPCNamespaceDescription{}, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- first.Serve(lis) }()
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	check(t, p)
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-served

	_, err = client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrUnavailable)
	if !Retryable(err) {
		t.Errorf("with the server gone: %v is not retryable", err)
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, &service{}, again, ServerOptions{})
	check(t, p)
	if n := dialed.dials(); n != 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
}

// A server that dies when it has the request, before it answers, is what a restart
// looks like to calls in progress.
func TestBrokenConnectionIsRetryable(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = lis.Close() }()
	wg.Go(func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(nc, make([]byte, len(preface)+10))
			_ = nc.Close()
		}
	})
	p := newPool(t, lis.Addr().String(), PoolOptions{})
	_, err = client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrUnavailable)
	if !Retryable(err) || errors.Is(err, context.Canceled) {
		t.Errorf("unary: %v; want a retryable error that is nobody's cancellation", err)
	}
	stream, err := client(p).List(as(t.Context(), "u"))
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, muster.ErrUnavailable)
	if !Retryable(err) {
		t.Errorf("stream: %v is not retryable", err)
	}
}

func TestNoServerIsRetryable(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	_ = lis.Close()
	_, err = client(newPool(t, addr, PoolOptions{})).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrUnavailable)
	if !Retryable(err) || strings.Count(err.Error(), addr) != 1 || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, retryable %v; want the address once and the reason", err, Retryable(err))
	}
}

func TestPoolCloseEndsCalls(t *testing.T) {
	entered := make(chan struct{}, 2)
	_, addr := startServer(t, &service{
		stat: func(ctx context.Context, _ *pb.PathRequest) (*pb.EntryReply, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		list: func(s pb.DRPCNamespace_ListStream) error {
			entered <- struct{}{}
			<-s.Context().Done()
			return nil
		},
	}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	check(t, p)
	failed := make(chan error, 2)
	go func() {
		_, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
		failed <- err
	}()
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := s.Recv()
		failed <- err
	}()
	<-entered
	<-entered
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{})
	for _, err := range []error{err, <-failed, <-failed} {
		wantCode(t, err, muster.ErrUnavailable)
		if !errors.Is(err, net.ErrClosed) || Retryable(err) {
			t.Errorf("got %v, retryable %v; want net.ErrClosed, not retryable", err, Retryable(err))
		}
	}
	<-p.Closed()
	if err := p.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestTooLargeMessagesFailAloneAtTheSender(t *testing.T) {
	server, addr := startServer(t, &service{
		stat: func(context.Context, *pb.PathRequest) (*pb.EntryReply, error) {
			return &pb.EntryReply{LinkTarget: make([]byte, MaxMessage)}, nil
		},
		list: func(s pb.DRPCNamespace_ListStream) error {
			_, err := s.Recv()
			if err == nil {
				err = s.Send(&pb.ListReply{Frame: make([]byte, MaxMessage-8)})
			}
			if err == nil {
				err = SendRaw(s, make([]byte, MaxMessage+1))
			}
			return err
		},
	}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	_, err := client(p).Lstat(as(t.Context(), "u"), &pb.PathRequest{Path: make([]byte, 5<<20)})
	wantCode(t, err, muster.ErrLimit)
	if !strings.Contains(err.Error(), "at most 4194304") || dialed.dials() != 0 {
		t.Errorf("request of 5 MiB: %v, after %d dials", err, dialed.dials())
	}
	check(t, p)
	_, err = client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrLimit)
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Send(&pb.ListRequest{Paths: make([]byte, 5<<20)}), muster.ErrLimit)
	if err := s.Send(&pb.ListRequest{Paths: make([]byte, MaxMessage-8)}); err != nil {
		t.Fatalf("the largest message, after one that was refused: %v", err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatalf("the largest reply: %v", err)
	}
	_, err = s.Recv()
	wantCode(t, err, muster.ErrLimit)
	check(t, p)
	if n := dialed.dials(); n != 1 || server.Stats().Accepted != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

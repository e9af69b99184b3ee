package rpc

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func TestCancelledCallLeavesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, left := newPipes(), make(chan error, 1)
		serve(t, &service{stat: func(ctx context.Context, _ *pb.PathRequest) (*pb.EntryReply, error) {
			<-ctx.Done()
			left <- ctx.Err()
			return nil, ctx.Err()
		}}, network, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{MaxConnections: 1, Dial: network.dialPipe})
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, err := client(p).Stat(as(ctx, "u"), &pb.PathRequest{})
				failed <- err
			}()
			synctest.Wait() // the request is with the handler
			cancel()
			err := <-failed
			wantCode(t, err, muster.ErrCancelled)
			if !errors.Is(err, context.Canceled) || Retryable(err) {
				t.Fatalf("got %v", err)
			}
			if err := <-left; err == nil {
				t.Fatal("the handler's context did not end")
			}
			check(t, p)
		}
		if n := network.dials(); n != 1 {
			t.Errorf("10 cancelled calls used %d connections, want 1", n)
		}
	})
}

func TestCancelledStreamLeavesTheConnection(t *testing.T) {
	left := make(chan error, 1)
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		_, err := s.Recv()
		for err == nil {
			err = s.Send(&pb.ListReply{Frame: make([]byte, 1000)})
		}
		left <- err
		return err
	}}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{MaxConnections: 1, Dial: dialed.dial})
	for i := range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := client(p).List(as(ctx, "u"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.ListRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			cancel()
		} else {
			_ = s.Close()
		}
		for err == nil {
			_, err = s.Recv()
		}
		wantCode(t, err, muster.ErrCancelled)
		wantCode(t, <-left, muster.ErrCancelled)
		check(t, p)
		cancel()
	}
	if n := dialed.dials(); n != 1 {
		t.Errorf("10 cancelled streams used %d connections, want 1", n)
	}
}

func TestCancelDuringAWriteReplacesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, stop := newPipes(), make(chan struct{})
		serve(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
			<-stop // reads nothing, so the client's writes get stuck
			var err error
			for err == nil {
				_, err = s.Recv()
			}
			return err
		}}, network, ServerOptions{})
		p := newPool(t, "pipe", PoolOptions{MaxConnections: 1, Dial: network.dialPipe})
		ctx, cancel := context.WithCancel(t.Context())
		s, err := client(p).List(as(ctx, "u"))
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = s.Send(&pb.ListRequest{Paths: make([]byte, 1<<20)})
			}
			sent <- err
		}()
		synctest.Wait() // until nothing moves
		cancel()
		wantCode(t, <-sent, muster.ErrCancelled)
		close(stop)
		check(t, p)
		if n := network.dials(); n != 2 {
			t.Errorf("%d connections were made, want 2", n)
		}
	})
}

// A server that has enough to do does not read on, and so would not see a soft
// cancellation behind many messages.
func TestCancelledStreamOfManyMessagesReplacesTheConnection(t *testing.T) {
	left := make(chan error, 1)
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		_, err := s.Recv() // no more
		for err == nil {
			err = s.Send(&pb.ListReply{Frame: make([]byte, 1000)})
		}
		left <- err
		return err
	}}, ServerOptions{StallTimeout: time.Hour})
	var dialed counting
	p := newPool(t, addr, PoolOptions{MaxConnections: 1, Dial: dialed.dial})
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := s.Send(&pb.ListRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	select {
	case err := <-left:
		wantCode(t, err, muster.ErrCancelled)
	case <-time.After(20 * time.Second):
		t.Fatal("the server goes on with a stream that was cancelled")
	}
	check(t, p)
	if n := dialed.dials(); n != 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
}

// Whatever happens at the very moment of a cancellation, the connection is right for
// the next call or is not used for it.
func TestCancelAtAnyMoment(t *testing.T) {
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		for range 3 {
			if err := s.Send(&pb.ListReply{}); err != nil {
				return err
			}
		}
		return nil
	}}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{MaxConnections: 2})
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%30)*10*time.Microsecond)
		_, err := client(p).Lstat(as(ctx, "u"), &pb.PathRequest{})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call with a deadline: %v", err)
		}
		if s, err := client(p).List(as(ctx, "u")); err == nil {
			for err == nil {
				_, err = s.Recv()
			}
			if err != io.EOF && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a stream with a deadline: %v", err)
			}
		}
		cancel()
		check(t, p)
	}
}

package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

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

package server_test

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// TestASlowReaderSlowsItsOwnStreamOnly lets streams wait for clients that do not read,
// more than there are processors, while others list. What waits goes on when it is read.
func TestASlowReaderSlowsItsOwnStreamOnly(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 2000)
	paths := make([]string, 60) // far more rows than any socket's buffer holds
	for i := range paths {
		paths[i] = "/d"
	}
	const slow = 3
	var streams []pb.DRPCNamespace_ListClient
	sent := make(chan error, slow)
	for range slow {
		s := in.begin(t, root(t), chunk(false, "/d"))
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
		go func() {
			sent <- s.Send(chunk(true, paths...))
		}()
	}
	for range 5 {
		last, err := drain(in.begin(t, root(t), chunk(true, paths[:5]...)))
		if err != nil || last.TotalRows != 10_000 {
			t.Fatalf("a stream beside slow ones: %v, %v", last, err)
		}
		in.check(t)
	}
	if n := in.counter(t, "calls_active"); n != slow+1 {
		t.Errorf("%v streams wait for their readers, want %d", n-1, slow)
	}
	for _, s := range streams {
		last, err := drain(s)
		if want := uint64(2000 * (1 + len(paths))); err != nil || last.TotalRows != want {
			t.Errorf("a slow stream: %d rows, %v, want %d", last.GetTotalRows(), err, want)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

// TestAStreamThatIsCutAtAnyMessageLeavesNothing ends streams by a goodbye, by the
// caller's context and by a lost connection, after each number of messages.
func TestAStreamThatIsCutAtAnyMessageLeavesNothing(t *testing.T) {
	in := start(t, server.Options{})
	in.fill(t, "/d", 60)
	paths := make([]string, 101)
	for i := range paths {
		paths[i] = "/d"
	}
	for name, cut := range map[string]func(cancel context.CancelFunc, s pb.DRPCNamespace_ListClient, nc net.Conn){
		"closed":    func(_ context.CancelFunc, s pb.DRPCNamespace_ListClient, _ net.Conn) { _ = s.Close() },
		"cancelled": func(cancel context.CancelFunc, _ pb.DRPCNamespace_ListClient, _ net.Conn) { cancel() },
		"lost":      func(_ context.CancelFunc, _ pb.DRPCNamespace_ListClient, nc net.Conn) { _ = nc.Close() },
		"reset": func(_ context.CancelFunc, _ pb.DRPCNamespace_ListClient, nc net.Conn) {
			_ = nc.(*net.TCPConn).SetLinger(0)
			_ = nc.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for after := range 12 { // some have no more messages than that
				before := goleak.IgnoreCurrent()
				var nc net.Conn
				pool := rpc.NewPool(in.Addr().String(), rpc.PoolOptions{Dial: func(ctx context.Context, addr string) (_ net.Conn, err error) {
					var d net.Dialer
					nc, err = d.DialContext(ctx, "tcp", addr)
					return nc, err
				}})
				ctx, cancel := context.WithCancel(as(t, "u"))
				s, err := pb.NewDRPCNamespaceClient(pool).List(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					if err := s.Send(chunk(i == 2, paths[:1+50*i]...)); err != nil {
						t.Fatal(err)
					}
				}
				var b []byte
				for range after {
					if err = rpc.ReceiveRaw(s, &b); err != nil {
						break
					}
				}
				cut(cancel, s, nc)
				for err == nil {
					err = rpc.ReceiveRaw(s, &b)
				}
				cancel()
				if err := pool.Close(); err != nil {
					t.Error(err)
				}
				goleak.VerifyNone(t, before)
			}
		})
	}
	in.until(t, "the streams have ended", func() bool { return in.counter(t, "calls_active") == 1 })
	if n := in.counter(t, "panics"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

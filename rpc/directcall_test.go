package rpc

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// startChunks serves ReadChunk by f at an address; empty: any.
func startChunks(t *testing.T, address string, o ServerOptions, f ReadChunkFunc) (*Server, string, func()) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	lis, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(&contents{}, pb.DRPCBlocksDescription{}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.HandleReadChunk(f); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		wg.Wait()
	})
	t.Cleanup(stop)
	return server, lis.Addr().String(), stop
}

func chunkOf(ctx context.Context, p *Pool, seed int) error {
	var reply ReadReply
	defer reply.Release()
	if err := ReadChunk(ctx, p, &ReadRequest{Offset: int64(seed), Length: chunkSize}, &reply); err != nil {
		return err
	}
	if string(reply.Data) != string(content(seed, chunkSize)) {
		return fmt.Errorf("%d other bytes", len(reply.Data))
	}
	return nil
}

func TestADirectCallTakesAnotherConnectionIfItsOwnWasClosed(t *testing.T) {
	_, addr, stop := startChunks(t, "", ServerOptions{}, readContent)
	p := newPool(t, addr, PoolOptions{})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := chunkOf(as(t.Context(), "u"), p, 1); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	stop()
	err := chunkOf(as(t.Context(), "u"), p, 1)
	wantCode(t, err, muster.ErrUnavailable)
	startChunks(t, addr, ServerOptions{}, readContent)
	if err := chunkOf(as(t.Context(), "u"), p, 2); err != nil {
		t.Error(err)
	}
}

func TestADirectCallFailsAsOthersDo(t *testing.T) {
	var dialed counting
	server, addr, _ := startChunks(t, "", ServerOptions{}, func(ctx context.Context, r *ReadRequest, reply *ReadReply) error {
		caller, err := Caller(ctx)
		if err != nil {
			return err
		}
		deadline, timed := ctx.Deadline()
		switch {
		case r.Offset == 1:
			panic("a fault")
		case r.Offset == 2:
			return fmt.Errorf("%w: block for %s", muster.ErrNoData, caller.User)
		case r.Offset == 3 && (!timed || time.Until(deadline) > time.Minute):
			return fmt.Errorf("%w: the deadline is %v", muster.ErrInternal, deadline)
		case r.Offset == 4:
			reply.Data = make([]byte, MaxMessage+1)
			return nil
		}
		return readContent(ctx, r, reply)
	})
	p := newPool(t, addr, PoolOptions{MaxConnections: 1, Dial: dialed.dial})
	ctx := as(t.Context(), "u")
	for i := range 3 {
		wantCode(t, chunkOf(ctx, p, 1), muster.ErrInternal)
		err := chunkOf(ctx, p, 2)
		wantCode(t, err, muster.ErrNoData)
		if !strings.Contains(err.Error(), "block for u") {
			t.Errorf("got %v", err)
		}
		wantCode(t, chunkOf(ctx, p, 4), muster.ErrLimit)
		timed, cancel := context.WithTimeout(ctx, time.Minute)
		if err := chunkOf(timed, p, 3); err != nil {
			t.Error(err)
		}
		cancel()
		wantCode(t, chunkOf(t.Context(), p, 5), muster.ErrUnauthenticated)
		wantCode(t, chunkOf(as(t.Context(), "two\nlines"), p, 5), muster.ErrUnauthenticated)
		if err := chunkOf(ctx, p, 6+i); err != nil {
			t.Error(err)
		}
	}
	if n := dialed.dials(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if s := server.Stats(); s.Panics != 3 || s.Failed != 12 || s.CallsActive != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestADirectCallEndsWithItsContext(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	_, addr, stop := startChunks(t, "", ServerOptions{}, func(ctx context.Context, r *ReadRequest, reply *ReadReply) error {
		if r.Offset == 1 {
			entered <- struct{}{}
			<-release
		}
		return readContent(ctx, r, reply)
	})
	p := newPool(t, addr, PoolOptions{})
	ctx, cancel := context.WithCancel(as(t.Context(), "u"))
	failed := make(chan error)
	go func() { failed <- chunkOf(ctx, p, 1) }()
	<-entered
	cancel()
	wantCode(t, <-failed, muster.ErrCancelled)
	if err := chunkOf(as(t.Context(), "u"), p, 2); err != nil {
		t.Error(err)
	}
	wantCode(t, chunkOf(ctx, p, 2), muster.ErrCancelled)

	// A pool that is closed ends its calls, and a server that stops finishes them.
	go func() { failed <- chunkOf(as(t.Context(), "u"), p, 1) }()
	<-entered
	_ = p.Close()
	wantCode(t, <-failed, muster.ErrUnavailable)
	other := newPool(t, addr, PoolOptions{})
	go func() { failed <- chunkOf(as(t.Context(), "u"), other, 1) }()
	<-entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(release)
	if err := <-failed; err != nil {
		t.Errorf("a call that the server finishes: %v", err)
	}
	<-stopped
}

// open counts the connections that are open at a time.
type open struct{ now, most atomic.Int64 }

type openConn struct {
	net.Conn
	close func()
}

func (c *openConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func (o *open) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if n := o.now.Add(1); n > o.most.Load() {
		o.most.Store(n)
	}
	return &openConn{nc, sync.OnceFunc(func() { o.now.Add(-1) })}, err
}

func TestDirectCallsAndOthersShareTheBoundOfConnections(t *testing.T) {
	_, addr, _ := startChunks(t, "", ServerOptions{}, readContent)
	var count open
	p := newPool(t, addr, PoolOptions{MaxConnections: 2, Dial: count.dial})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for j := range 30 {
				if i%2 == 0 {
					if err := chunkOf(as(t.Context(), "u"), p, j); err != nil {
						t.Error(err)
					}
					continue
				}
				s, err := ReadBlock(as(t.Context(), "u"), p, &ReadRequest{})
				if err != nil {
					t.Error(err)
					return
				}
				var reply ReadReply
				for err == nil {
					err = s.Receive(&reply)
				}
			}
		})
	}
	all.Wait()
	if n := count.most.Load(); n > 2 {
		t.Errorf("%d connections at a time, want 2", n)
	}
}

// Whatever comes on a connection, it ends, or is served, and others are.
func TestGarbageBeforeDirectCallsIsSurvived(t *testing.T) {
	server, addr, _ := startChunks(t, "", ServerOptions{}, readContent)
	p := newPool(t, addr, PoolOptions{})
	frame := func(kind drpcwire.Kind, id drpcwire.ID, data string) string {
		return string(drpcwire.AppendFrame(nil, drpcwire.Frame{Kind: kind, ID: id, Done: true, Data: []byte(data)}))
	}
	first, second, third := drpcwire.ID{Stream: 1, Message: 1}, drpcwire.ID{Stream: 1, Message: 2}, drpcwire.ID{Stream: 1, Message: 3}
	invoke := frame(drpcwire.KindInvoke, second, readChunkCall)
	for name, sent := range map[string]string{
		"nothing":                   "",
		"bad varint":                strings.Repeat("\xff", 64),
		"unknown kind":              "\x7f\x01\x02\x00",
		"bad metadata":              frame(drpcwire.KindInvokeMetadata, first, "\xff\xff\xff") + invoke,
		"a call and no message":     invoke,
		"a message without a call":  frame(drpcwire.KindMessage, second, "x"),
		"a large one without":       frame(drpcwire.KindMessage, second, strings.Repeat("x", largeFrom)),
		"ids that go back":          invoke + invoke,
		"a damaged message":         invoke + frame(drpcwire.KindMessage, third, "\xff"),
		"a large damaged message":   invoke + frame(drpcwire.KindMessage, third, strings.Repeat("\xff", largeFrom)),
		"half a message":            invoke + frame(drpcwire.KindMessage, third, strings.Repeat("x", 9000))[:5000],
		"a call that is given up":   invoke + frame(drpcwire.KindCancel, third, ""),
		"an unknown call":           frame(drpcwire.KindInvoke, second, "/x"),
		"an unknown call, a direct": frame(drpcwire.KindInvoke, second, "/x") + frame(drpcwire.KindInvoke, drpcwire.ID{Stream: 2, Message: 1}, readChunkCall),
	} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = nc.Write([]byte(preface + sent)) // may fail half way
		_ = nc.(*net.TCPConn).CloseWrite()
		_, _ = io.ReadAll(nc) // until the server closes
		_ = nc.Close()
		if err := chunkOf(as(t.Context(), "u"), p, 3); err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
	}
	if n := server.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

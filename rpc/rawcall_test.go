package rpc

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

const statCall = "/muster.v1.Namespace/Stat"

// echo answers with the path as the name, as often as it has bytes.
func echo(ctx context.Context, request, dst []byte) ([]byte, error) {
	if _, err := Caller(ctx); err != nil {
		return nil, err
	}
	var r pb.PathRequest
	if err := proto.Unmarshal(request, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", muster.ErrInvalid, err)
	}
	if len(r.Path) == 0 {
		return nil, fmt.Errorf("%w: no path", muster.ErrNotFound)
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, &pb.EntryReply{Kind: 1, Name: bytes.Repeat(r.Path, len(r.Path))})
}

func TestCallsByTheirBytesAnswerAsOthersDo(t *testing.T) {
	server, addr := startServer(t, &service{}, ServerOptions{})
	if err := server.HandleRaw(statCall, echo); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/muster.v1.Namespace/Levitate", "/muster.v1.Namespace/List", ""} {
		wantCode(t, server.HandleRaw(name, echo), muster.ErrInvalid)
	}
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	for _, size := range []int{1, 100, 1500, 10} { // replies of up to 2 MB, in buffers that are used again
		path := strings.Repeat("p", size)
		r, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{Path: []byte(path)})
		if err != nil || string(r.Name) != strings.Repeat(path, size) {
			t.Fatalf("%d bytes: got %d, %v", size, len(r.GetName()), err)
		}
	}
	_, err := client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{})
	wantCode(t, err, muster.ErrNotFound)
	err = p.Invoke(as(t.Context(), "u"), statCall, rawEncoding{}, &raw{0xff}, &raw{})
	wantCode(t, err, muster.ErrInvalid)
	_, err = client(p).Stat(as(t.Context(), "u"), &pb.PathRequest{Path: make([]byte, 3000)})
	wantCode(t, err, muster.ErrLimit) // 9 MB are no message
	check(t, p)
	if n := dialed.dials(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// writes is a connection that counts its writes, each of which is one system call.
type writes struct {
	net.Conn
	count *atomic.Int64
}

func (w writes) Write(b []byte) (int, error) {
	w.count.Add(1)
	return w.Conn.Write(b)
}

// writesListener counts the writes of the connections that it accepts.
type writesListener struct {
	net.Listener
	count *atomic.Int64
}

func (l writesListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return writes{nc, l.count}, err
}

func TestACallIsOneWriteEachWay(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var there, back atomic.Int64
	server := serve(t, &service{}, writesListener{lis, &back}, ServerOptions{})
	if err := server.HandleRaw(statCall, echo); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, lis.Addr().String(), PoolOptions{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, "tcp", addr)
		return writes{nc, &there}, err
	}})
	ctx, cancel := context.WithCancel(as(t.Context(), "u"))
	defer cancel()
	const calls = 10
	for range calls {
		check(t, p)
	}
	for range calls { // 12 kB each way
		if _, err := client(p).Lstat(ctx, &pb.PathRequest{Path: make([]byte, 12_000)}); err != nil {
			t.Fatal(err)
		}
	}
	for range calls {
		if _, err := client(p).Stat(ctx, &pb.PathRequest{Path: []byte("/a")}); err != nil {
			t.Fatal(err)
		}
	}
	for range calls {
		if _, err := client(p).Stat(ctx, &pb.PathRequest{}); err == nil {
			t.Fatal("no error")
		}
	}
	if n := there.Load(); n != 4*calls {
		t.Errorf("%d calls took %d writes of the client", 4*calls, n)
	}
	if n := back.Load(); n != 4*calls {
		t.Errorf("%d calls took %d writes of the server", 4*calls, n)
	}
}

func TestAStreamThatEndedLeavesItsConnection(t *testing.T) {
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		var b []byte
		for {
			if err := ReceiveRaw(s, &b); err != nil {
				return nil
			}
			if err := SendRaw(s, b); err != nil {
				return err
			}
		}
	}}, ServerOptions{})
	var dialed counting
	p := newPool(t, addr, PoolOptions{Dial: dialed.dial})
	for range 200 {
		s, err := client(p).List(as(t.Context(), "u"))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for i := range 3 {
			sent := []byte{byte(i), 2, 3}
			if err := SendRaw(s, sent); err != nil {
				t.Fatal(err)
			}
			if err := ReceiveRaw(s, &got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("got % x, %v", got, err)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := ReceiveRaw(s, &got); err == nil {
			t.Fatal("a message after the last")
		}
	}
	if n := dialed.dials(); n != 1 {
		t.Errorf("200 streams after another took %d connections, want 1", n)
	}
}

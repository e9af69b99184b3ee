package rpc

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
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

// A call keeps its metadata as long as it takes, so what nobody reads is refused.
func TestMetadataIsBounded(t *testing.T) {
	_, addr := startServer(t, &service{}, ServerOptions{})
	keys := func(n, size int) map[string]string {
		md := map[string]string{keyUser: "u"}
		for i := range n - 1 {
			md[fmt.Sprint("key ", i)] = strings.Repeat("x", size)
		}
		return md
	}
	for name, c := range map[string]struct {
		sent map[string]string
		code muster.Code
		says string
	}{
		"as many as may be": {keys(maxMetadata, 100), muster.OK, ""},
		"one key more":      {keys(maxMetadata+1, 0), muster.ErrLimit, "metadata of 65 keys before a call, at most 64"},
		"very many keys":    {keys(100_000, 0), muster.ErrLimit, "metadata of 100000 keys"},
		"a long value":      {keys(2, maxMetadataBytes), muster.ErrLimit, "at most 524288"},
	} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn := drpcconn.New(drpcmigrate.NewHeaderConn(nc, preface))
		defer func() { _ = conn.Close() }()
		_, err = pb.NewDRPCNamespaceClient(conn).Lstat(drpcmetadata.AddPairs(t.Context(), c.sent), &pb.PathRequest{})
		if err = FromWire(err); muster.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
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

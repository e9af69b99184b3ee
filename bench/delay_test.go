package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// joined returns the outer ends of two connections that a proxy joins, in a bubble.
func joined(t *testing.T, p *Proxy) (client, server net.Conn, done <-chan struct{}) {
	p.newAlarm = func() alarm { return sleeper{} }
	client, near := net.Pipe()
	far, server := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.join(t.Context(), near, far)
	}()
	return client, server, ended
}

func TestAChunkArrivesHalfARoundTripLaterWhateverIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunks = 100
		client, server, done := joined(t, &Proxy{RoundTrip: 10 * time.Millisecond})
		for name, way := range map[string][2]net.Conn{"there": {client, server}, "back": {server, client}} {
			sent := make([]time.Time, chunks)
			go func() {
				for i := range chunks {
					sent[i] = time.Now()
					if _, err := way[0].Write([]byte{byte(i)}); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(i%7) * time.Millisecond / 3)
				}
			}()
			for i := range chunks {
				var b [1]byte
				if _, err := io.ReadFull(way[1], b[:]); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(sent[i]); b[0] != byte(i) || took != 5*time.Millisecond {
					t.Fatalf("%s: chunk %d came as %d after %v", name, i, b[0], took)
				}
			}
		}
		_, _ = client.Close(), server.Close()
		<-done
	})
}

// Who counts the bytes of a call may look as soon as its answer is there.
func TestWhatHasArrivedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{RoundTrip: time.Millisecond}
		client, server, done := joined(t, p)
		for i := range 1000 {
			go func() { _, _ = client.Write([]byte{byte(i)}) }()
			var b [1]byte
			if _, err := io.ReadFull(server, b[:]); err != nil {
				t.Fatal(err)
			}
			if n := p.Carried(); n != int64(i+1) {
				t.Fatalf("%d bytes are counted of %d", n, i+1)
			}
		}
		_, _ = client.Close(), server.Close()
		<-done
	})
}

func TestTheEndOfAConnectionComesAfterWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, done := joined(t, &Proxy{RoundTrip: 10 * time.Millisecond})
		begin := time.Now()
		go func() {
			_, _ = client.Write([]byte("last words"))
			_ = client.Close()
		}()
		text, err := io.ReadAll(server)
		if took := time.Since(begin); err != nil || string(text) != "last words" || took != 5*time.Millisecond {
			t.Errorf("%q after %v, %v", text, took, err)
		}
		<-done
	})
}

func TestAProxyThatStopsClosesItsConnections(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := echo.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	addr, stop := serveProxy(t, &Proxy{Target: echo.Addr().String(), RoundTrip: time.Minute})
	near, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if _, err := near.Write([]byte("on its way for half a minute")); err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	defer far.Close()
	stop()
	for name, c := range map[string]net.Conn{"near": near, "far": far} {
		if n, err := c.Read(make([]byte, 100)); err == nil {
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("the proxy still listens")
	}
}

func TestAConnectionWithoutATargetIsClosed(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := lis.Addr().String()
	_ = lis.Close()
	addr, stop := serveProxy(t, &Proxy{Target: nobody})
	defer stop()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
}

// Megabytes go through unharmed and are counted, with the system's own alarm.
func TestAProxyChangesNothing(t *testing.T) {
	for _, roundTrip := range []time.Duration{0, time.Millisecond} {
		t.Run(fmt.Sprint(roundTrip), func(t *testing.T) {
			echo, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer echo.Close()
			go func() {
				c, err := echo.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
			p := &Proxy{Target: echo.Addr().String(), RoundTrip: roundTrip}
			addr, stop := serveProxy(t, p)
			defer stop()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sent := make([]byte, 5<<20)
			random := rand.NewChaCha8([32]byte{})
			_, _ = random.Read(sent)
			go func() {
				_, _ = c.Write(sent)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, sent) || p.Carried() != int64(2*len(sent)) {
				t.Errorf("%d of %d bytes came back, %v; %d were carried", len(got), len(sent), err, p.Carried())
			}
		})
	}
}

// serveProxy serves p on an address of its own until stop is called.
func serveProxy(t *testing.T, p *Proxy) (addr string, stop func()) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, lis) }()
	return lis.Addr().String(), func() {
		t.Helper()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

package client_test

import (
	"context"
	"net"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"go.uber.org/goleak"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instance is a server whose store outlives it.
type instance struct {
	t       *testing.T
	options server.Options
	running *server.Server
}

// start runs a server on a store in memory until the test ends.
func start(t *testing.T) *instance {
	t.Helper()
	return startWith(t, func(*server.Options) {})
}

// startWith is start with other options.
func startWith(t *testing.T, change func(*server.Options)) *instance {
	t.Helper()
	// The cluster key lies in Dir on the disk, whatever holds the store.
	in := &instance{t: t, options: server.Options{
		Dir:       t.TempDir(),
		Namespace: namespace.Options{FS: vfs.NewMem(), Superuser: "root"},
	}}
	change(&in.options)
	in.up()
	t.Cleanup(in.down)
	return in
}

// up starts the server, at the address that it had before.
func (in *instance) up() {
	in.t.Helper()
	s, err := server.Start(context.Background(), in.options)
	if err != nil {
		in.t.Fatalf("start server: %v", err)
	}
	in.running = s
	in.options.Listen = s.Addr().String()
}

// down stops the server gracefully, if it runs.
func (in *instance) down() {
	in.t.Helper()
	if in.running == nil {
		return
	}
	if err := in.running.Shutdown(context.Background()); err != nil {
		in.t.Errorf("shut down: %v", err)
	}
	in.running = nil
}

// kill stops the server without waiting for calls in progress.
func (in *instance) kill() {
	in.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = in.running.Shutdown(ctx) // says that calls were ended
	<-in.running.Done()
	in.running = nil
}

func (in *instance) addr() string { return in.options.Listen }

// dial returns a client of the server at addr that closes with the test.
func dial(t testing.TB, addr string, o client.Options) *client.Client {
	t.Helper()
	if o.User == "" {
		o.User = "root"
	}
	c, err := client.Dial(context.Background(), addr, o)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return c
}

// connect starts a server and returns a superuser's client of it.
func connect(t *testing.T) *client.Client {
	t.Helper()
	return dial(t, start(t).addr(), client.Options{})
}

// unused returns an address where nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

package client

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// A loop over a listing that makes calls with no connection left for them holds itself up.
func TestCallsThatFindNoConnectionEndAndDoNotWaitAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		read := make(chan struct{})
		go func() { defer close(read); _, _ = io.Copy(io.Discard, far) }()
		l, err := newLink("pipe", Options{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		l.pool = rpc.NewPool("pipe", rpc.PoolOptions{
			MaxConnections: 1,
			Dial:           func(context.Context, string) (net.Conn, error) { return near, nil },
		})
		l.service = pb.NewDRPCNamespaceClient(l.pool)
		c := l.as(muster.Identity{User: "root"})
		stream, err := c.service.List(c.context(t.Context())) // takes the only connection
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() error{
			"stat": func() error { _, err := c.Stat(t.Context(), "/"); return err },
			"list": func() error {
				_, err := Collect(c.List(t.Context(), slices.Values([]string{"/"}), ListOptions{}))
				return err
			},
		} {
			begin := time.Now()
			if err := call(); !errors.Is(err, muster.ErrUnavailable) {
				t.Errorf("%s: got %v", name, err)
			}
			if waited := time.Since(begin); waited > 2*maxUnsent {
				t.Errorf("%s has waited %v", name, waited)
			}
		}
		_ = stream.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-read
	})
}

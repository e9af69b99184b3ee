package server_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// relay passes connections on to a target. While it is frozen nothing passes, and nothing
// breaks: as if the target's process were stopped.
type relay struct {
	lis    net.Listener
	target string
	moving sync.RWMutex // held for writing while it is frozen
	open   sync.WaitGroup
	ctx    context.Context // ends with the relay
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{lis: lis, target: target, ctx: t.Context()}
	r.open.Go(func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			r.open.Go(func() { r.pass(nc) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		r.open.Wait()
	})
	return r
}

func (r *relay) pass(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(r.ctx, func() { _ = near.Close(); _ = far.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			defer way[1].Close()
			b := make([]byte, 64<<10)
			for {
				n, err := way[0].Read(b)
				r.moving.RLock()
				_, failed := way[1].Write(b[:n])
				r.moving.RUnlock()
				if err != nil || failed != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// TestALocationServiceThatIsFrozen, on connections that were made before and on new ones, holds
// a listing up once, and not with each page; calls with a deadline end with it, what is cached
// is answered, and all is answered when it moves again.
func TestALocationServiceThatIsFrozen(t *testing.T) {
	key := keyFile(t, 1)
	service := startLocations(t, server.LocationsOptions{KeyFile: key})
	relay := newRelay(t, service.Addr().String())
	const patience = 500 * time.Millisecond
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{
		Server: relay.lis.Addr().String(), Cache: locations.Options{LoadTimeout: 2 * patience},
	}})
	const files = 60
	join(t, service.Addr().String(), key, 4).fillContainers(t, service.Registry(), files+2)
	for i := range uint64(files) {
		in.makeFile(t, "/d/"+string(rune('A'+i)), i+1)
	}
	in.makeFile(t, "/known", files+1)
	in.makeFile(t, "/new", files+2)
	if _, err := in.where(root(t), "/known", ""); err != nil {
		t.Fatal(err)
	}

	relay.moving.Lock()
	thaw := sync.OnceFunc(relay.moving.Unlock)
	defer thaw()
	ctx, cancel := context.WithTimeout(root(t), 50*time.Millisecond)
	began := time.Now()
	_, err := in.where(ctx, "/new", "")
	cancel()
	if took := time.Since(began); muster.CodeOf(rpc.FromWire(err)) != muster.ErrDeadline || took > 10*time.Second {
		t.Errorf("a call with a deadline: %v after %v", err, took)
	}
	began = time.Now()
	for _, how := range []pb.WithLocations{pb.WithLocations_WITH_LOCATIONS_HINT, pb.WithLocations_WITH_LOCATIONS_MUST} {
		outcomes := in.pages(t, &pb.ListOptions{Limit: 1, Locations: how}, "/d")
		if must := how == pb.WithLocations_WITH_LOCATIONS_MUST; (outcomes[0].Code != 0) != must {
			t.Errorf("%v: %v", how, outcomes)
		}
	}
	if took := time.Since(began); took > files*patience/2 {
		t.Errorf("%d pages took %v", files, took)
	}
	if _, err := in.where(root(t), "/known", ""); err != nil {
		t.Errorf("what is cached: %v", err)
	}
	_, err = in.where(root(t), "/new", "")
	wantCode(t, err, muster.ErrUnavailable)

	thaw()
	eventually(t, "it is asked again", func() bool {
		_, err := in.where(root(t), "/new", "")
		return err == nil
	})
	if outcomes := in.pages(t, &pb.ListOptions{Limit: 1, Locations: pb.WithLocations_WITH_LOCATIONS_MUST}, "/d"); outcomes[0].Code != 0 || outcomes[0].Rows != files {
		t.Errorf("after that: %v", outcomes)
	}
}

// pages lists paths page by page and returns the outcomes.
func (in *instance) pages(t *testing.T, o *pb.ListOptions, paths ...string) (outcomes []*pb.Outcome) {
	t.Helper()
	m := chunk(true, paths...)
	for cursor := []byte(nil); ; {
		r, err := in.ListPage(root(t), &pb.ListPageRequest{Options: o, Paths: m.Paths, Count: m.Count, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		outcomes = slices.Concat(outcomes, r.Outcomes)
		if cursor = r.Cursor; r.Done {
			return outcomes
		}
	}
}

package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc/pb"
)

// far is a location service in another process, which can hang, or be gone.
type far struct {
	pb.DRPCLocationsClient
	mu      sync.Mutex // guards what follows
	hangs   bool
	err     error
	lookups int
	probes  int
	probing int // now
	most    int // probes at a time
}

func (f *far) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *far) answer(ctx context.Context) error {
	f.mu.Lock()
	hangs, err := f.hangs, f.err
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return muster.CodeOf(ctx.Err())
	}
	return err
}

func (f *far) Lookup(ctx context.Context, r *pb.LookupRequest) (*pb.LookupReply, error) {
	f.change(func() { f.lookups++ })
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	reply := &pb.LookupReply{Nodes: []*pb.Node{node(0, "/r", muster.InService)}}
	for _, id := range r.Containers {
		reply.Placements = append(reply.Placements, &pb.Placement{Container: id, Replication: uint32(muster.Replicated(1)), Nodes: []uint32{1}})
	}
	return reply, nil
}

func (f *far) LocationsStatus(ctx context.Context, _ *pb.LocationsStatusRequest) (*pb.LocationsStatusReply, error) {
	f.change(func() { f.probes++; f.probing++; f.most = max(f.most, f.probing) })
	defer f.change(func() { f.probing-- })
	return &pb.LocationsStatusReply{}, f.answer(ctx)
}

// Topology has nothing new, and waits for it.
func (f *far) Topology(ctx context.Context, r *pb.TopologyRequest) (*pb.TopologyReply, error) {
	select {
	case <-time.After(time.Duration(r.GetWaitMs()) * time.Millisecond):
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, muster.CodeOf(ctx.Err())
	}
	return &pb.TopologyReply{Boot: r.GetBoot(), Version: r.GetVersion(), Unchanged: true}, f.answer(ctx)
}

// inFar runs a test in a bubble with a cache over a far service.
func inFar(t *testing.T, f func(t *testing.T, s *far, r *remote, c *locations.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, r := new(far), newRemote("far:1", nil, new(Locating).patience())
		r.client = s
		c, err := locations.New(r, locations.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, r, c)
		c.Close()
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

// getAll asks for containers and says how long that took.
func getAll(ctx context.Context, c listing.Places, ids ...uint64) (time.Duration, error) {
	began, out := time.Now(), make([]locations.Located, len(ids))
	err := c.Get(ctx, ids, out)
	for _, l := range out {
		err = errors.Join(err, l.Err)
	}
	return time.Since(began), err
}

// TestAServiceThatHangsIsWaitedForOnce and not by each load: the first to wait in vain finds it
// away, the others learn so at once, and when it answers again so does the cache.
func TestAServiceThatHangsIsWaitedForOnce(t *testing.T) {
	inFar(t, func(t *testing.T, s *far, r *remote, c *locations.Cache) {
		ctx := t.Context()
		if _, err := getAll(ctx, c, 1); err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.hangs = true })
		if took, err := getAll(ctx, c, 1); err != nil || took > 0 {
			t.Errorf("what is cached: %v after %v", err, took)
		}
		hurried, cancel := context.WithTimeout(ctx, time.Second)
		if took, err := getAll(hurried, c, 2); !errors.Is(err, muster.ErrDeadline) || took != time.Second {
			t.Errorf("a caller with a deadline: %v after %v", err, took)
		}
		cancel()
		if took, err := getAll(ctx, c, 3); !errors.Is(err, muster.ErrUnavailable) || took > r.presence.patience {
			t.Errorf("the first without: %v after %v", err, took)
		}
		lookups := 0
		s.change(func() { lookups = s.lookups })
		for id := range uint64(1000) { // for 50 seconds
			if took, err := getAll(ctx, c, 10+id); !errors.Is(err, muster.ErrUnavailable) || took > 0 {
				t.Fatalf("a later one: %v after %v", err, took)
			}
			time.Sleep(50 * time.Millisecond)
		}
		s.change(func() {
			if s.lookups != lookups || s.most != 1 || s.probes < 5 || s.probes > 15 {
				t.Errorf("%d calls, %d attempts, %d at a time", s.lookups-lookups, s.probes, s.most)
			}
			s.hangs = false
		})
		time.Sleep(r.presence.patience + longestPause)
		if _, err := getAll(ctx, c, 2, 3, 10, 11); err != nil {
			t.Errorf("it answers again: %v", err)
		}
		s.change(func() { lookups = s.probes })
		time.Sleep(time.Hour)
		s.change(func() {
			if s.probes != lookups {
				t.Error("it is asked further whether it is there")
			}
		})
	})
}

// TestAServiceThatIsGoneIsLookedForNowAndThen by one goroutine, and calls fail at once.
func TestAServiceThatIsGoneIsLookedForNowAndThen(t *testing.T) {
	inFar(t, func(t *testing.T, s *far, r *remote, c *locations.Cache) {
		s.err = fmt.Errorf("%w: connection refused", muster.ErrUnavailable)
		var callers sync.WaitGroup
		for i := range uint64(10) {
			callers.Go(func() {
				for n := range uint64(600) { // for a minute
					if took, err := getAll(t.Context(), c, 1000*i+n); !errors.Is(err, muster.ErrUnavailable) || took > 0 {
						t.Errorf("%v after %v", err, took)
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		s.change(func() {
			if s.lookups > 2*10 || s.most != 1 || s.probes < 30 || s.probes > 40 {
				t.Errorf("%d calls, %d attempts in a minute, %d at a time", s.lookups, s.probes, s.most)
			}
			s.err = nil
		})
		time.Sleep(longestPause)
		synctest.Wait()
		if _, err := getAll(t.Context(), c, 1); err != nil {
			t.Errorf("it is back: %v", err)
		}
	})
}

// TestALateFailureProvesNothing of a service that has answered since.
func TestALateFailureProvesNothing(t *testing.T) {
	inFar(t, func(t *testing.T, s *far, r *remote, c *locations.Cache) {
		s.change(func() { s.hangs = true })
		slow := make(chan error)
		go func() {
			_, err := getAll(t.Context(), c, 1)
			slow <- err
		}()
		time.Sleep(time.Second)
		s.change(func() { s.hangs = false })
		if _, err := getAll(t.Context(), c, 2); err != nil {
			t.Error(err)
		}
		if err := <-slow; !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("the call that hangs: %v", err)
		}
		if err := r.presence.away(); err != nil {
			t.Errorf("it counts as away: %v", err)
		}
	})
}

// TestAServiceThatWasSlowOnceIsBackAtOnce and not after a pause: a server that was held up itself
// hears its service late.
func TestAServiceThatWasSlowOnceIsBackAtOnce(t *testing.T) {
	inFar(t, func(t *testing.T, s *far, r *remote, c *locations.Cache) {
		s.change(func() { s.hangs = true })
		time.AfterFunc(r.presence.patience-time.Millisecond, func() { s.change(func() { s.hangs = false }) })
		if _, err := getAll(t.Context(), c, 1); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("the call that hangs: %v", err)
		}
		synctest.Wait()
		if took, err := getAll(t.Context(), c, 2); err != nil || took > 0 {
			t.Errorf("the next: %v after %v", err, took)
		}
	})
}

// TestUsersDoNotWaitForATopology however long they want to: else they could keep all connections to
// the service, or with a time that has passed make it seem silent.
func TestUsersDoNotWaitForATopology(t *testing.T) {
	for _, wait := range []time.Duration{-time.Hour, 0, time.Hour} {
		inFar(t, func(t *testing.T, _ *far, r *remote, _ *locations.Cache) {
			h, began := &handlers{locations: r}, time.Now()
			reply, err := h.Topology(t.Context(), &pb.TopologyRequest{Version: 7, WaitMs: wait.Milliseconds()})
			if took := time.Since(began); err != nil || !reply.GetUnchanged() || reply.GetVersion() != 7 || took > 0 {
				t.Errorf("wait %v: %v, %v after %v", wait, reply, err, took)
			}
			if err := r.presence.away(); err != nil {
				t.Errorf("wait %v: the service counts as away: %v", wait, err)
			}
		})
	}
}

// TestAnAttemptEndsWithTheServer though the service hangs.
func TestAnAttemptEndsWithTheServer(t *testing.T) {
	inFar(t, func(t *testing.T, s *far, r *remote, c *locations.Cache) {
		s.hangs = true
		_, _ = getAll(t.Context(), c, 1)
		time.Sleep(firstPause)
		synctest.Wait()
		began := time.Now()
		r.presence.stop()
		if took := time.Since(began); took > 0 || s.most != 1 {
			t.Errorf("after %v", took)
		}
	})
}

package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// states returns the states of all datanodes.
func states(r *registry.Registry) (all []muster.NodeState) {
	for _, d := range r.Datanodes() {
		all = append(all, d.Node.State)
	}
	return all
}

// beat sends heartbeats of some datanodes every 3 s, for some time.
func beat(t *testing.T, r *registry.Registry, d time.Duration, some ...registry.Registered) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(3*time.Second, time.Until(end))) {
		for _, n := range some {
			if _, err := r.Heartbeat(n.Number, n.Session, registry.Beat{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	synctest.Wait()
}

// TestSilentDatanodesAreStaleAndThenDead, to the moment; one that speaks again is well, and is asked
// what it has.
func TestSilentDatanodesAreStaleAndThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 4, "/r0", "/r1")
		for _, n := range dn {
			report(t, r, n, []uint64{}...)
		}
		if _, err := r.SetNodeState(t.Context(), "dn3", muster.Maintenance); err != nil {
			t.Fatal(err)
		}
		member(t, r, true, []muster.NodeNumber{2, 1, 0}, 1)
		began := time.Now()
		expect := func(age time.Duration, one muster.NodeState, where ...muster.NodeNumber) {
			t.Helper()
			beat(t, r, time.Until(began.Add(age)), dn[0], dn[2])
			time.Sleep(time.Until(began.Add(age)))
			synctest.Wait()
			want := []muster.NodeState{muster.InService, one, muster.InService, max(one, muster.Maintenance)}
			if got := states(r); !slices.Equal(got, want) {
				t.Errorf("after %v: %v, want %v", time.Since(began), got, want)
			}
			if got := lookup(t, r, 1).Nodes; !slices.Equal(got, where) {
				t.Errorf("after %v: container on %v, want %v", time.Since(began), got, where)
			}
		}
		expect(30*time.Second-time.Millisecond, muster.InService, 2, 1, 0)
		expect(30*time.Second+time.Millisecond, muster.Stale, 2, 0, 1)
		expect(10*time.Minute-time.Millisecond, muster.Stale, 2, 0, 1)
		expect(10*time.Minute+time.Millisecond, muster.Dead, 2, 0)
		if age := r.Datanodes()[1].HeartbeatAge; age < 10*time.Minute {
			t.Errorf("age %v", age)
		}
		if want, err := r.Heartbeat(dn[1].Number, dn[1].Session, registry.Beat{}); err != nil || !want.Report {
			t.Errorf("a dead datanode that speaks is asked for a report: %v, %v", want, err)
		}
		if got := states(r); got[1] != muster.InService {
			t.Errorf("it is %v", got[1])
		}
		if got := lookup(t, r, 1).Nodes; !slices.Equal(got, []muster.NodeNumber{2, 1, 0}) {
			t.Errorf("container on %v", got)
		}
	})
}

// TestAfterARestartReportsAreWaitedFor: until they are in, or the time for them is over, a container
// without usable replicas is UNAVAILABLE; the silence of datanodes counts from the start.
func TestAfterARestartReportsAreWaitedFor(t *testing.T) {
	for name, reports := range map[string]bool{"reports come": true, "time passes": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := registry.Options{FS: vfs.NewMem()}
				r := open(t, o)
				join(t, r, 4, "/r")
				member(t, r, true, []muster.NodeNumber{0, 1}, 1)
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour) // counts for nothing
				r = open(t, o)
				outcome := func() error {
					a, err := r.Lookup(t.Context(), []uint64{1})
					if err != nil {
						t.Fatal(err)
					}
					return a.Outcomes[0].Err
				}
				if err := outcome(); err != nil { // its members are presumed to have it
					t.Error(err)
				}
				if d := r.Datanodes()[0]; d.HeartbeatAge != -1 || d.Health != muster.InService || d.Reported {
					t.Errorf("at first: %+v", d)
				}
				dn := join(t, r, 4, "/r")
				report(t, r, dn[0])
				report(t, r, dn[1])
				if err := outcome(); !errors.Is(err, muster.ErrUnavailable) {
					t.Errorf("two of four have reported: %v", err)
				}
				if c, err := r.Container(1); err != nil || !errors.Is(c.Outcome.Err, muster.ErrUnavailable) || len(c.Members) != 2 {
					t.Errorf("for operators: %+v, %v", c, err)
				}
				if reports {
					report(t, r, dn[2])
					report(t, r, dn[3])
				} else {
					beat(t, r, time.Minute-time.Millisecond, dn...)
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if p := lookup(t, r, 1); p.Usable() || !r.Stats().Settled {
					t.Errorf("afterwards: %+v", p)
				}
			})
		})
	}
}

// TestOfTwoDatanodesWithOneIDTheLastIsKnown: what the other says does not count as said by that
// one, as long as it lives.
func TestOfTwoDatanodesWithOneIDTheLastIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := open(t, registry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		first := join(t, r, 1, "/r")[0]
		report(t, r, first)
		member(t, r, true, []muster.NodeNumber{0}, 1)
		same := join(t, r, 1, "/r")[0] // its answer was lost, or its process restarted
		g := registration(0, "/r")
		g.Rack = "/other" // nor is that another datanode
		if moved, err := r.Register(t.Context(), g); err != nil || moved.Session != first.Session || same.Session != first.Session {
			t.Fatalf("%+v, %+v and %+v, %v", first, same, moved, err)
		}
		for what, change := range map[string]func(g *registry.Registration){
			"host":    func(g *registry.Registration) { g.Host += "x" },
			"address": func(g *registry.Registration) { g.Address = "10.9.9.9" },
			"port":    func(g *registry.Registration) { g.Port++ },
		} {
			log.Reset()
			change(&g)
			second, err := r.Register(t.Context(), g)
			if err != nil || second.Number != 0 || !strings.Contains(log.String(), "another id") {
				t.Fatalf("%s: %+v, %v, %s", what, second, err, &log)
			}
			if _, err := r.Heartbeat(first.Number, first.Session, registry.Beat{}); !errors.Is(err, muster.ErrExists) || !strings.Contains(err.Error(), g.Host) {
				t.Errorf("%s: heartbeat of the first: %v", what, err)
			}
			if _, err := r.Report(first.Number, first.Session, true, nil); !errors.Is(err, muster.ErrExists) {
				t.Errorf("%s: report of the first: %v", what, err)
			}
			if want, err := r.Heartbeat(second.Number, second.Session, registry.Beat{}); err != nil || !want.Report {
				t.Errorf("%s: heartbeat of the second: %v, %v", what, want, err)
			}
			if got := lookup(t, r, 1).Nodes; len(got) != 1 {
				t.Errorf("%s: on %v", what, got)
			}
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if _, err := r.Heartbeat(first.Number, first.Session, registry.Beat{}); !errors.Is(err, muster.ErrNotFound) {
			t.Errorf("the second is silent: %v", err)
		}
	})
}

// TestEachRegistrationFromElsewhereHasASessionOfItsOwn, also of those that come at once; that of
// the datanode that is known is good.
func TestEachRegistrationFromElsewhereHasASessionOfItsOwn(t *testing.T) {
	r := open(t, registry.Options{})
	var all [50]registry.Registered
	var registering errgroup.Group
	for i := range all {
		registering.Go(func() (err error) {
			g := registration(0, "/r")
			g.Host = fmt.Sprint("host", i)
			all[i], err = r.Register(t.Context(), g)
			return err
		})
	}
	if err := registering.Wait(); err != nil {
		t.Fatal(err)
	}
	sessions := map[uint64]bool{}
	for i, n := range all {
		sessions[n.Session] = true
		_, err := r.Heartbeat(n.Number, n.Session, registry.Beat{})
		if known := r.Datanodes()[0].Node.Host == fmt.Sprint("host", i); known != (err == nil) || !known && !errors.Is(err, muster.ErrExists) {
			t.Errorf("the datanode of host%d is known: %v, and hears %v", i, known, err)
		}
	}
	if len(sessions) != len(all) {
		t.Errorf("%d sessions of %d datanodes", len(sessions), len(all))
	}
}

// TestAFollowerHearsOfEveryChange, and of nothing else.
func TestAFollowerHearsOfEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		dn := join(t, r, 2, "/r0")
		s, err := r.Topology(t.Context(), 0, 0, time.Hour)
		if err != nil || s.Boot != dn[0].Session || len(s.Nodes) != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		follow := func(during func()) (waited time.Duration, changed bool) {
			t.Helper()
			began, done := time.Now(), make(chan struct{})
			var next *registry.Snapshot
			go func() {
				defer close(done)
				next, err = r.Topology(t.Context(), s.Boot, s.Version, time.Minute)
			}()
			synctest.Wait()
			during()
			<-done
			if err != nil {
				t.Fatal(err)
			}
			changed = next.Version != s.Version
			s = next
			return time.Since(began), changed
		}
		again := func(g registry.Registration) {
			got, err := r.Register(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			dn = slices.Replace(dn, int(got.Number), min(int(got.Number)+1, len(dn)), got)
		}
		moved := registration(0, "/r1")
		elsewhere := moved
		elsewhere.Host = "elsewhere"
		nothing := func() {}
		silence := func() { time.Sleep(31 * time.Second) }
		speak := func() {
			for _, n := range dn {
				if _, err := r.Heartbeat(n.Number, n.Session, registry.Beat{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, c := range []struct {
			what           string
			before, change func()
		}{
			{"a new datanode", nothing, func() { again(registration(2, "/r0")) }},
			{"another rack", nothing, func() { again(moved) }},
			{"another host", nothing, func() { again(elsewhere) }},
			{"another state", nothing, func() { _, _ = r.SetNodeState(t.Context(), "dn1", muster.Draining) }},
			{"and back", nothing, func() { _, _ = r.SetNodeState(t.Context(), "dn1", muster.InService) }},
			{"silence", speak, silence},
			{"no more silence", silence, speak},
		} {
			c.before()
			synctest.Wait()
			if s, err = r.Topology(t.Context(), 0, 0, 0); err != nil {
				t.Fatal(err)
			}
			if waited, changed := follow(c.change); !changed || waited >= time.Minute {
				t.Errorf("%s: changed %v after %v", c.what, changed, waited)
			}
		}
		speak()
		s, _ = r.Topology(t.Context(), 0, 0, 0)
		waited, changed := follow(func() {
			for range 19 {
				time.Sleep(3 * time.Second)
				speak()
				again(r0(r))
			}
		})
		if changed || waited != time.Minute {
			t.Errorf("nothing: changed %v after %v", changed, waited)
		}
	})
}

// r0 is how the first datanode registered last.
func r0(r *registry.Registry) registry.Registration {
	n := r.Datanodes()[0].Node
	return registry.Registration{ID: n.ID, Host: n.Host, Address: n.Address, Port: n.Port, HTTPPort: n.HTTPPort, Rack: n.Rack}
}

// TestALongPollLeavesNothingBehind when its caller goes, when its time is over, when the registry
// closes: in the bubble of the test, nothing may be left.
func TestALongPollLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, registry.Options{})
		s, _ := r.Topology(t.Context(), 0, 0, 0)
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := r.Topology(ctx, s.Boot, s.Version, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			if _, err := r.Topology(t.Context(), s.Boot, s.Version, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error)
		for range 100 {
			go func() {
				_, err := r.Topology(context.Background(), s.Boot, s.Version, time.Hour)
				ended <- err
			}()
		}
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := <-ended; !errors.Is(err, muster.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	})
}

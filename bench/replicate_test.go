package bench

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// replicas is on how many datanodes that live containers are.
func replicas(t *testing.T, r *registry.Registry, containers []uint64) (fewest, most int) {
	t.Helper()
	a, err := r.Lookup(t.Context(), containers)
	if err != nil {
		t.Fatal(err)
	}
	fewest = len(a.Nodes)
	for _, o := range a.Outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		fewest, most = min(fewest, len(o.Placement.Nodes)), max(most, len(o.Placement.Nodes))
	}
	return fewest, most
}

// TestSimulatedDatanodesReplicate: what was on one that died is copied, and dropped when it is back.
func TestSimulatedDatanodesReplicate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, err := registry.Open(t.TempDir(), registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCluster(t.Context(), r, ClusterOptions{Nodes: 8, Racks: 4, Replicate: true})
		if err != nil {
			t.Fatal(err)
		}
		ids, err := c.Make(t.Context(), muster.Replicated(3), 100)
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, fewest, most int) {
			t.Helper()
			synctest.Wait()
			if a, b := replicas(t, r, ids); a != fewest || b != most {
				t.Errorf("%s: %d to %d replicas, want %d to %d; %+v", when, a, b, fewest, most, r.Stats())
			}
		}
		time.Sleep(time.Hour)
		expect("at first", 3, 3)
		if err := c.Kill(2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute + time.Second)
		expect("when one has died", 2, 3)
		time.Sleep(time.Hour)
		expect("later", 3, 3)
		if err := c.Revive(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		expect("when it is back", 3, 4)
		time.Sleep(time.Hour)
		expect("at last", 3, 3)
		if s := r.Stats(); s.UnderReplicated+s.Surplus+s.Missing+s.Copies+s.Drops > 0 || s.OrdersFailed > 0 || s.OrdersDone == 0 {
			t.Errorf("%+v", s)
		}
		if err := errors.Join(c.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
}

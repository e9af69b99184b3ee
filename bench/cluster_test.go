package bench

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

var coded, _ = muster.ParseReplication("ec/rs-3-2")

// bubble runs f under a clock of its own. What the store keeps in pools for others is of the bubble,
// so it must go before anybody else opens a store.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
	runtime.GC()
	runtime.GC()
}

// inBoth runs f with a cluster in process, and with one over the wire.
func inBoth(t *testing.T, o ClusterOptions, f func(t *testing.T, c *Cluster, r *registry.Registry)) {
	t.Run("in process", func(t *testing.T) {
		r, err := registry.Open(t.TempDir(), registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCluster(t.Context(), r, o)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c, r)
		if err := errors.Join(c.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Run("wire", func(t *testing.T) {
		s, key := startNamespace(t, server.Options{})
		c, err := JoinCluster(t.Context(), s.Addr().String(), key, o)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c, s.Registry())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// startNamespace starts a namespace server with a location service of its own, and returns the
// cluster key too.
func startNamespace(t testing.TB, o server.Options) (*server.Server, []byte) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := server.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, s) })
	key, err := server.ClusterKey(o.Dir, o.KeyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

func shutdown(t testing.TB, s interface{ Shutdown(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func lookup(t *testing.T, s locations.Source, ids ...uint64) locations.Answer {
	t.Helper()
	answer, err := s.Lookup(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestAClusterHasWhatIsAllocatedOnIt(t *testing.T) {
	inBoth(t, ClusterOptions{Nodes: 9, Racks: 3}, func(t *testing.T, c *Cluster, r *registry.Registry) {
		given, err := c.Allocate(t.Context(), muster.Replicated(3), 2500)
		if err != nil || len(given.Blocks) != 2500 {
			t.Fatal(len(given.Blocks), err)
		}
		groups, err := c.Allocate(t.Context(), coded, 4)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for i, d := range r.Datanodes() {
			held += d.Containers
			if d.Containers != len(c.Holds(i)) || !d.Reported || d.Node.Rack != c.Rack(i) || d.Node.Host != c.Host(i) || d.Node.Number != c.Number(i) {
				t.Errorf("%+v, which holds %d", d, len(c.Holds(i)))
			}
		}
		if want := 3*len(given.Placements) + 5*len(groups.Placements); held != want || !r.Stats().Settled {
			t.Errorf("%d replicas of %d, %+v", held, want, r.Stats())
		}
		for _, o := range lookup(t, r, given.Blocks[0].Container, given.Blocks[2499].Container).Outcomes {
			if o.Err != nil || len(o.Placement.Nodes) != 3 {
				t.Errorf("%+v", o)
			}
		}
	})
}

func TestContainersAreMadeLostAndClosed(t *testing.T) {
	inBoth(t, ClusterOptions{Nodes: 6, Racks: 2}, func(t *testing.T, c *Cluster, r *registry.Registry) {
		ctx := t.Context()
		ids, err := c.Make(ctx, coded, 20)
		if err != nil || len(ids) != 20 {
			t.Fatal(ids, err)
		}
		more, err := c.Make(ctx, muster.Replicated(3), 3)
		if err != nil || slices.Contains(ids, more[0]) {
			t.Fatal(more, err)
		}
		for _, o := range lookup(t, r, ids...).Outcomes {
			if o.Err != nil || !o.Placement.Closed || len(o.Placement.Nodes) != 5 || !o.Placement.Usable() {
				t.Errorf("%+v", o)
			}
		}
		p := lookup(t, r, more[1]).Outcomes[0].Placement
		lost := slices.IndexFunc([]int{0, 1, 2, 3, 4, 5}, func(i int) bool { return slices.Contains(c.Holds(i), more[1]) })
		if err := c.Lose(ctx, lost, more[1]); err != nil {
			t.Fatal(err)
		}
		if now := lookup(t, r, more[1]).Outcomes[0].Placement; len(p.Nodes) != 3 || len(now.Nodes) != 2 || slices.Contains(now.Nodes, c.Number(lost)) {
			t.Errorf("%+v, then %+v without %d", p, now, c.Number(lost))
		}
		given, err := c.Allocate(ctx, muster.Replicated(2), 1)
		if err != nil {
			t.Fatal(err)
		}
		open := given.Blocks[0].Container
		if err := c.CloseContainer(ctx, open); err != nil {
			t.Fatal(err)
		}
		known, err := r.Container(open)
		if err != nil || !known.Closed || len(known.Replicas) != 2 || !known.Replicas[0].Closed {
			t.Errorf("%+v, %v", known, err)
		}
	})
}

func TestADatanodeMovesAndKeepsWhatItHas(t *testing.T) {
	inBoth(t, ClusterOptions{Nodes: 4}, func(t *testing.T, c *Cluster, r *registry.Registry) {
		given, err := c.Allocate(t.Context(), muster.Replicated(4), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Move(t.Context(), 2, "dn-2b", "10.99.9.9", "/rack-0"); err != nil {
			t.Fatal(err)
		}
		if err := c.Kill(1); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Revive(t.Context(), 1), c.Revive(t.Context(), 1)); err != nil {
			t.Fatal(err)
		}
		d := r.Datanodes()
		if len(d) != 4 || d[2].Node.Host != "dn-2b" || d[2].Node.Address != "10.99.9.9" || d[2].Node.Rack != "/rack-0" || d[2].Containers != 1 || d[1].Containers != 1 {
			t.Errorf("%+v", d)
		}
		if p := lookup(t, r, given.Blocks[0].Container).Outcomes[0]; p.Err != nil || len(p.Placement.Nodes) != 4 {
			t.Errorf("%+v", p)
		}
	})
}

func TestAKilledDatanodeIsDeadAfterItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, err := registry.Open(t.TempDir(), registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCluster(t.Context(), r, ClusterOptions{Nodes: 3, Racks: 1})
		if err != nil {
			t.Fatal(err)
		}
		ids, err := c.Make(t.Context(), muster.Replicated(3), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Kill(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		d := r.Datanodes()
		if d[0].Health != muster.InService || d[1].Health != muster.Dead || d[2].Health != muster.InService {
			t.Errorf("%+v", d)
		}
		if p := lookup(t, r, ids[0]).Outcomes[0].Placement; len(p.Nodes) != 2 || slices.Contains(p.Nodes, c.Number(1)) {
			t.Errorf("%+v", p)
		}
		if err := c.Revive(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if p := lookup(t, r, ids[0]).Outcomes[0].Placement; len(p.Nodes) != 3 {
			t.Errorf("%+v", p)
		}
		if err := errors.Join(c.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestClustersThatCannotBe(t *testing.T) {
	for _, o := range []ClusterOptions{{Nodes: 3, Racks: 4}, {Nodes: -1}, {Racks: -1}, {Nodes: maxClusterNodes + 1}} {
		if _, err := NewCluster(t.Context(), nil, o); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := JoinCluster(t.Context(), "127.0.0.1:1", nil, ClusterOptions{}); !errors.Is(err, muster.ErrInvalid) {
		t.Error(err)
	}
	s, _ := startNamespace(t, server.Options{})
	if _, err := JoinCluster(t.Context(), s.Addr().String(), make([]byte, rpc.ClusterKeyBytes), ClusterOptions{}); !errors.Is(err, muster.ErrUnauthenticated) {
		t.Errorf("another cluster's datanode: %v", err)
	}
}

func TestATapCountsAndSpoils(t *testing.T) {
	r, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := NewCluster(t.Context(), r, ClusterOptions{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ids, err := c.Make(t.Context(), muster.Replicated(3), 3)
	if err != nil {
		t.Fatal(err)
	}
	tap := NewTap(r)
	lookup(t, tap, ids...)
	lookup(t, tap, ids[1])
	if n, calls := tap.Calls(), tap.Take(); n != 2 || !slices.Equal(calls[0], ids) || !slices.Equal(calls[1], ids[1:2]) || tap.Calls() != 0 {
		t.Error(n, calls)
	}
	tap.Spoil(func(id uint64) error {
		if id == ids[1] {
			return muster.ErrUnavailable
		}
		return nil
	})
	if o := lookup(t, tap, ids...).Outcomes; o[0].Err != nil || !errors.Is(o[1].Err, muster.ErrUnavailable) || o[2].Err != nil {
		t.Errorf("%+v", o)
	}
	tap.Fail(muster.ErrUnavailable)
	if _, err := tap.Lookup(t.Context(), ids); !errors.Is(err, muster.ErrUnavailable) {
		t.Error(err)
	}
	tap.Fail(nil)
	tap.Spoil(nil)
	if o := lookup(t, tap, ids...).Outcomes; o[1].Err != nil {
		t.Errorf("%+v", o)
	}
	synctest.Test(t, func(t *testing.T) {
		tap := NewTap(nothing{})
		tap.Delay(time.Second)
		begin := time.Now()
		if lookup(t, tap); time.Since(begin) != time.Second {
			t.Errorf("it took %v", time.Since(begin))
		}
	})
}

// nothing is known.
type nothing struct{}

func (nothing) Lookup(context.Context, []uint64) (locations.Answer, error) {
	return locations.Answer{}, nil
}

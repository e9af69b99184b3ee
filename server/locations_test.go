package server_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

func TestAServerHasALocationServiceOfItsOwn(t *testing.T) {
	key := keyFile(t, 1)
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{Registry: quick()}})
	c := join(t, in.Addr().String(), key, 4)
	c.fillContainers(t, in.Registry(), 10)
	in.makeFile(t, "/f", 1, 2)
	eventually(t, "the nearest replica comes first", func() bool {
		near, err := in.where(root(t), "/f", "dn1.example")
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(near, "dn1.example dn") && strings.Contains(near, ", dn1.example dn3.example dn2.example")
	})
	if _, err := in.where(root(t), "/f", ""); err != nil { // from the cache, whenever the topology came
		t.Fatal(err)
	}
	nodes, err := in.Datanodes(root(t), &pb.DatanodesRequest{})
	if err != nil || len(nodes.Datanodes) != 4 || nodes.Datanodes[2].Node.Id != "dn-2" || nodes.Datanodes[2].Node.Address != "127.0.0.1" {
		t.Errorf("datanodes: %v, %v", nodes, err)
	}
	k, err := in.Container(root(t), &pb.ContainerRequest{Container: 3})
	if err != nil || len(k.Members) != 3 || k.Placement.Container != 3 {
		t.Errorf("container 3: %v, %v", k, err)
	}
	_, err = in.Container(root(t), &pb.ContainerRequest{Container: 33})
	wantCode(t, err, muster.ErrNotFound)
	if n := in.counter(t, "location_cache_size"); n != 2 {
		t.Errorf("%v containers in the cache", n)
	}
	if in.counter(t, "location_service_nodes") != 4 || in.counter(t, "location_service_reachable") != 1 || in.counter(t, "location_cache_loads") == 0 {
		t.Error("the counters do not tell of the location service")
	}
	for name, some := range map[string]bool{
		"hits": true, "misses": true, "load_seconds": true, "loaded": true, "nodes": true,
		"load_errors": false, "evictions": false, "forced": false, "unkept": false, "loading": false, "waiting": false,
	} {
		if n := in.counter(t, "location_cache_"+name); some != (n > 0) {
			t.Errorf("location_cache_%s is %v", name, n)
		}
	}
}

func TestUsersDoNotCallTheLocationService(t *testing.T) {
	key := keyFile(t, 1)
	for _, address := range []string{
		start(t, server.Options{KeyFile: key}).Addr().String(),
		startLocations(t, server.LocationsOptions{KeyFile: key}).Addr().String(),
	} {
		for name, pool := range map[string]*rpc.Pool{
			"user":    rpc.NewPool(address, rpc.PoolOptions{}),
			"foreign": peers(t, address, keyFile(t, 2), rpc.RoleDatanode),
		} {
			calls := pb.NewDRPCLocationsClient(pool)
			_, err := calls.Lookup(root(t), &pb.LookupRequest{Containers: []uint64{1}})
			wantCode(t, err, muster.ErrUnauthenticated)
			_, err = calls.Register(root(t), &pb.RegisterRequest{Id: "x", Host: "x", Port: 1})
			wantCode(t, err, muster.ErrUnauthenticated)
			if !strings.Contains(err.Error(), "cluster.key_file") {
				t.Errorf("%s: %v does not name the remedy", name, err)
			}
			if report, err := calls.Report(root(t)); err == nil {
				_ = report.Send(&pb.ReportRequest{Last: true}) // the answer tells
				_, err = report.CloseAndRecv()
				wantCode(t, err, muster.ErrUnauthenticated)
			} else {
				wantCode(t, err, muster.ErrUnauthenticated)
			}
			_ = pool.Close()
		}
	}
}

func TestTheOperatorsWillIsForSuperusers(t *testing.T) {
	key := keyFile(t, 1)
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{Registry: quick()}})
	join(t, in.Addr().String(), key, 2)
	drain := &pb.SetNodeStateRequest{Node: "dn-1", Wanted: uint32(muster.Draining)}
	_, err := in.SetNodeState(as(t, "somebody"), drain)
	wantCode(t, err, muster.ErrPermission)
	r, err := in.SetNodeState(root(t), drain)
	if err != nil || r.Datanode.Wanted != drain.Wanted || r.Datanode.Node.State != drain.Wanted {
		t.Fatalf("drain: %v, %v", r, err)
	}
	_, err = in.SetNodeState(root(t), &pb.SetNodeStateRequest{Node: "dn-7", Wanted: 1})
	wantCode(t, err, muster.ErrNotFound)
	_, err = in.SetNodeState(root(t), &pb.SetNodeStateRequest{Node: "dn-1", Wanted: uint32(muster.Dead)})
	wantCode(t, err, muster.ErrInvalid)
	topology, err := in.Topology(as(t, "somebody"), &pb.TopologyRequest{})
	if err != nil || len(topology.Nodes) != 2 || topology.Nodes[1].State != drain.Wanted {
		t.Errorf("topology: %v, %v", topology, err)
	}
}

func TestOptionsOfLocationsAreChecked(t *testing.T) {
	dir, key := t.TempDir(), keyFile(t, 1)
	_, err := server.Start(t.Context(), server.Options{Dir: dir, Locations: server.Locating{Server: "127.0.0.1:9"}})
	wantCode(t, err, muster.ErrInvalid)
	if !strings.Contains(err.Error(), "cluster.key_file") {
		t.Errorf("%v does not name the remedy", err)
	}
	for name, o := range map[string]server.LocationsOptions{
		"no folder": {KeyFile: key},
		"no key":    {Dir: dir},
		"registry":  {Dir: dir, KeyFile: key, Registry: registry.Options{StaleAfter: time.Hour}},
		"calls":     {Dir: dir, KeyFile: key, RPC: rpc.ServerOptions{MaxCalls: -1}},
	} {
		_, err := server.StartLocations(t.Context(), o)
		if err == nil || muster.CodeOf(err) != muster.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]server.LocationsOptions{
		"missing key": {Dir: dir, KeyFile: filepath.Join(dir, "none")},
		"address":     {Dir: dir, KeyFile: key, Listen: "192.0.2.1:0"},
	} {
		if _, err := server.StartLocations(t.Context(), o); err == nil {
			t.Errorf("%s: it started", name)
		}
	}
	stopLocations(t, startLocations(t, server.LocationsOptions{Dir: dir, KeyFile: key})) // nothing was left behind
}

// A namespace server goes on while its location service is away: with what it has cached,
// and with errors for the rest that come at once and end when the service is back.
func TestALocationServiceThatIsRestarted(t *testing.T) {
	key, dir := keyFile(t, 1), t.TempDir()
	o := server.LocationsOptions{Dir: dir, KeyFile: key, Registry: quick()}
	service := startLocations(t, o)
	o.Listen = service.Addr().String()
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{Server: o.Listen}})
	if in.Registry() != nil {
		t.Error("the server has a registry beside the service")
	}
	c := join(t, o.Listen, key, 4)
	c.fillContainers(t, service.Registry(), 20)
	in.makeFile(t, "/known", 1, 2, 3)
	in.makeFile(t, "/unknown", 4, 5)
	inOrder := func() bool {
		for range 20 { // not by chance
			where, err := in.where(root(t), "/known", "dn0.example")
			if err != nil || !strings.HasPrefix(where, "dn0.example dn2.example dn1.example, dn2.example ") {
				return false
			}
		}
		return true
	}
	eventually(t, "the nearest replica comes first", inOrder)

	stopLocations(t, service)
	for range 10 {
		if _, err := in.where(root(t), "/known", ""); err != nil {
			t.Fatalf("what was cached: %v", err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(root(t), 10*time.Second)
		_, err := in.where(ctx, "/unknown", "")
		cancel()
		wantCode(t, err, muster.ErrUnavailable)
		if took := time.Since(start); took > 5*time.Second || !strings.Contains(err.Error(), o.Listen) {
			t.Errorf("what was not cached: %v after %v", err, took)
		}
	}
	_, err := in.Datanodes(root(t), &pb.DatanodesRequest{})
	wantCode(t, err, muster.ErrUnavailable)
	if in.counter(t, "location_service_reachable") != 0 || in.counter(t, "location_cache_load_errors") == 0 {
		t.Error("the counters do not tell of it")
	}

	startLocations(t, o)
	eventually(t, "the answers are back", func() bool {
		_, err := in.where(root(t), "/unknown", "")
		return err == nil
	})
	eventually(t, "the datanodes are back", func() bool {
		r, err := in.Datanodes(root(t), &pb.DatanodesRequest{})
		if err != nil {
			return false
		}
		for _, d := range r.Datanodes {
			if !d.Reported {
				return false
			}
		}
		return len(r.Datanodes) == 4
	})
	if !inOrder() {
		t.Error("the order was lost")
	}
}

func TestAServerStartsWithoutItsLocationService(t *testing.T) {
	key := keyFile(t, 1)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := lis.Addr().String()
	_ = lis.Close()
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{Server: address}})
	in.check(t)
	in.makeFile(t, "/f", 1)
	_, err = in.where(root(t), "/f", "")
	wantCode(t, err, muster.ErrUnavailable)
	service := startLocations(t, server.LocationsOptions{Listen: address, KeyFile: key, Registry: quick()})
	join(t, address, key, 3).fillContainers(t, service.Registry(), 1)
	eventually(t, "it was found", func() bool {
		where, err := in.where(root(t), "/f", "dn2.example")
		return err == nil && strings.HasPrefix(where, "dn2.example dn0.example")
	})
}

func TestALocationServiceOfAnotherKeyIsNamed(t *testing.T) {
	service := startLocations(t, server.LocationsOptions{KeyFile: keyFile(t, 1)})
	in := start(t, server.Options{KeyFile: keyFile(t, 2), Locations: server.Locating{Server: service.Addr().String()}})
	in.makeFile(t, "/f", 1)
	for range 3 {
		_, err := in.where(root(t), "/f", "")
		wantCode(t, err, muster.ErrUnavailable)
		if !strings.Contains(err.Error(), "cluster.key_file") {
			t.Errorf("%v does not name the remedy", err)
		}
	}
	in.check(t)
}

// A location service that takes connections and says nothing holds a caller no longer than
// the caller has time.
func TestASilentLocationServiceHoldsNobody(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, nc) }() // ends with the server's pool
		}
	}()
	in := start(t, server.Options{KeyFile: keyFile(t, 1), Locations: server.Locating{Server: lis.Addr().String()}})
	in.makeFile(t, "/f", 1)
	ctx, cancel := context.WithTimeout(root(t), 200*time.Millisecond)
	defer cancel()
	if _, err := in.where(ctx, "/f", ""); err == nil {
		t.Error("somebody answered")
	}
	start := time.Now()
	if in.counter(t, "location_service_reachable") != 0 {
		t.Error("it counts as reachable")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the status took %v", took)
	}
}

func TestTheCacheCanBeGivenAnotherSource(t *testing.T) {
	var tap *bench.Tap
	in := start(t, server.Options{Locations: server.Locating{Wrap: func(s locations.Source) locations.Source {
		tap = bench.NewTap(s)
		return tap
	}}})
	in.makeFile(t, "/f", 1, 2)
	if _, err := in.where(root(t), "/f", ""); err != nil {
		t.Fatal(err)
	}
	if calls := tap.Take(); len(calls) != 1 || len(calls[0]) != 2 {
		t.Errorf("asked for %d", calls)
	}
}

// A server whose location service cannot write any more ends, as with its own store.
func TestAServerWhoseRegistryFailsEnds(t *testing.T) {
	key, disk := keyFile(t, 1), new(failingDisk)
	o := registry.Options{FS: errorfs.Wrap(vfs.NewMem(), disk)}
	s, err := server.Start(t.Context(), server.Options{Dir: t.TempDir(), KeyFile: key, Locations: server.Locating{Registry: o}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.StartLocations(t.Context(), server.LocationsOptions{Dir: t.TempDir(), KeyFile: key, Registry: registry.Options{FS: errorfs.Wrap(vfs.NewMem(), disk)}})
	if err != nil {
		t.Fatal(err)
	}
	disk.failed.Store(true)
	for _, s := range []interface {
		Addr() net.Addr
		Done() <-chan struct{}
		Err() error
		Shutdown(context.Context) error
	}{s, l} {
		p := peers(t, s.Addr().String(), key, rpc.RoleDatanode)
		_, err := pb.NewDRPCLocationsClient(p).Register(t.Context(), &pb.RegisterRequest{Id: "dn", Host: "h", Port: 1})
		wantCode(t, err, muster.ErrUnavailable)
		_ = p.Close()
		<-s.Done()
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "the store failed") || s.Shutdown(t.Context()) != err {
			t.Errorf("Err is %v", err)
		}
	}
}

// Who waits for a new topology does not hold up a server that stops.
func TestAStopDoesNotWaitForTheTopology(t *testing.T) {
	key := keyFile(t, 1)
	s := startLocations(t, server.LocationsOptions{KeyFile: key})
	calls := pb.NewDRPCLocationsClient(peers(t, s.Addr().String(), key, rpc.RoleNamespace))
	first, err := calls.Topology(t.Context(), &pb.TopologyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := calls.Topology(t.Context(), &pb.TopologyRequest{Boot: first.Boot, Version: first.Version, WaitMs: 60_000})
		answered <- err
	}()
	stats := pb.NewDRPCLocationsClient(peers(t, s.Addr().String(), key, rpc.RoleNamespace))
	eventually(t, "both connections are there", func() bool {
		r, err := stats.LocationsStatus(t.Context(), &pb.LocationsStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Counters {
			if c.Name == "connections" {
				return c.Value == 2
			}
		}
		return false
	})
	stopLocations(t, s) // within 20 s, and without an error
	wantCode(t, <-answered, muster.ErrUnavailable)
}

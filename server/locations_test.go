package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// keyFile returns a file with a cluster key of the given bytes.
func keyFile(t *testing.T, fill byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{fill}, rpc.ClusterKeyBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// peers returns connections to address that prove the key of a file.
func peers(t *testing.T, address, file, role string) *rpc.Pool {
	t.Helper()
	cluster, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := rpc.NewPeerKey(cluster)
	if err != nil {
		t.Fatal(err)
	}
	p := rpc.NewPool(address, rpc.PoolOptions{PeerKey: key, PeerRole: role})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// cluster is datanodes of a location service, without disks.
type cluster struct {
	pool    *rpc.Pool
	members []*member.Member
	numbers []muster.NodeNumber
}

// join makes count datanodes, in turn in two racks, join the service at address.
func join(t *testing.T, address, key string, count int) *cluster {
	t.Helper()
	c := &cluster{pool: peers(t, address, key, rpc.RoleDatanode)}
	for i := range count {
		m, err := member.Join(t.Context(), c.pool, member.Options{
			ID: fmt.Sprintf("dn-%d", i), Host: fmt.Sprintf("dn%d.example", i), Port: 9866, Rack: fmt.Sprintf("/r%d", i%2),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		c.members, c.numbers = append(c.members, m), append(c.numbers, m.Number())
	}
	return c
}

// fillContainers makes containers 1 to n known, each on three of the nodes.
func (c *cluster) fillContainers(t *testing.T, r *registry.Registry, n int) {
	t.Helper()
	var all []registry.Imported
	for id := range uint64(n) {
		k := registry.Imported{Container: id + 1, Replication: muster.Replicated(3)}
		for i := range uint64(3) {
			k.Members = append(k.Members, c.numbers[(id+i)%uint64(len(c.numbers))])
		}
		all = append(all, k)
	}
	if err := r.Import(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// quick are the options of a registry whose nodes are soon stale and dead.
func quick() registry.Options { return registry.Options{Heartbeat: 20 * time.Millisecond} }

// startLocations starts a location service in "a process of its own".
func startLocations(t *testing.T, o server.LocationsOptions) *server.LocationServer {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := server.StartLocations(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopLocations(t, s) })
	return s
}

func stopLocations(t *testing.T, s *server.LocationServer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown of the location service: %v", err)
	}
}

// eventually waits until what happens elsewhere has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

// makeFile makes a file with one block in each of the containers.
func (in *instance) makeFile(t *testing.T, path string, containers ...uint64) {
	t.Helper()
	c := muster.Create{Path: path, Mode: 0o644, Replication: muster.Replicated(3), Parents: true}
	for _, id := range containers {
		c.Blocks = append(c.Blocks, muster.Block{Container: id, LocalID: 1, Length: 10})
		c.Length += 10
	}
	in.apply(t, c)
}

// where returns the hosts of a file's blocks, in the order told.
func (in *instance) where(ctx context.Context, path, reader string) (string, error) {
	r, err := in.Locate(ctx, &pb.LocateRequest{Path: []byte(path), Reader: reader})
	if err != nil {
		return "", err
	}
	var blocks []string
	order := r.Located.Order
	for _, at := range r.Located.Placements {
		var hosts []string
		nodes := r.Located.Containers[at].Nodes
		for _, i := range order[:len(nodes)] {
			hosts = append(hosts, r.Located.Nodes[nodes[i]-1].Host)
		}
		order = order[len(nodes):]
		blocks = append(blocks, strings.Join(hosts, " "))
	}
	return strings.Join(blocks, ", "), nil
}

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
	asked := make(chan int, 10)
	in := start(t, server.Options{Locations: server.Locating{Wrap: func(s locations.Source) locations.Source {
		return counted{s, asked}
	}}})
	in.makeFile(t, "/f", 1, 2)
	if _, err := in.where(root(t), "/f", ""); err != nil {
		t.Fatal(err)
	}
	if n := <-asked; n != 2 {
		t.Errorf("asked for %d", n)
	}
}

type counted struct {
	locations.Source
	asked chan int
}

func (c counted) Lookup(ctx context.Context, ids []uint64) (locations.Answer, error) {
	c.asked <- len(ids)
	return c.Source.Lookup(ctx, ids)
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

package server_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
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

// quick are the options of a registry that soon hears from its datanodes.
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

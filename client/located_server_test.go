package client_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// cluster is datanodes that have joined a server, and what has the cluster key.
type cluster struct {
	pool  *rpc.Pool
	nodes []*member.Member
}

// join makes datanodes join: dn0 in rack /r0, dn1 in /r1 and so on.
func (in *instance) join(count int) *cluster {
	in.t.Helper()
	return in.joinAt(in.addr(), "", count)
}

// joinAt is join at a location service that may be another one than the server's own; "" is the
// server's own key.
func (in *instance) joinAt(service, keyFile string, count int) *cluster {
	in.t.Helper()
	secret, err := server.ClusterKey(in.options.Dir, keyFile, slog.New(slog.DiscardHandler))
	must(in.t, err)
	key, err := rpc.NewPeerKey(secret)
	must(in.t, err)
	c := &cluster{pool: rpc.NewPool(service, rpc.PoolOptions{PeerKey: key, PeerRole: rpc.RoleDatanode})}
	in.t.Cleanup(func() { _ = c.pool.Close() })
	for i := range count {
		m, err := member.Join(in.t.Context(), c.pool, member.Options{ID: fmt.Sprint("node-", i), Host: fmt.Sprint("dn", i), Port: 9866, Rack: fmt.Sprint("/r", i)})
		must(in.t, err)
		in.t.Cleanup(func() { _ = m.Close() })
		c.nodes = append(c.nodes, m)
	}
	// The server follows its location service.
	asking := dial(in.t, in.addr(), client.Options{})
	for want := (client.Counter{Name: "topology_nodes", Value: float64(count)}); ; {
		status, err := asking.Status(in.t.Context())
		must(in.t, err)
		if slices.Contains(status.Counters, want) {
			break
		}
	}
	return c
}

// file makes a file of blocks of 100 bytes on the datanodes.
func (c *cluster) file(t *testing.T, to *client.Client, path string, r muster.Replication, blocks int) {
	t.Helper()
	allocated, err := pb.NewDRPCLocationsClient(c.pool).Allocate(t.Context(), &pb.AllocateRequest{Replication: uint32(r), Count: uint32(blocks)})
	must(t, err)
	file := muster.Create{Path: path, Parents: true, Replication: r, BlockSize: 100, Length: int64(100 * blocks)}
	for _, b := range allocated.Blocks {
		file.Blocks = append(file.Blocks, muster.Block{Container: b.Container, LocalID: b.LocalId, Length: 100})
	}
	_, err = to.Apply(t.Context(), file)
	must(t, err)
}

func hosts(b client.LocatedBlock) (hosts []string) {
	for _, r := range b.Replicas {
		hosts = append(hosts, r.Host)
	}
	return hosts
}

// TestLocatedCallsOfAServer is the whole way: datanodes that joined, blocks on them, and what
// a reader in a rack is told.
func TestLocatedCallsOfAServer(t *testing.T) {
	in := start(t)
	nodes := in.join(5)
	c := dial(t, in.addr(), client.Options{Reader: "/r2"})
	nodes.file(t, c, "/f", muster.Replicated(5), 3)
	rs32, _ := muster.ParseReplication("ec/rs-3-2")
	nodes.file(t, c, "/coded", rs32, 2)
	must(t, c.Symlink(t.Context(), "f", "/l"))
	for name, call := range callsOf(c) {
		for _, path := range []string{"/f", "/l"} {
			got, err := call(t.Context(), path)
			if err != nil || len(got.Blocks) != 3 || got.Size() != 300 || got.NoData {
				t.Fatalf("%s %s: %+v, %v", name, path, got, err)
			}
			for i, b := range got.Blocks {
				all := hosts(b)
				if all[0] != "dn2" || b.Replicas[0].Rack != "/r2" || b.Replicas[0].State != muster.InService || b.Offset != int64(100*i) || b.Err != nil {
					t.Errorf("%s %s: block %d at %d on %v, %v", name, path, i, b.Offset, all, b.Err)
				}
				if slices.Sort(all); !slices.Equal(all, []string{"dn0", "dn1", "dn2", "dn3", "dn4"}) {
					t.Errorf("%s %s: block %d on %v", name, path, i, all)
				}
			}
		}
		coded, err := call(t.Context(), "/coded")
		if err != nil || len(coded.Blocks) != 2 {
			t.Fatalf("%s: %v", name, err)
		}
		var indexes []int
		for _, r := range coded.Blocks[0].Replicas {
			indexes = append(indexes, r.Index)
		}
		if slices.Sort(indexes); !slices.Equal(indexes, []int{1, 2, 3, 4, 5}) {
			t.Errorf("%s: replicas %v", name, indexes)
		}
	}
	part, err := c.Locate(t.Context(), "/f", 150, 10)
	if err != nil || len(part.Blocks) != 1 || part.Blocks[0].Offset != 100 {
		t.Errorf("%+v, %v", part.Blocks, err)
	}
	if plain, err := c.Stat(t.Context(), "/f"); err != nil || len(plain.Entry.Blocks) != 3 {
		t.Errorf("head: %+v, %v", plain, err)
	}
	if _, err := c.Locate(t.Context(), "/f", -1, 0); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("before the beginning: %v", err)
	}
}

// TestTheLargestFileWorksEverywhere, and a larger one is refused.
func TestTheLargestFileWorksEverywhere(t *testing.T) {
	in := start(t)
	nodes := in.join(3)
	c := dial(t, in.addr(), client.Options{Reader: "/r2"})
	nodes.file(t, c, "/d/big", muster.Replicated(3), muster.MaxBlocks)
	check := func(what string, blocks []client.LocatedBlock, err error) {
		t.Helper()
		if err != nil || len(blocks) != muster.MaxBlocks {
			t.Errorf("%s: %d blocks, %v", what, len(blocks), err)
			return
		}
		for i, b := range blocks {
			if all := hosts(b); b.Offset != int64(100*i) || len(all) != 3 || all[0] != "dn2" {
				t.Fatalf("%s: block %d at %d on %v", what, i, b.Offset, all)
			}
		}
	}
	for name, call := range callsOf(c) {
		got, err := call(t.Context(), "/d/big")
		check(name, got.Blocks, err)
	}
	for p, err := range c.LocateMany(t.Context(), slices.Values([]string{"/d/big"}), client.LocateOptions{}) {
		check("many", p.Located.Blocks, errors.Join(err, p.Err))
	}
	for _, consistency := range []muster.Consistency{muster.ConsistencyPage, muster.ConsistencySnapshot} {
		o := client.ListOptions{Locations: muster.LocationsMust, Sorted: true, Consistency: consistency}
		rows := 0
		for b, err := range c.List(t.Context(), slices.Values([]string{"/d"}), o) {
			must(t, err)
			for i := range b.Len() {
				check("list", b.Located(i).Blocks, nil)
				rows++
			}
		}
		if rows != 1 {
			t.Errorf("%d rows", rows)
		}
	}
	if head, err := c.Stat(t.Context(), "/d/big"); err != nil || len(head.Entry.Blocks) != muster.MaxBlocks {
		t.Errorf("head: %d blocks, %v", len(head.Entry.Blocks), err)
	}
	more := muster.Create{Path: "/more", Replication: muster.Replicated(3), Blocks: make([]muster.Block, muster.MaxBlocks+1)}
	if _, err := c.Apply(t.Context(), more); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("one block more: %v", err)
	}
	if _, err := pb.NewDRPCLocationsClient(nodes.pool).Allocate(t.Context(), &pb.AllocateRequest{Replication: uint32(muster.Replicated(3)), Count: muster.MaxBlocks + 1}); muster.CodeOf(rpc.FromWire(err)) != muster.ErrInvalid {
		t.Errorf("one block more: %v", err)
	}
}

// TestLocatedCallsGoOnThroughRestarts of the server, its location service in it: none fails,
// and none tells of fewer replicas.
func TestLocatedCallsGoOnThroughRestarts(t *testing.T) {
	in := start(t)
	nodes := in.join(3)
	c := dial(t, in.addr(), client.Options{Attempts: 100})
	nodes.file(t, c, "/f", muster.Replicated(3), 5)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for name, call := range callsOf(c) {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := call(t.Context(), "/f")
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				for _, b := range got.Blocks {
					if all := hosts(b); len(all) != 3 && b.Err == nil {
						t.Errorf("%s: a block on %v", name, all)
					}
				}
				if len(got.Blocks) != 5 {
					t.Errorf("%s: %d blocks", name, len(got.Blocks))
				}
			}
		})
	}
	for range 5 {
		in.kill()
		in.up()
		if _, err := c.Lookup(t.Context(), "/f"); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	}
	close(stop)
	callers.Wait()
	// What was told before the restarts is of another start of the server: so it is stale.
	got, err := c.StatLocated(t.Context(), "/f")
	must(t, err)
	in.kill()
	in.up()
	if again, err := c.OpenLocated(t.Context(), "/f", got.Blocks[0].Stale()); err != nil || len(again.Blocks[0].Replicas) != 3 {
		t.Errorf("%+v, %v", again.Blocks, err)
	}
}

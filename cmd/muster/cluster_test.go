package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// joinNodes makes datanodes join the script's server: dn0 in rack /r0, dn1 in /r1 and so on,
// each host with the port 9866. They have no disks.
func joinNodes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: datanodes COUNT")
	}
	count, err := strconv.Atoi(args[0])
	ts.Check(err)
	pool := peerPool(ts, rpc.RoleDatanode)
	for i := range count {
		join(ts, pool, member.Options{ID: fmt.Sprintf("node-%d", i), Host: fmt.Sprintf("dn%d", i), Rack: fmt.Sprintf("/r%d", i)})
	}
}

// joinNode makes a datanode join whose rack is what the rack file says.
func joinNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: datanode ID HOST ADDRESS")
	}
	join(ts, peerPool(ts, rpc.RoleDatanode), member.Options{ID: args[0], Host: args[1], Address: args[2]})
}

// join makes a datanode join until the script ends. It returns when the server knows: that
// follows its location service.
func join(ts *testscript.TestScript, pool *rpc.Pool, o member.Options) {
	o.Port = 9866
	m, err := member.Join(context.Background(), pool, o)
	ts.Check(err)
	ts.Defer(func() { _ = m.Close() })
	c := scriptClient(ts)
	defer c.Close()
	known := func(counter client.Counter) bool {
		return counter.Name == "topology_nodes" && counter.Value > float64(m.Number())
	}
	for {
		status, err := c.Status(context.Background())
		ts.Check(err)
		if slices.ContainsFunc(status.Counters, known) {
			return
		}
	}
}

// putFile makes a file of blocks of 100 bytes, in containers of the location service.
func putFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: put PATH REPLICATION BLOCKS")
	}
	replication, err := muster.ParseReplication(args[1])
	ts.Check(err)
	count, err := strconv.Atoi(args[2])
	ts.Check(err)
	service := pb.NewDRPCLocationsClient(peerPool(ts, rpc.RoleNamespace))
	allocated, err := service.Allocate(context.Background(), &pb.AllocateRequest{Replication: uint32(replication), Count: uint32(count)})
	ts.Check(err)
	file := muster.Create{Path: args[0], Mode: 0o644, Parents: true, Replication: replication, BlockSize: 100, Length: int64(100 * count)}
	for _, b := range allocated.Blocks {
		file.Blocks = append(file.Blocks, muster.Block{Container: b.Container, LocalID: b.LocalId, Length: 100})
	}
	c := scriptClient(ts)
	defer c.Close()
	_, err = c.Apply(context.Background(), file)
	ts.Check(err)
}

// scriptClient returns a client of the script's server.
func scriptClient(ts *testscript.TestScript) *client.Client {
	c, err := client.Dial(context.Background(), ts.Getenv("MUSTER_SERVER"), client.Options{User: "ann", Groups: []string{muster.Supergroup}})
	ts.Check(err)
	return c
}

// peerPool returns connections to the script's location service, or else to its server,
// that prove the cluster key.
func peerPool(ts *testscript.TestScript, role string) *rpc.Pool {
	address, keyFile := ts.Getenv("MUSTER_SERVER"), ""
	if service := ts.Getenv("LOCATIONS"); service != "" {
		address, keyFile = service, ts.MkAbs("cluster.key")
	}
	cluster, err := server.ClusterKey(ts.MkAbs("data"), keyFile, slog.New(slog.DiscardHandler))
	ts.Check(err)
	key, err := rpc.NewPeerKey(cluster)
	ts.Check(err)
	pool := rpc.NewPool(address, rpc.PoolOptions{PeerKey: key, PeerRole: role})
	ts.Defer(func() { _ = pool.Close() })
	return pool
}

package client_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

// joinAs makes a datanode join a server, until the test ends.
func joinAs(t *testing.T, in *instance, o member.Options) *member.Member {
	t.Helper()
	cluster, err := server.ClusterKey(in.options.Dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	key, err := rpc.NewPeerKey(cluster)
	if err != nil {
		t.Fatal(err)
	}
	p := rpc.NewPool(in.options.Listen, rpc.PoolOptions{PeerKey: key, PeerRole: rpc.RoleDatanode})
	m, err := member.Join(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.Close()
		_ = p.Close()
	})
	return m
}

func TestOperatorsSeeDatanodesAndContainers(t *testing.T) {
	in := start(t)
	c, err := client.Dial(t.Context(), in.options.Listen, client.Options{User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	held := []member.Replica{{Container: 7, Index: 2, Closed: true}}
	a := joinAs(t, in, member.Options{ID: "a", Host: "a.example", Port: 9866, Rack: "/r1", Replicas: func() []member.Replica { return held }})
	b := joinAs(t, in, member.Options{ID: "b", Host: "b.example", Port: 9866})
	k := registry.Imported{Container: 7, Replication: 0x0211, Closed: true, Members: []muster.NodeNumber{b.Number(), a.Number()}, NextLocalID: 5}
	if err := in.running.Registry().Import(t.Context(), []registry.Imported{k}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member.Member{a, b} {
		if err := m.ReportAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	nodes, err := c.Datanodes(t.Context())
	if err != nil || len(nodes) != 2 {
		t.Fatalf("datanodes: %+v, %v", nodes, err)
	}
	if d := nodes[0]; d.ID != "a" || d.Rack != "/r1" || d.Containers != 1 || !d.Reported || d.HeartbeatAge < 0 || d.HeartbeatAge > time.Minute || d.State != muster.InService {
		t.Errorf("datanode a: %+v", d)
	}
	topology, err := c.Topology(t.Context())
	if err != nil || len(topology.Nodes) != 2 || topology.Nodes[1].Rack != muster.DefaultRack || topology.Version == 0 || topology.Warning != "" {
		t.Errorf("topology: %+v, %v", topology, err)
	}
	got, err := c.Container(t.Context(), 7)
	if err != nil || got.ID != 7 || got.Replication.String() != "ec/rs-1-1" || !got.Closed || got.NextLocalID != 5 || len(got.Members) != 2 || got.Members[0] != b.Number() {
		t.Errorf("container: %+v, %v", got, err)
	}
	if len(got.Replicas) != 1 || got.Replicas[0] != (client.ContainerReplica{Node: a.Number(), Index: 2, Closed: true}) {
		t.Errorf("replicas: %+v", got.Replicas)
	}
	if _, err := c.Container(t.Context(), 8); !errors.Is(err, muster.ErrNotFound) || !strings.Contains(err.Error(), "container 8") {
		t.Errorf("a container that is not there: %v", err)
	}

	d, err := c.SetNodeState(t.Context(), "b.example", muster.Maintenance)
	if err != nil || d.ID != "b" || d.Wanted != muster.Maintenance || d.State != muster.Maintenance || d.Health != muster.InService {
		t.Errorf("maintenance: %+v, %v", d, err)
	}
	if _, err := c.As("somebody").SetNodeState(t.Context(), "b", muster.InService); !errors.Is(err, muster.ErrPermission) {
		t.Errorf("by somebody: %v", err)
	}
	if _, err := c.SetNodeState(t.Context(), "c", muster.InService); !errors.Is(err, muster.ErrNotFound) || !strings.Contains(err.Error(), "datanode c") {
		t.Errorf("one that is not there: %v", err)
	}
}

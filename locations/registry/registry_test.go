package registry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/locations/topology"
)

var (
	three = muster.Replicated(3)
	rs32  = muster.Replication(0x0232)
)

// open opens a registry, which is closed when the test ends.
func open(t testing.TB, o registry.Options) *registry.Registry {
	t.Helper()
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	r, err := registry.Open("locations", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// registration is that of the i-th datanode.
func registration(i int, rack string) registry.Registration {
	return registry.Registration{
		ID: fmt.Sprintf("dn%d", i), Host: fmt.Sprintf("host%d", i), Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Port: 9000, Rack: rack,
	}
}

// join registers datanodes on racks in turn.
func join(t testing.TB, r *registry.Registry, n int, racks ...string) (all []registry.Registered) {
	t.Helper()
	for i := range n {
		got, err := r.Register(t.Context(), registration(i, racks[i%len(racks)]))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got)
	}
	return all
}

// report makes a full report of replicas without an index, and fails the test if it is refused.
func report(t testing.TB, r *registry.Registry, n registry.Registered, containers ...uint64) {
	t.Helper()
	var all []registry.Replica
	for _, c := range containers {
		all = append(all, registry.Replica{Container: c})
	}
	if unknown, err := r.Report(n.Number, n.Session, true, all); err != nil || unknown > 0 {
		t.Fatalf("report: %d unknown, %v", unknown, err)
	}
}

// lookup looks a container up; it must be there.
func lookup(t testing.TB, r *registry.Registry, id uint64) muster.Placement {
	t.Helper()
	a, err := r.Lookup(t.Context(), []uint64{id})
	if err == nil {
		err = a.Outcomes[0].Err
	}
	if err != nil {
		t.Fatalf("container %d: %v", id, err)
	}
	return a.Outcomes[0].Placement
}

// allocate gets blocks, or fails the test.
func allocate(t testing.TB, r *registry.Registry, q registry.AllocateRequest) registry.Allocation {
	t.Helper()
	a, err := r.Allocate(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// member puts closed containers on datanodes.
func member(t testing.TB, r *registry.Registry, closed bool, members []muster.NodeNumber, ids ...uint64) {
	t.Helper()
	var all []registry.Imported
	for _, id := range ids {
		all = append(all, registry.Imported{Container: id, Replication: muster.Replicated(len(members)), Closed: closed, Members: members})
	}
	if err := r.Import(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// overSeeds runs a test under many seeds, or under the one in MUSTER_SEED.
func overSeeds(t *testing.T, n int, run func(t *testing.T, rng *rand.Rand)) {
	if s := os.Getenv("MUSTER_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		run(t, rand.New(rand.NewPCG(seed, 0)))
		return
	}
	if testing.Short() {
		n = max(1, n/10)
	}
	for range n {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { run(t, rand.New(rand.NewPCG(seed, 0))) }) {
			return
		}
	}
}

func TestADatanodeKeepsItsNumberForEver(t *testing.T) {
	fs := vfs.NewMem()
	r := open(t, registry.Options{FS: fs})
	before := join(t, r, 4, "/r0", "/r1")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, registry.Options{FS: fs})
	for i := 3; i >= 0; i-- { // in another order
		g := registration(i, "/r9")
		g.Host = "moved"
		got, err := r.Register(t.Context(), g)
		if err != nil || got.Number != before[i].Number || got.Rack != "/r9" || got.Session == before[i].Session || got.Session == 0 {
			t.Errorf("datanode %d: %+v, %v; before %+v", i, got, err, before[i])
		}
	}
	if got, err := r.Register(t.Context(), registration(4, "")); err != nil || got.Number != 4 || got.Rack != muster.DefaultRack {
		t.Errorf("a new one: %+v, %v", got, err)
	}
	for i, d := range r.Datanodes() {
		if n := d.Node; int(n.Number) != i || n.ID != fmt.Sprintf("dn%d", i) || n.Port != 9000 || i < 4 && (n.Host != "moved" || n.Rack != "/r9") {
			t.Errorf("datanode %d is %+v", i, d)
		}
	}
}

func TestRegistrationsAreChecked(t *testing.T) {
	r := open(t, registry.Options{})
	good := registry.Registration{ID: "a", Host: "h", Port: 1}
	for what, spoil := range map[string]func(g *registry.Registration){
		"empty node id":       func(g *registry.Registration) { g.ID = "" },
		"node id":             func(g *registry.Registration) { g.ID = "a/b" },
		"empty host":          func(g *registry.Registration) { g.Host = "" },
		"port 0":              func(g *registry.Registration) { g.Port = 0 },
		"no IP address":       func(g *registry.Registration) { g.Address = "h" },
		"does not begin":      func(g *registry.Registration) { g.Rack = "r1" },
		"has 2 names":         func(g *registry.Registration) { g.Rack = "/dc/r1" },
		"control character":   func(g *registry.Registration) { g.Host = "h\x00" },
		"at most 64":          func(g *registry.Registration) { g.ID = strings.Repeat("x", 65) },
		"network location \"": func(g *registry.Registration) { g.Rack = "/" + strings.Repeat("x", 2000) },
	} {
		g := good
		spoil(&g)
		if _, err := r.Register(t.Context(), g); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(r.Datanodes()) != 0 {
		t.Error("one was taken")
	}
	g := good
	g.Address, g.Rack = "::ffff:10.1.2.3", "//r1/"
	if _, err := r.Register(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if n := r.Datanodes()[0].Node; n.Address != "10.1.2.3" || n.Rack != "/r1" {
		t.Errorf("not written the one way: %+v", n)
	}
}

func TestWhoHasNoSessionRegistersAgain(t *testing.T) {
	r := open(t, registry.Options{})
	n := join(t, r, 1, "/r")[0]
	if want, err := r.Heartbeat(n.Number, n.Session, registry.Beat{}); err != nil || !want.Report {
		t.Errorf("first heartbeat: %v, %v", want, err)
	}
	report(t, r, n)
	if want, err := r.Heartbeat(n.Number, n.Session, registry.Beat{}); err != nil || want.Report {
		t.Errorf("after its report: %v, %v", want, err)
	}
	join(t, r, 1, "/r")
	if want, err := r.Heartbeat(n.Number, n.Session, registry.Beat{}); err != nil || !want.Report {
		t.Errorf("after it registered again: %v, %v", want, err)
	}
	for _, c := range []struct {
		number  muster.NodeNumber
		session uint64
	}{{n.Number, n.Session + 1}, {n.Number, 0}, {n.Number + 1, n.Session}, {muster.NoNode, n.Session}} {
		if _, err := r.Heartbeat(c.number, c.session, registry.Beat{}); !errors.Is(err, muster.ErrNotFound) {
			t.Errorf("heartbeat of %+v: %v", c, err)
		}
		if _, err := r.Report(c.number, c.session, true, nil); !errors.Is(err, muster.ErrNotFound) {
			t.Errorf("report of %+v: %v", c, err)
		}
	}
}

func TestTheOperatorsWillOutlivesARestart(t *testing.T) {
	fs := vfs.NewMem()
	r := open(t, registry.Options{FS: fs})
	join(t, r, 3, "/r")
	twin := registration(3, "/r")
	twin.Host, twin.Port = "host2", 9001
	if _, err := r.Register(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]muster.NodeState{"dn0": muster.Draining, "HOST1": muster.Maintenance} {
		if d, err := r.SetNodeState(t.Context(), name, want); err != nil || d.Wanted != want || d.Node.State != want || d.Health != muster.InService {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for name, c := range map[string]struct {
		state muster.NodeState
		code  muster.Code
		says  string
	}{
		"nobody": {muster.Draining, muster.ErrNotFound, "nobody"},
		"host2":  {muster.Draining, muster.ErrInvalid, "dn2, dn3"},
		"dn1":    {muster.Dead, muster.ErrInvalid, "dead"},
		"":       {muster.Draining, muster.ErrNotFound, "no datanode"},
	} {
		if _, err := r.SetNodeState(t.Context(), name, c.state); !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, registry.Options{FS: fs})
	join(t, r, 3, "/r")
	var states []muster.NodeState
	for _, d := range r.Datanodes() {
		states = append(states, d.Node.State)
	}
	if want := []muster.NodeState{muster.Draining, muster.Maintenance, muster.InService, muster.InService}; !slices.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
	if d, err := r.SetNodeState(t.Context(), "10.0.0.0", muster.InService); err != nil || d.Node.State != muster.InService || d.Node.ID != "dn0" {
		t.Errorf("back, by address: %+v, %v", d, err)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	for says, o := range map[string]registry.Options{
		"heartbeat":       {Heartbeat: -1},
		"stale after":     {StaleAfter: time.Second},
		"dead after":      {DeadAfter: time.Second},
		"mapping check":   {MappingCheck: -1},
		"report grace":    {ReportGrace: -1},
		"blocks":          {ContainerBlocks: -1},
		"open containers": {OpenContainers: -1},
		"memtable":        {MemTableBytes: 1},
		"level":           {Schema: topology.Schema{Levels: []topology.Level{{Name: "root"}}}},
		"rack file":       {MappingFile: "/does/not/exist"},
	} {
		o.FS = vfs.NewMem()
		if _, err := registry.Open("locations", o); !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestAClosedRegistryRefusesEveryCall(t *testing.T) {
	r := open(t, registry.Options{})
	n := join(t, r, 3, "/r")[0]
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range everyCall(t, r, n) {
		if !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// everyCall makes each call that can fail, and returns the errors.
func everyCall(t *testing.T, r *registry.Registry, n registry.Registered) map[string]error {
	all := map[string]error{}
	_, all["register"] = r.Register(t.Context(), registration(77, ""))
	_, all["heartbeat"] = r.Heartbeat(n.Number, n.Session, registry.Beat{})
	_, all["report"] = r.Report(n.Number, n.Session, true, nil)
	_, all["lookup"] = r.Lookup(t.Context(), []uint64{1})
	_, all["allocate"] = r.Allocate(t.Context(), registry.AllocateRequest{Replication: three, Count: 1})
	all["close"] = r.CloseContainer(t.Context(), 1)
	all["import"] = r.Import(t.Context(), nil)
	_, all["unfinished"] = r.Unfinished()
	_, all["container"] = r.Container(1)
	_, all["state"] = r.SetNodeState(t.Context(), "dn0", muster.Draining)
	_, all["topology"] = r.Topology(t.Context(), 0, 0, time.Minute)
	return all
}

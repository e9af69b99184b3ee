package member_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a location service on a port that stays its own when it is restarted.
type service struct {
	*server.LocationServer
	t       *testing.T
	options server.LocationsOptions
	pool    *rpc.Pool
}

func start(t *testing.T) *service {
	t.Helper()
	return startWith(t, registry.Options{Heartbeat: 10 * time.Millisecond})
}

func startWith(t *testing.T, o registry.Options) *service {
	t.Helper()
	cluster := bytes.Repeat([]byte{1}, rpc.ClusterKeyBytes)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, cluster, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := rpc.NewPeerKey(cluster)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, options: server.LocationsOptions{
		Dir: t.TempDir(), KeyFile: file, Registry: o,
	}}
	s.start()
	s.options.Listen = s.Addr().String()
	s.pool = rpc.NewPool(s.options.Listen, rpc.PoolOptions{PeerKey: key, PeerRole: rpc.RoleDatanode})
	t.Cleanup(func() {
		_ = s.pool.Close()
		s.stop()
	})
	return s
}

func (s *service) start() {
	s.t.Helper()
	var err error
	if s.LocationServer, err = server.StartLocations(s.t.Context(), s.options); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) stop() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		s.t.Errorf("shutdown: %v", err)
	}
}

func (s *service) join(o member.Options) *member.Member {
	s.t.Helper()
	m, err := member.Join(s.t.Context(), s.pool, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = m.Close() })
	return m
}

// datanode returns what the service knows of the datanode of a number.
func (s *service) datanode(n muster.NodeNumber) registry.Datanode { return s.Registry().Datanodes()[n] }

// importContainers makes containers known, all on one datanode.
func (s *service) importContainers(on muster.NodeNumber, n int) {
	s.t.Helper()
	var list []registry.Imported
	for i := range n {
		list = append(list, registry.Imported{Container: uint64(i) + 1, Replication: muster.Replicated(1), Members: []muster.NodeNumber{on}})
	}
	for some := range slices.Chunk(list, 10_000) {
		if err := s.Registry().Import(s.t.Context(), some); err != nil {
			s.t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

func TestAMemberIsKnownAndReportsWhenItIsAsked(t *testing.T) {
	s := start(t)
	var asked atomic.Int64
	m := s.join(member.Options{ID: "a", Host: "a.example", Port: 9866, HTTPPort: 9864, Rack: "/r1/", Replicas: func() []member.Replica {
		asked.Add(1)
		return nil
	}})
	if m.Number() != 0 || m.Rack() != "/r1" {
		t.Errorf("number %d, rack %s", m.Number(), m.Rack())
	}
	eventually(t, "it has reported", func() bool { return s.datanode(0).Reported })
	want := muster.Node{ID: "a", Host: "a.example", Address: "127.0.0.1", Port: 9866, HTTPPort: 9864, Rack: "/r1"}
	if got := s.datanode(0).Node; got != want || asked.Load() == 0 {
		t.Errorf("it is known as %+v", got)
	}
	if again := s.join(member.Options{ID: "a", Host: "a.example", Port: 1}); again.Number() != 0 {
		t.Errorf("the same datanode got number %d", again.Number())
	}
	if other := s.join(member.Options{ID: "b", Host: "b.example", Port: 1, Address: "10.0.0.1"}); other.Number() != 1 || other.Rack() != muster.DefaultRack {
		t.Errorf("another got number %d in %s", other.Number(), other.Rack())
	}
}

// A report has as many messages as it takes.
func TestLargeReports(t *testing.T) {
	s := start(t)
	const many = 25_001
	var all []member.Replica
	for i := range many {
		all = append(all, member.Replica{Container: uint64(i) + 1})
	}
	m := s.join(member.Options{ID: "a", Host: "a.example", Port: 1, Replicas: func() []member.Replica { return all }})
	s.importContainers(m.Number(), many)
	if err := m.ReportAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.datanode(0).Containers; got != many {
		t.Errorf("%d containers were reported of %d", got, many)
	}
	unknown, err := m.Report(t.Context(), []member.Replica{{Container: 1, Gone: true}, {Container: 2, Closed: true}, {Container: 1 << 40}})
	if err != nil || unknown != 1 {
		t.Errorf("%d unknown, %v", unknown, err)
	}
	if got := s.datanode(0).Containers; got != many-1 {
		t.Errorf("%d containers are left", got)
	}
}

// A datanode that takes long to say what it has is not silent meanwhile.
func TestHeartbeatsWaitForNoReport(t *testing.T) {
	s := start(t)
	listing, listed := make(chan struct{}, 1000), make(chan struct{})
	m := s.join(member.Options{ID: "a", Host: "a.example", Port: 1, Replicas: func() []member.Replica {
		listing <- struct{}{}
		<-listed
		return []member.Replica{{Container: 1}}
	}})
	s.importContainers(m.Number(), 1)
	<-listing
	before := s.Registry().Stats()
	eventually(t, "heartbeats go on", func() bool { return s.Registry().Stats().Heartbeats > before.Heartbeats+20 })
	if after := s.Registry().Stats(); after.Reports != before.Reports || s.datanode(0).Reported {
		t.Errorf("%d reports", after.Reports-before.Reports)
	}
	close(listed)
	eventually(t, "it has reported", func() bool { return s.datanode(0).Containers == 1 })
}

// The heartbeats that ask for a report while it is on its way get this one, and no other after it.
func TestAReportOnItsWayIsNotMadeAgain(t *testing.T) {
	s := start(t)
	const members = 10
	var made atomic.Int64
	hold := make(chan struct{})
	for i := range members {
		s.join(member.Options{ID: "dn" + strconv.Itoa(i), Host: "dn.example", Port: uint16(i) + 1, Replicas: func() []member.Replica {
			made.Add(1)
			<-hold
			return nil
		}})
	}
	beats := func(n uint64) {
		t.Helper()
		before := s.Registry().Stats().Heartbeats
		eventually(t, "heartbeats go on", func() bool { return s.Registry().Stats().Heartbeats >= before+n })
	}
	eventually(t, "all make reports", func() bool { return made.Load() == members })
	beats(10 * members)
	close(hold)
	eventually(t, "all have reported", func() bool {
		return !slices.ContainsFunc(s.Registry().Datanodes(), func(d registry.Datanode) bool { return !d.Reported })
	})
	beats(10 * members)
	// An answer to a heartbeat may have crossed the report.
	if n := made.Load(); n > members+members/2 {
		t.Errorf("%d datanodes made %d reports", members, n)
	}
}

// Of two datanodes with one id, the one that joined last is known; the other is told, and is known
// again when that one is gone.
func TestOfTwoMembersWithOneIDTheLastIsKnown(t *testing.T) {
	s := startWith(t, registry.Options{Heartbeat: 10 * time.Millisecond, StaleAfter: 500 * time.Millisecond})
	all := func(containers ...uint64) func() []member.Replica {
		return func() (list []member.Replica) {
			for _, c := range containers {
				list = append(list, member.Replica{Container: c})
			}
			return list
		}
	}
	lines := make(chan string, 100)
	first := s.join(member.Options{ID: "a", Host: "one.example", Port: 1, Replicas: all(1), Logger: slog.New(slog.NewTextHandler(writes(lines), nil))})
	s.importContainers(first.Number(), 3)
	eventually(t, "the first has reported", func() bool { return s.datanode(0).Containers == 1 })
	second := s.join(member.Options{ID: "a", Host: "two.example", Port: 1, Replicas: all(2, 3)})
	if line := <-lines; !strings.Contains(line, "two.example") || !strings.Contains(line, "another id") {
		t.Errorf("the log of the first: %s", line)
	}
	eventually(t, "the second has reported", func() bool { return s.datanode(0).Containers == 2 })
	if n := s.datanode(0).Node; second.Number() != 0 || n.Host != "two.example" {
		t.Errorf("%+v", n)
	}
	if err := first.ReportAll(t.Context()); muster.CodeOf(err) != muster.ErrExists {
		t.Errorf("a report of the first: %v", err)
	}
	_ = second.Close()
	eventually(t, "the first is known again", func() bool { return s.datanode(0).Node.Host == "one.example" && s.datanode(0).Containers == 1 })
}

func TestAMemberOutlivesTheService(t *testing.T) {
	s := start(t)
	all := []member.Replica{{Container: 1}, {Container: 2}}
	m := s.join(member.Options{ID: "a", Host: "a.example", Port: 1, Replicas: func() []member.Replica { return all }})
	s.importContainers(m.Number(), 2)
	s.stop()
	s.start()
	eventually(t, "it has registered and reported again", func() bool {
		d := s.datanode(0)
		return d.Reported && d.Containers == 2 && d.HeartbeatAge >= 0
	})
	s.stop()
	s.start()
	// A change is reported to a service that has forgotten the rest.
	unknown, err := m.Report(t.Context(), []member.Replica{{Container: 2, Closed: true}})
	if err != nil && !rpc.Retryable(err) || unknown != 0 {
		t.Errorf("%d unknown, %v", unknown, err)
	}
	eventually(t, "all is known again", func() bool { return s.datanode(0).Containers == 2 })
}

func TestJoiningWaitsForTheServiceAndNotForEver(t *testing.T) {
	s := start(t)
	s.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := member.Join(ctx, s.pool, member.Options{ID: "a", Host: "a.example", Port: 1}); err == nil {
		t.Fatal("it joined nothing")
	}
	joined := make(chan *member.Member)
	go func() {
		m, err := member.Join(t.Context(), s.pool, member.Options{ID: "a", Host: "a.example", Port: 1})
		if err != nil {
			t.Error(err)
		}
		joined <- m
	}()
	s.start()
	if m := <-joined; m != nil {
		_ = m.Close()
	}
}

func TestWhatTheServiceRefusesEndsJoining(t *testing.T) {
	s := start(t)
	for name, o := range map[string]member.Options{
		"no id":    {Host: "a.example", Port: 1},
		"bad host": {ID: "a", Host: "a b", Port: 1},
		"bad rack": {ID: "a", Host: "a.example", Port: 1, Rack: "/too/deep"},
	} {
		if _, err := member.Join(t.Context(), s.pool, o); muster.CodeOf(err) != muster.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreign, err := rpc.NewPeerKey(make([]byte, rpc.ClusterKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(s.options.Listen, rpc.PoolOptions{PeerKey: foreign, PeerRole: rpc.RoleDatanode})
	defer func() { _ = pool.Close() }()
	if _, err := member.Join(t.Context(), pool, member.Options{ID: "a", Host: "a.example", Port: 1}); muster.CodeOf(err) != muster.ErrUnauthenticated {
		t.Errorf("another key: %v", err)
	}
}

// An outage is logged when it begins and when it ends, and not at each heartbeat.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	s := start(t)
	lines := make(chan string, 100)
	m := s.join(member.Options{ID: "a", Host: "a.example", Port: 1, Logger: slog.New(slog.NewTextHandler(writes(lines), nil))})
	s.stop()
	<-lines // it does not hear this datanode
	s.start()
	<-lines // it hears it again
	eventually(t, "it is known", func() bool { return s.datanode(m.Number()).HeartbeatAge >= 0 })
	if n := len(lines); n != 0 {
		t.Errorf("%d lines more", n)
	}
}

// writes passes lines on.
type writes chan string

func (w writes) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

package registry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// model is a registry beside a naive one: maps, and each rule written down as it is told.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	fs      vfs.FS
	r       *registry.Registry
	started time.Time
	settled bool

	nodes      []*modelNode
	containers map[uint64]*modelContainer
}

type modelNode struct {
	g        registry.Registration
	session  uint64 // 0: not registered since the start
	former   uint64 // of this start, when it was elsewhere; 0: none
	last     time.Time
	wanted   muster.NodeState
	dead     bool // was, when last looked
	reported bool // all, since the start
	asked    bool // for a full report
}

type modelContainer struct {
	imported  registry.Imported
	closed    bool
	presumed  map[muster.NodeNumber]bool // members that count though they said nothing
	mentioned []muster.NodeNumber        // who has said anything, in order
	has       map[muster.NodeNumber]*registry.Replica
}

// TestAgainstANaiveRegistry does random things, restarts among them, and compares all answers.
func TestAgainstANaiveRegistry(t *testing.T) {
	overSeeds(t, 20, func(t *testing.T, rng *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{t: t, rng: rng, fs: vfs.NewMem(), containers: map[uint64]*modelContainer{}}
			m.restart()
			defer func() { m.r.Close() }()
			for range 300 {
				m.step()
				m.compare()
			}
		})
	})
}

func (m *model) restart() {
	m.t.Helper()
	if m.r != nil {
		if err := m.r.Close(); err != nil {
			m.t.Fatal(err)
		}
	}
	r, err := registry.Open("locations", registry.Options{FS: m.fs, DeadAfter: 90 * time.Second, ReportGrace: 2 * time.Minute, PlanEvery: -1})
	if err != nil {
		m.t.Fatal(err)
	}
	m.r, m.started, m.settled = r, time.Now(), len(m.nodes) == 0
	for _, n := range m.nodes {
		n.session, n.former, n.last, n.dead, n.reported, n.asked = 0, 0, time.Time{}, false, false, true
	}
	for _, c := range m.containers {
		c.forget()
	}
}

// forget goes back to what is known before any report.
func (c *modelContainer) forget() {
	c.mentioned, c.has, c.presumed = nil, map[muster.NodeNumber]*registry.Replica{}, map[muster.NodeNumber]bool{}
	for _, n := range c.imported.Members {
		c.presumed[n] = true
	}
}

func (m *model) step() {
	m.t.Helper()
	switch pick := m.rng.IntN(20); {
	case pick < 3 || len(m.nodes) < 6:
		m.register()
	case pick < 6:
		m.importSome()
	case pick < 8:
		m.close()
	case pick < 12:
		m.report(true)
	case pick < 15:
		m.report(false)
	case pick < 18:
		m.pass()
	case pick < 19:
		m.want()
	default:
		m.restart()
	}
}

func (m *model) register() {
	i := m.rng.IntN(9)
	g := registration(i, "/r")
	if m.rng.IntN(4) == 0 {
		g.Port += uint16(m.rng.IntN(3))
	}
	at := slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.g.ID == g.ID })
	if at < 0 {
		at = len(m.nodes)
		m.nodes = append(m.nodes, &modelNode{g: g})
	}
	got, err := m.r.Register(m.t.Context(), g)
	if err != nil || int(got.Number) != at {
		m.t.Fatalf("%s: %+v, %v; want number %d", g.ID, got, err, at)
	}
	n := m.nodes[at]
	moved := g != n.g
	if n.session != 0 && moved != (got.Session != n.session) {
		m.t.Fatalf("%s has the session %d, and had %d; moved %v", g.ID, got.Session, n.session, moved)
	}
	if n.session != 0 && moved {
		n.former = n.session
	}
	n.g, n.session, n.last, n.dead, n.asked = g, got.Session, time.Now(), false, true
}

// another lets a datanode with the id of one speak, which was known before that was.
func (m *model) another(at int) {
	n, number := m.nodes[at], muster.NodeNumber(at)
	if n.former == 0 {
		return
	}
	want := muster.ErrNotFound
	if m.health(number) == muster.InService {
		want = muster.ErrExists
	}
	_, err := m.r.Heartbeat(number, n.former, registry.Beat{})
	_, reportErr := m.r.Report(number, n.former, true, nil)
	if !errors.Is(err, want) || !errors.Is(reportErr, want) {
		m.t.Fatalf("another %s: %v and %v, want %v", n.g.ID, err, reportErr, want)
	}
}

func (m *model) importSome() {
	var all []registry.Imported
	for range 1 + m.rng.IntN(3) {
		id := 1 + m.rng.Uint64N(40)
		if m.containers[id] != nil || slices.ContainsFunc(all, func(c registry.Imported) bool { return c.Container == id }) {
			continue
		}
		c := registry.Imported{Container: id, Replication: []muster.Replication{muster.Replicated(1), three, rs32}[m.rng.IntN(3)], Closed: m.rng.IntN(2) == 0}
		for _, n := range m.rng.Perm(len(m.nodes))[:c.Replication.Nodes()] {
			c.Members = append(c.Members, muster.NodeNumber(n))
		}
		all = append(all, c)
	}
	if err := m.r.Import(m.t.Context(), all); err != nil {
		m.t.Fatal(err)
	}
	for _, c := range all {
		m.containers[c.Container] = &modelContainer{imported: c, closed: c.Closed}
		m.containers[c.Container].forget()
	}
}

func (m *model) close() {
	id := 1 + m.rng.Uint64N(40)
	c := m.containers[id]
	if err := m.r.CloseContainer(m.t.Context(), id); errors.Is(err, muster.ErrNotFound) != (c == nil) || c != nil && err != nil {
		m.t.Fatal(err)
	}
	if c == nil || c.closed {
		return
	}
	c.closed = true
	for _, n := range c.imported.Members {
		c.presumed[n] = true
	}
}

func (m *model) report(full bool) {
	at := m.rng.IntN(len(m.nodes))
	m.another(at)
	number, n := muster.NodeNumber(at), m.nodes[at]
	var all []registry.Replica
	want := uint64(0)
	for id := range uint64(42) {
		if m.rng.IntN(3) > 0 {
			continue
		}
		p := registry.Replica{Container: id, Closed: m.rng.IntN(2) == 0, Gone: m.rng.IntN(4) == 0}
		c := m.containers[id]
		if c != nil && c.imported.Replication == rs32 {
			p.Index = uint8(1 + m.rng.IntN(5))
		}
		if c == nil {
			want++
		}
		all = append(all, p)
	}
	unknown, err := m.r.Report(number, n.session, full, all)
	if errors.Is(err, muster.ErrNotFound) != (n.session == 0) || n.session != 0 && (err != nil || unknown != want) {
		m.t.Fatalf("report: %d unknown, want %d; %v", unknown, want, err)
	}
	if n.session == 0 {
		return
	}
	n.last, n.dead = time.Now(), false
	for id, c := range m.containers {
		i := slices.IndexFunc(all, func(p registry.Replica) bool { return p.Container == id })
		c.hear(number, full, i, all)
	}
	if full {
		n.reported, n.asked = true, false
		m.settle()
	}
}

// hear notes what a report says of a container: the i-th replica, nothing if that is -1.
func (c *modelContainer) hear(n muster.NodeNumber, full bool, i int, all []registry.Replica) {
	said := slices.Contains(c.mentioned, n)
	switch {
	case i >= 0 && !(full && all[i].Gone):
		if !said {
			c.mentioned = append(c.mentioned, n)
		}
		delete(c.presumed, n)
		delete(c.has, n)
		if !all[i].Gone {
			c.has[n] = &all[i]
		}
	case full:
		delete(c.has, n)
		if c.closed {
			delete(c.presumed, n)
		}
	}
}

// pass lets time go by, in which some datanodes live and others do not.
func (m *model) pass() {
	var live []registry.Registered
	for i, n := range m.nodes {
		if n.session != 0 && m.rng.IntN(3) > 0 {
			live = append(live, registry.Registered{Number: muster.NodeNumber(i), Session: n.session})
		}
	}
	time.Sleep(time.Duration(m.rng.IntN(40_000))*time.Millisecond + 500*time.Microsecond)
	synctest.Wait()
	m.look()
	for _, l := range live {
		n := m.nodes[l.Number]
		asked, err := m.r.Heartbeat(l.Number, l.Session, registry.Beat{})
		if err != nil || asked.Report != n.asked {
			m.t.Fatalf("heartbeat of %s: asked %v, want %v; %v", n.g.ID, asked, n.asked, err)
		}
		n.last = time.Now()
	}
	m.look()
}

// look notes what time has done.
func (m *model) look() {
	for i, n := range m.nodes {
		if n.dead = m.health(muster.NodeNumber(i)) == muster.Dead; n.dead {
			n.asked = true
		}
	}
	m.settle()
}

// settle notes whether there are no reports to wait for.
func (m *model) settle() {
	awaited := slices.ContainsFunc(m.nodes, func(n *modelNode) bool { return !n.reported && !n.dead })
	m.settled = m.settled || !awaited || time.Since(m.started) >= 2*time.Minute
}

func (m *model) want() {
	n := m.nodes[m.rng.IntN(len(m.nodes))]
	n.wanted = muster.NodeState(m.rng.IntN(3))
	if _, err := m.r.SetNodeState(m.t.Context(), n.g.ID, n.wanted); err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) health(n muster.NodeNumber) muster.NodeState {
	last := m.nodes[n].last
	if last.IsZero() {
		last = m.started
	}
	switch silent := time.Since(last); {
	case silent >= 90*time.Second:
		return muster.Dead
	case silent >= 30*time.Second:
		return muster.Stale
	}
	return muster.InService
}

// where returns the datanodes that count, and at which index.
func (m *model) where(c *modelContainer) (nodes []muster.NodeNumber, index map[muster.NodeNumber]int) {
	index = map[muster.NodeNumber]int{}
	for _, health := range []muster.NodeState{muster.InService, muster.Stale} {
		for i, n := range c.imported.Members {
			if m.health(n) == health && (c.has[n] != nil || c.presumed[n] && !slices.Contains(c.mentioned, n)) {
				nodes, index[n] = append(nodes, n), i+1
			}
		}
		for _, n := range c.mentioned {
			if m.health(n) == health && c.has[n] != nil && !slices.Contains(c.imported.Members, n) {
				nodes = append(nodes, n)
			}
		}
	}
	for n, p := range c.has {
		index[n] = int(p.Index)
	}
	return nodes, index
}

func (m *model) compare() {
	m.t.Helper()
	var ids []uint64
	for id := range uint64(42) {
		ids = append(ids, id)
	}
	a, err := m.r.Lookup(m.t.Context(), ids)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, id := range ids {
		got, c := a.Outcomes[i], m.containers[id]
		if c == nil {
			if !errors.Is(got.Err, muster.ErrNotFound) {
				m.t.Fatalf("container %d: %+v", id, got)
			}
			continue
		}
		want := muster.Placement{Container: id, Replication: c.imported.Replication, Closed: c.closed}
		nodes, index := m.where(c)
		if want.Nodes = nodes; want.Replication == rs32 {
			want.Nodes = slices.Repeat([]muster.NodeNumber{muster.NoNode}, 5)
			for _, n := range slices.Backward(nodes) {
				want.Nodes[index[n]-1] = n
			}
		}
		if !m.settled && !want.Usable() {
			if !errors.Is(got.Err, muster.ErrUnavailable) {
				m.t.Fatalf("container %d: %+v, want UNAVAILABLE, since reports are coming in", id, got)
			}
			continue
		}
		if got.Err != nil || fmt.Sprint(got.Placement) != fmt.Sprint(want) {
			m.t.Fatalf("container %d: %+v, want %+v", id, got, want)
		}
	}
	m.compareDatanodes()
}

func (m *model) compareDatanodes() {
	m.t.Helper()
	all := m.r.Datanodes()
	if len(all) != len(m.nodes) {
		m.t.Fatalf("%d datanodes, want %d", len(all), len(m.nodes))
	}
	for i, d := range all {
		n, count := m.nodes[i], 0
		for _, c := range m.containers {
			if c.has[muster.NodeNumber(i)] != nil {
				count++
			}
		}
		health := m.health(muster.NodeNumber(i))
		if d.Node.ID != n.g.ID || d.Wanted != n.wanted || d.Health != health || d.Node.State != max(health, n.wanted) || d.Containers != count || d.Reported != n.reported {
			m.t.Fatalf("datanode %d: %+v, want %+v, %v with %d containers", i, d, *n, health, count)
		}
	}
}

package registry_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// faultyDisk lets so many writing operations pass; then one fails, or all do.
type faultyDisk struct {
	left   atomic.Int64
	broken atomic.Bool
}

const never = 1 << 60

func (d *faultyDisk) failAfter(n int64, forGood bool) {
	d.broken.Store(forGood)
	d.left.Store(n)
}

func (d *faultyDisk) MaybeError(op errorfs.Op, path string) error {
	if op.OpKind() != errorfs.OpKindWrite || op == errorfs.OpFileClose {
		return nil
	}
	if left := d.left.Add(-1); left == -1 || left < -1 && d.broken.Load() {
		return &fs.PathError{Op: "write", Path: path, Err: errorfs.ErrInjected} // as the system has it
	}
	return nil
}

// survivor is a registry on a disk that fails and forgets what was not synced, and what of it was
// acknowledged.
type survivor struct {
	t    *testing.T
	rng  *rand.Rand
	mem  *vfs.MemFS
	disk *faultyDisk
	r    *registry.Registry

	nodes      map[string]known            // by id
	containers map[uint64]muster.Placement // members and whether closed
	given      map[muster.BlockID]struct{}
	maybe      []func() // what may have happened, though it was not acknowledged
}

// known is what is known of a datanode.
type known struct {
	registry.Registered
	g      registry.Registration
	wanted muster.NodeState
}

func (s *survivor) options() registry.Options {
	return registry.Options{FS: errorfs.Wrap(s.mem, s.disk), ContainerBlocks: 150, OpenContainers: 2, MemTableBytes: 64 << 10}
}

// TestCrashesLoseNothingAcknowledged does random work until a write fails or the machine stops, which may
// happen while the registry is opened too, and checks after each recovery: acknowledged datanodes
// have their numbers, acknowledged containers their members, what was closed is closed, and no block
// is ever given twice.
func TestCrashesLoseNothingAcknowledged(t *testing.T) {
	overSeeds(t, 15, func(t *testing.T, rng *rand.Rand) {
		s := &survivor{
			t: t, rng: rng, mem: vfs.NewStrictMem(), disk: &faultyDisk{},
			nodes: map[string]known{}, containers: map[uint64]muster.Placement{}, given: map[muster.BlockID]struct{}{},
		}
		s.disk.failAfter(never, false)
		s.open()
		defer func() { s.r.Close() }()
		for range 6 {
			s.disk.failAfter(rng.Int64N(150), rng.IntN(2) == 0)
			for range 10 + rng.IntN(100) {
				if !s.work() {
					break
				}
			}
			s.crash()
			s.recover()
			s.check()
		}
	})
}

func (s *survivor) open() {
	s.t.Helper()
	r, err := registry.Open("locations", s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	s.r = r
}

// crash stops the machine, which loses what was not synced, or the process, which does not.
func (s *survivor) crash() {
	power := s.rng.IntN(4) > 0
	s.mem.SetIgnoreSyncs(power)
	if !power {
		s.disk.failAfter(0, true)
	}
	s.r.Close()
	if power {
		s.mem.ResetToSyncedState()
	}
	s.mem.SetIgnoreSyncs(false)
}

// recover opens the registry again, at first perhaps in vain.
func (s *survivor) recover() {
	s.disk.failAfter(s.rng.Int64N(60), s.rng.IntN(2) == 0)
	if r, err := registry.Open("locations", s.options()); err == nil {
		s.r = r
		s.crash()
	} else if code := muster.CodeOf(err); code != muster.ErrUnavailable {
		s.t.Fatalf("opening on a bad disk: %v (%v)", err, code.Name())
	}
	s.disk.failAfter(never, false)
	s.open()
}

// work does something, and says whether it was acknowledged or refused for good reason.
func (s *survivor) work() bool {
	s.t.Helper()
	var err error
	switch pick := s.rng.IntN(10); {
	case pick < 3 || len(s.nodes) < 4:
		err = s.register()
	case pick < 7:
		err = s.allocate()
	case pick < 8:
		err = s.closeOne()
	case pick < 9:
		err = s.setState()
	default:
		err = s.importSome()
	}
	if err != nil && !errors.Is(err, muster.ErrUnavailable) {
		s.t.Fatal(err)
	}
	return err == nil
}

func (s *survivor) register() error {
	id := s.rng.IntN(8)
	g := registration(id, []string{"/r0", "/r1", ""}[s.rng.IntN(3)])
	g.HTTPPort = uint16(s.rng.IntN(3))
	got, err := s.r.Register(s.t.Context(), g)
	before, had := s.nodes[g.ID]
	if err != nil {
		s.maybe = append(s.maybe, func() { s.nodes[g.ID] = known{before.Registered, g, before.wanted} })
		return err
	}
	if had && got.Number != before.Number {
		s.t.Fatalf("%s is %d, and was %d", g.ID, got.Number, before.Number)
	}
	for other, n := range s.nodes {
		if other != g.ID && n.Number == got.Number {
			s.t.Fatalf("%s and %s are both %d", other, g.ID, got.Number)
		}
	}
	s.nodes[g.ID] = known{got, g, before.wanted}
	return nil
}

func (s *survivor) allocate() error {
	q := registry.AllocateRequest{Replication: []muster.Replication{muster.Replicated(2), three}[s.rng.IntN(2)], Count: 1 + s.rng.IntN(30)}
	a, err := s.r.Allocate(s.t.Context(), q)
	if err != nil {
		if errors.Is(err, muster.ErrUnavailable) && s.alive() {
			return nil // too few datanodes
		}
		return err
	}
	for _, b := range a.Blocks {
		if _, again := s.given[b]; again {
			s.t.Fatalf("block %+v was given twice", b)
		}
		s.given[b] = struct{}{}
	}
	for _, p := range a.Placements {
		if before, had := s.containers[p.Container]; had && (before.Closed || !slices.Equal(before.Nodes, p.Nodes)) {
			s.t.Fatalf("%+v got blocks as %+v", before, p)
		}
		s.containers[p.Container] = p
	}
	return nil
}

// alive says whether the registry still takes calls.
func (s *survivor) alive() bool {
	_, err := s.r.Topology(s.t.Context(), 0, 0, 0)
	return err == nil
}

func (s *survivor) closeOne() error {
	for id, p := range s.containers {
		err := s.r.CloseContainer(s.t.Context(), id)
		p.Closed = true
		if err == nil {
			s.containers[id] = p
		}
		return err
	}
	return nil
}

func (s *survivor) setState() error {
	for id, n := range s.nodes {
		n.wanted = muster.NodeState(s.rng.IntN(4) % 3)
		_, err := s.r.SetNodeState(s.t.Context(), id, n.wanted)
		if err == nil {
			s.nodes[id] = n
		} else {
			s.maybe = append(s.maybe, func() { s.nodes[id] = n })
		}
		return err
	}
	return nil
}

func (s *survivor) importSome() error {
	var all []registry.Imported
	base := 1_000 * (1 + s.rng.Uint64N(1000))
	for i := range 1 + s.rng.Uint64N(20) {
		if _, taken := s.containers[base+i]; !taken {
			all = append(all, registry.Imported{Container: base + i, Replication: muster.Replicated(2), Closed: s.rng.IntN(2) == 0, Members: []muster.NodeNumber{1, 0}, NextLocalID: 50})
		}
	}
	err := s.r.Import(s.t.Context(), all)
	if errors.Is(err, muster.ErrExists) { // one that was not acknowledged, or was made by itself
		return nil
	}
	if err == nil {
		for _, c := range all {
			s.containers[c.Container] = muster.Placement{Container: c.Container, Replication: c.Replication, Closed: c.Closed, Nodes: c.Members}
			for l := range c.NextLocalID {
				s.given[muster.BlockID{Container: c.Container, LocalID: l}] = struct{}{}
			}
		}
	}
	return err
}

// check compares what was recovered with what was acknowledged.
func (s *survivor) check() {
	s.t.Helper()
	got := map[string]registry.Datanode{}
	for i, d := range s.r.Datanodes() {
		if int(d.Node.Number) != i {
			s.t.Fatalf("datanode %d is %+v", i, d)
		}
		got[d.Node.ID] = d
	}
	err := s.differs(got)
	for _, m := range s.maybe {
		if err == nil {
			break
		}
		m()
		err = s.differs(got)
	}
	s.maybe = nil
	if err != nil {
		s.t.Fatal(err)
	}
	for id, want := range s.containers {
		c, err := s.r.Container(id)
		if err != nil || !slices.Equal(c.Members, want.Nodes) || c.Replication != want.Replication || want.Closed && !c.Closed {
			s.t.Fatalf("container %d is %+v, %v; want %+v", id, c, err, want)
		}
		want.Closed = c.Closed // ended, since a member was
		s.containers[id] = want
	}
}

// differs says in which datanode, if in any, what was recovered is not what was acknowledged.
func (s *survivor) differs(got map[string]registry.Datanode) error {
	for id, want := range s.nodes {
		d, there := got[id]
		if want.Session == 0 { // never acknowledged
			delete(s.nodes, id)
			continue
		}
		n := d.Node
		if !there || n.Number != want.Number || d.Wanted != want.wanted || n.HTTPPort != want.g.HTTPPort || want.g.Rack != "" && n.Rack != want.g.Rack {
			return fmt.Errorf("%s is %+v, want %+v", id, d, want)
		}
	}
	return nil
}

// TestAFailedLogEndsTheRegistry: every call is refused, OnFatal hears of it once, nobody hangs, and
// opening again finds all that was acknowledged.
func TestAFailedLogEndsTheRegistry(t *testing.T) {
	mem, disk, fatal := vfs.NewMem(), &faultyDisk{}, make(chan error, 2)
	disk.failAfter(never, false)
	r := open(t, registry.Options{FS: errorfs.Wrap(mem, disk), OnFatal: func(err error) { fatal <- err }})
	n := join(t, r, 3, "/r")[0]
	s, err := r.Topology(t.Context(), 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := r.Topology(t.Context(), s.Boot, s.Version, 1<<62)
		waiting <- err
	}()
	disk.failAfter(0, false) // one failure; afterwards the disk is well
	if _, err := r.Register(t.Context(), registration(3, "/r")); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("the call that failed: %v", err)
	}
	for what, err := range map[string]error{"OnFatal": <-fatal, "a follower": <-waiting} {
		if !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, err := range everyCall(t, r, n) {
		if !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := len(r.Datanodes()); got != 3 {
		t.Errorf("%d datanodes are shown", got)
	}
	if err := r.Close(); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("close: %v", err)
	}
	if len(fatal) > 0 {
		t.Error("OnFatal was called twice")
	}
	again := open(t, registry.Options{FS: mem})
	if got := len(again.Datanodes()); got != 3 && got != 4 {
		t.Errorf("%d datanodes afterwards", got)
	}
}

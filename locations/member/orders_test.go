package member_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/locations/registry"
)

// replicating has replicas looked after without any delay.
var replicating = registry.Options{
	Heartbeat: 5 * time.Millisecond, StaleAfter: time.Hour, DeadAfter: 2 * time.Hour,
	PlanEvery: 5 * time.Millisecond, ReplicaGrace: time.Millisecond, OrderTimeout: time.Hour,
}

// holder is what a datanode has, and reports.
type holder struct {
	*member.Member
	mu  sync.Mutex // guards has
	has map[uint64]member.Replica
}

func (h *holder) all() (list []member.Replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.has {
		list = append(list, r)
	}
	return list
}

func (h *holder) set(r member.Replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Gone {
		delete(h.has, r.Container)
	} else {
		h.has[r.Container] = r
	}
}

// joinHolder has a datanode join, all whose orders go to order.
func (s *service) joinHolder(id string, order func(context.Context, *holder, muster.Order) error, containers ...uint64) *holder {
	s.t.Helper()
	h := &holder{has: map[uint64]member.Replica{}}
	for _, c := range containers {
		h.has[c] = member.Replica{Container: c, Blocks: 3, Bytes: 300, Closed: true}
	}
	h.Member = s.join(member.Options{ID: id, Host: id + ".example", Port: 1, Replicas: h.all, Order: func(ctx context.Context, o muster.Order) error {
		return order(ctx, h, o)
	}})
	return h
}

// obey does what an order says.
func obey(ctx context.Context, h *holder, o muster.Order) error {
	r := member.Replica{Container: o.Container, Blocks: 3, Bytes: 300, Closed: true, Gone: o.Kind == muster.OrderDrop}
	h.set(r)
	_, err := h.Report(ctx, []member.Replica{r})
	return err
}

func (s *service) replicas(container uint64) int {
	s.t.Helper()
	c, err := s.Registry().Container(container)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(c.Replicas)
}

// importCopies makes containers known that have two replicas.
func (s *service) importCopies(on []muster.NodeNumber, containers ...uint64) {
	s.t.Helper()
	var list []registry.Imported
	for _, c := range containers {
		list = append(list, registry.Imported{Container: c, Replication: muster.Replicated(2), Members: on, Closed: true})
	}
	if err := s.Registry().Import(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
}

// What is missing is copied, and an order that failed comes again.
func TestOrdersAreCarriedOutUntilTheyAreDone(t *testing.T) {
	o := replicating
	o.OrderTimeout = 200 * time.Millisecond
	s := startWith(t, o)
	var mu sync.Mutex
	seen := map[uint64]int{}
	order := func(ctx context.Context, h *holder, o muster.Order) error {
		mu.Lock()
		seen[o.ID]++
		first := len(seen) == 1
		mu.Unlock()
		if first {
			return errors.New("not this time")
		}
		if len(o.Sources) != 1 || o.Sources[0].ID != "a" || !o.Closed {
			t.Errorf("order %+v", o)
		}
		return obey(ctx, h, o)
	}
	a := s.joinHolder("a", order, 1)
	b := s.joinHolder("b", order)
	s.importCopies([]muster.NodeNumber{a.Number(), b.Number()}, 1)
	for _, h := range []*holder{a, b} {
		if err := h.ReportAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is copied", func() bool { return s.replicas(1) == 2 })
	eventually(t, "the service is told", func() bool { return s.Registry().Stats().OrdersDone == 1 })
	if n := s.Registry().Stats().OrdersFailed; n != 1 {
		t.Errorf("%d orders failed", n)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("order %d was carried out %d times", id, n)
		}
	}
}

// An order that is not wanted any more ends; Close ends what is being carried out, and waits for it.
func TestOrdersEnd(t *testing.T) {
	o := replicating
	o.OrderTimeout = 50 * time.Millisecond
	s := startWith(t, o)
	begun, ended := make(chan uint64, 1000), make(chan error, 1000)
	order := func(ctx context.Context, _ *holder, o muster.Order) error {
		begun <- o.ID
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	}
	a := s.joinHolder("a", order, 1)
	b := s.joinHolder("b", order)
	s.importCopies([]muster.NodeNumber{a.Number(), b.Number()}, 1)
	for _, h := range []*holder{a, b} {
		if err := h.ReportAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := <-begun
	<-ended // it made no progress
	if second := <-begun; second == first {
		t.Errorf("order %d came twice", first)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n, m := len(begun), len(ended); n > m {
		t.Errorf("%d orders were begun, and %d have ended", n, m)
	}
	if s.Registry().Stats().OrdersDone != 0 {
		t.Error("an order that was given up is done")
	}
}

// Disks and unfinished blocks are known as long as the datanode lives.
func TestWhatADatanodeSaysOfItself(t *testing.T) {
	s := start(t)
	disk := muster.Disk{Name: "/disk1", State: muster.DiskFull, Message: "no room", Capacity: 100, Used: 90, Free: 1}
	block := muster.UnfinishedBlock{Block: muster.BlockID{Container: 7, LocalID: 8}, File: 9, Age: time.Hour}
	many := make([]muster.UnfinishedBlock, member.MaxUnfinished+1)
	for i := range many {
		many[i] = block
	}
	m := s.join(member.Options{
		ID: "a", Host: "a.example", Port: 1,
		Disks:      func() []muster.Disk { return []muster.Disk{disk} },
		Unfinished: func() []muster.UnfinishedBlock { return many },
	})
	eventually(t, "its disks are known", func() bool { return len(s.datanode(m.Number()).Disks) == 1 })
	if got := s.datanode(m.Number()).Disks[0]; got != disk {
		t.Errorf("disk %+v", got)
	}
	u, err := s.Registry().Unfinished()
	if err != nil || len(u.Blocks) != member.MaxUnfinished || u.Blocks[0].UnfinishedBlock != block || u.Blocks[0].Node != m.Number() || len(u.Nodes) != 1 {
		t.Errorf("%d unfinished, the first %+v, on %+v; %v", len(u.Blocks), u.Blocks[0], u.Nodes, err)
	}
}

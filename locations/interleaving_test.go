package locations_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// tracer is a location service in which everything takes random time and may fail, and
// which gives each container in each call a node of its own: so an answer says which
// reading it is of.
type tracer struct {
	containers int
	options    Options

	mu     sync.Mutex
	random *rand.Rand
	calls  int
	reads  []reading // by node number
	faults []string
}

type reading struct {
	container  uint64
	at         time.Time // when it was read; its call returned at or after that
	returned   time.Time
	unreadable bool // answered with no node, but noted here all the same
}

func (s *tracer) sleep(most time.Duration) {
	s.mu.Lock()
	d := time.Duration(s.random.Int64N(int64(most)))
	s.mu.Unlock()
	time.Sleep(d)
}

func (s *tracer) chance(percent int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(100) < percent
}

func (s *tracer) faultf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *tracer) Lookup(ctx context.Context, ids []uint64) (Answer, error) {
	s.mu.Lock()
	s.calls++
	if s.calls > s.options.Loads {
		s.faults = append(s.faults, fmt.Sprintf("%d calls at a time", s.calls))
	}
	s.mu.Unlock()
	if sorted := slices.Sorted(slices.Values(ids)); len(slices.Compact(sorted)) != len(ids) {
		s.faultf("a call for %v", ids)
	}
	s.sleep(time.Second)
	a, first := s.read(ids)
	s.sleep(time.Second)
	if s.chance(5) {
		time.Sleep(5 * time.Second) // longer than a load may take
	}
	s.mu.Lock()
	s.calls--
	for i := range ids {
		s.reads[first+i].returned = time.Now()
	}
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Answer{}, ctx.Err()
	case s.chance(10):
		return Answer{}, errDown
	}
	return a, nil
}

func (s *tracer) read(ids []uint64) (a Answer, first int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = len(s.reads)
	for _, id := range ids {
		n := muster.NodeNumber(len(s.reads))
		r := reading{container: id, at: time.Now()}
		o := Outcome{Placement: muster.Placement{Container: id, Replication: muster.Replicated(1), Nodes: []muster.NodeNumber{n}}}
		switch s.random.IntN(20) {
		case 0:
			o, r.unreadable = Outcome{Err: muster.ErrNotFound}, true
		case 1:
			o, r.unreadable = Outcome{Err: errDown}, true
		case 2:
			o.Placement.Nodes, r.unreadable = nil, true
		}
		s.reads = append(s.reads, r)
		a.Outcomes = append(a.Outcomes, o)
		a.Nodes = append(a.Nodes, muster.Node{Number: n, ID: "n"})
	}
	return a, first
}

// observers know what all calls that have returned were told: the naive map that the
// cache must not fall behind.
type observers struct {
	s *tracer
	c *Cache

	mu     sync.Mutex
	newest map[uint64]Seen            // of answers that were returned
	placed map[Seen]map[uint64]string // what each mark said of each container
}

// one makes random calls and checks their answers.
func (o *observers) one(r *rand.Rand, calls int) {
	mine := map[uint64]Seen{}
	for range calls {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		ids := make([]uint64, 1+r.IntN(6))
		for i := range ids {
			ids[i] = uint64(r.IntN(o.s.containers))
		}
		limit := time.Duration(r.Int64N(int64(10 * time.Second)))
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		floors, began, out := o.floors(ids), time.Now(), make([]Located, len(ids))
		var err error
		kind, had := r.IntN(4), make([]Seen, len(ids))
		for i, id := range ids {
			had[i] = mine[id]
		}
		switch kind {
		case 0:
			err = o.c.Reload(ctx, ids, out)
		case 1:
			stale := make([]Stale, len(ids))
			for i, id := range ids {
				stale[i] = Stale{id, had[i]}
			}
			err = o.c.Refresh(ctx, stale, out)
		default:
			err = o.c.Get(ctx, ids, out)
		}
		cancel()
		if took := time.Since(began); took > limit || err != nil && took != limit {
			o.s.faultf("a call took %v of %v: %v", took, limit, err)
		}
		for i, id := range ids {
			l := out[i]
			o.check(id, l, began, floors[i], kind, had[i])
			if l.Err == nil {
				mine[id] = l.Seen
			}
		}
		if err := o.c.Check(false); err != nil {
			o.s.faultf("%v", err)
		}
	}
}

func (o *observers) floors(ids []uint64) (floors []Seen) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		floors = append(floors, o.newest[id])
	}
	return floors
}

// check checks the answer of a call that began when the newest answer known was floor.
func (o *observers) check(id uint64, l Located, began time.Time, floor Seen, kind int, had Seen) {
	if l.Err != nil {
		if l.Placement != nil || muster.CodeOf(l.Err) == muster.ErrInternal {
			o.s.faultf("%+v", l)
		}
		return
	}
	if bytes.Compare(l.Seen[:], floor[:]) < 0 {
		o.s.faultf("container %d: an answer older than one that was returned before the call", id)
	}
	if kind == 1 && bytes.Compare(l.Seen[:], had[:]) <= 0 {
		o.s.faultf("container %d: a refresh that is no newer than what was seen", id)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if newest := o.newest[id]; bytes.Compare(l.Seen[:], newest[:]) > 0 {
		o.newest[id] = l.Seen
	}
	said := fmt.Sprint(*l.Placement)
	if o.placed[l.Seen] == nil {
		o.placed[l.Seen] = map[uint64]string{}
	}
	if before, known := o.placed[l.Seen][id]; known && before != said {
		o.s.faultf("one mark for %s and %s", before, said)
	}
	o.placed[l.Seen][id] = said
	if !l.Placement.Usable() {
		return
	}
	n := l.Placement.Nodes[0]
	if node := o.c.Node(n); node == nil || node.Number != n {
		o.s.faultf("node %d is %v", n, node)
	}
	o.s.mu.Lock()
	r := o.s.reads[n]
	o.s.mu.Unlock()
	switch {
	case r.container != id || l.Placement.Container != id || r.unreadable:
		o.s.faultf("container %d: %+v, which was read as %+v", id, l.Placement, r)
	case kind == 0 && r.at.Before(began):
		o.s.faultf("container %d: a reload at %v answered what was read at %v", id, began, r.at)
	case began.Sub(r.returned) >= o.s.options.TTL:
		o.s.faultf("container %d: answered %v after it was loaded", id, began.Sub(r.returned))
	}
}

// TestRandomInterleavings has many callers at a service that is slow, late and often
// wrong, in simulated time. Answers never go back; a refresh is newer than what was seen
// and a reload than its call; nobody waits longer than he wants to; all accounts hold.
func TestRandomInterleavings(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 12 {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			options := Options{Size: 1 + r.IntN(12), TTL: time.Duration(1+r.IntN(20)) * time.Second, Loads: 1 + r.IntN(4), LoadTimeout: 4 * time.Second}
			s := &tracer{containers: 1 + r.IntN(12), options: options, random: rand.New(rand.NewPCG(seed, uint64(100+round)))}
			c := newCache(t, s, options)
			o := &observers{s: s, c: c, newest: map[uint64]Seen{}, placed: map[Seen]map[uint64]string{}}
			var wg sync.WaitGroup
			for i := range 1 + r.IntN(16) {
				wg.Go(func() { o.one(rand.New(rand.NewPCG(seed, uint64(1000*round+i))), 60) })
			}
			wg.Wait()
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := c.Check(true); err != nil {
				t.Error(err)
			}
			for _, fault := range s.faults[:min(5, len(s.faults))] {
				t.Error(fault)
			}
			if t.Failed() {
				t.Fatalf("round %d of seed %d: %d faults", round, seed, len(s.faults))
			}
		})
	}
}

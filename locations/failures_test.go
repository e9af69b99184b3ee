package locations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

var errDown = fmt.Errorf("%w: nobody listens", muster.ErrUnavailable)

// TestSourceDown: cached answers go on, uncached ones fail for themselves, forcing keeps
// what is there, and all is well once the source is back.
func TestSourceDown(t *testing.T) {
	s := newService(1, 2)
	c := newCache(t, s, Options{})
	seen := get(t, c, 1)[0].Seen
	s.fail(errDown)
	s.move(1, 4)
	for range 3 {
		out := get(t, c, 1, 2)
		wantOn(t, out[0], 1, 2, 3)
		if out[1].Err != errDown {
			t.Fatalf("uncached: %v", out[1].Err)
		}
		if err := reload(t, c, 1)[0].Err; err != errDown {
			t.Fatalf("reload: %v", err)
		}
		if err := refresh(t, c, Stale{Container: 1, Seen: seen})[0].Err; err != errDown {
			t.Fatalf("refresh: %v", err)
		}
	}
	if n := c.Stats(); n.LoadErrors != 9 || n.Loads != 10 || n.Size != 1 {
		t.Fatalf("%+v", n)
	}
	s.fail(nil)
	out := refresh(t, c, Stale{Container: 1, Seen: seen}, Stale{Container: 2})
	wantOn(t, out[0], 4)
	wantOn(t, out[1], 2, 3, 4)
}

// TestKnowingNothingNowKeepsWhatIsThere: an outcome that says neither where a container
// is nor that it does not exist, as from a service that has just started.
func TestKnowingNothingNowKeepsWhatIsThere(t *testing.T) {
	s := newService(1)
	c := newCache(t, s, Options{})
	get(t, c, 1)
	s.failOne(1, errDown)
	if err := reload(t, c, 1)[0].Err; err != errDown {
		t.Fatal(err)
	}
	wantOn(t, get(t, c, 1)[0], 1, 2, 3)
	s.fail(muster.ErrNotFound) // of a call, says nothing of its containers
	if err := reload(t, c, 1)[0].Err; err != muster.ErrNotFound {
		t.Fatal(err)
	}
	wantOn(t, get(t, c, 1)[0], 1, 2, 3)
}

// TestNothingHangs past the caller's deadline, and what it caused is there for the next.
func TestNothingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1, 2, 3), &held{}
		c := newCache(t, s, Options{})
		get(t, c, 3)
		s.taken()
		s.before = h.wait
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		out := make([]Located, 3)
		err := c.Get(ctx, []uint64{1, 3, 2}, out)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		wantOn(t, out[1], 3, 4, 0)
		if !errors.Is(out[0].Err, muster.ErrDeadline) || !errors.Is(out[2].Err, muster.ErrDeadline) {
			t.Fatalf("unanswered: %v, %v", out[0].Err, out[2].Err)
		}
		if err := c.Get(ctx, []uint64{3}, out[:1]); err != nil || out[0].Err != nil {
			t.Fatalf("from memory, with a context that has ended: %v, %v", err, out[0].Err)
		}
		h.letGo(1)
		wantOn(t, get(t, c, 1)[0], 1, 2, 3)
		wantCalls(t, s, []uint64{1, 2})
		for range 1000 { // once might be given up before it is sent
			if err := c.Get(ctx, []uint64{4}, out[:1]); !errors.Is(err, muster.ErrDeadline) {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		wantCalls(t, s) // nothing is begun for who is late already
	})
}

// TestLoadGoesOnWhenItsFirstCallerLeaves for others that wait.
func TestLoadGoesOnWhenItsFirstCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1), &held{}
		s.before = h.wait
		c := newCache(t, s, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		first := laterGet(ctx, c, 1)
		second := laterGet(t.Context(), c, 1)
		cancel()
		synctest.Wait()
		if !first.ended() || second.ended() {
			t.Fatalf("first ended: %v, second: %v", first.ended(), second.ended())
		}
		h.letGo(1)
		wantOn(t, second.now(t)[0], 1, 2, 3)
		wantCalls(t, s, []uint64{1})
	})
}

// TestLoadThatTakesTooLongIsUnavailable, not the callers' deadline, and makes room.
func TestLoadThatTakesTooLongIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(1, 2)
		s.before = func(ctx context.Context, call int) {
			if call == 1 {
				<-ctx.Done()
			}
		}
		c := newCache(t, s, Options{Loads: 1, LoadTimeout: 5 * time.Second})
		slow, next := laterGet(t.Context(), c, 1), laterGet(t.Context(), c, 2)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err := slow.now(t)[0].Err; muster.CodeOf(err) != muster.ErrUnavailable {
			t.Fatal(err)
		}
		wantOn(t, next.now(t)[0], 2, 3, 4)
		if n := c.Stats(); n.LoadTime != 5*time.Second || n.LoadErrors != 1 || n.Loads != 2 {
			t.Fatalf("%+v", n)
		}
	})
}

func TestPlacementsExpireAfterTheyWereWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(1)
		c := newCache(t, s, Options{})
		get(t, c, 1)
		for range 5 {
			time.Sleep(time.Hour)
			get(t, c, 1) // which does not prolong it
		}
		time.Sleep(time.Hour - time.Nanosecond)
		s.move(1, 4)
		wantOn(t, get(t, c, 1)[0], 1, 2, 3)
		wantCalls(t, s, []uint64{1})
		time.Sleep(time.Nanosecond)
		wantOn(t, get(t, c, 1)[0], 4)
		wantCalls(t, s, []uint64{1})
		time.Sleep(5 * time.Hour)
		reload(t, c, 1) // which does
		time.Sleep(5 * time.Hour)
		get(t, c, 1)
		wantCalls(t, s, []uint64{1})
		if n := c.Stats(); n.Size != 1 || n.Misses != 2 || n.Hits != 7 || n.Forced != 1 {
			t.Fatalf("%+v", n)
		}
	})
}

// TestCloseWaitsForTheSource, which may be slow to notice.
func TestCloseWaitsForTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, returned := newService(1), false
		s.before = func(ctx context.Context, _ int) {
			<-ctx.Done()
			time.Sleep(time.Second)
			returned = true
		}
		c := newCache(t, s, Options{})
		laterGet(t.Context(), c, 1)
		c.Close()
		if !returned {
			t.Fatal("a call to the source is still in flight")
		}
	})
}

func TestAfterCloseMemoryStillAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(1, 2, 3)
		c := newCache(t, s, Options{Loads: 1})
		get(t, c, 1)
		s.before = func(ctx context.Context, _ int) { <-ctx.Done() }
		inFlight, queued := laterGet(t.Context(), c, 2), laterGet(t.Context(), c, 3)
		forced := laterReload(t.Context(), c, 1) // what is known is not new enough for it
		c.Close()
		synctest.Wait()
		out := get(t, c, 1, 2)
		wantOn(t, out[0], 1, 2, 3)
		for _, err := range []error{inFlight.now(t)[0].Err, queued.now(t)[0].Err, forced.now(t)[0].Err, reload(t, c, 1)[0].Err, out[1].Err} {
			if !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
				t.Fatal(err)
			}
		}
		c.Close()
	})
}

// faulty answers wrongly.
type faulty func(ids []uint64) (Answer, error)

func (f faulty) Lookup(_ context.Context, ids []uint64) (Answer, error) { return f(ids) }

// TestWrongAnswersAreInternalErrors of the containers that they concern, and no more.
func TestWrongAnswersAreInternalErrors(t *testing.T) {
	place := func(id uint64, r muster.Replication, nodes ...muster.NodeNumber) Outcome {
		return Outcome{Placement: muster.Placement{Container: id, Replication: r, Nodes: nodes}}
	}
	known := []muster.Node{{Number: 0, ID: "a"}}
	coded, _ := muster.ParseReplication("ec/rs-3-2")
	for name, answer := range map[string]faulty{
		"too few outcomes": func([]uint64) (Answer, error) { return Answer{}, nil },
		"too many":         func([]uint64) (Answer, error) { return Answer{Outcomes: make([]Outcome, 2)}, nil },
		"another container": func([]uint64) (Answer, error) {
			return Answer{Outcomes: []Outcome{place(2, 0x101, 0)}, Nodes: known}, nil
		},
		"bad replication": func([]uint64) (Answer, error) {
			return Answer{Outcomes: []Outcome{place(1, 0x999, 0)}, Nodes: known}, nil
		},
		"unknown node": func([]uint64) (Answer, error) {
			return Answer{Outcomes: []Outcome{place(1, 0x103, 0, 1)}, Nodes: known}, nil
		},
		"absent replica": func([]uint64) (Answer, error) {
			return Answer{Outcomes: []Outcome{place(1, 0x103, muster.NoNode)}}, nil
		},
		"number too high": func([]uint64) (Answer, error) {
			return Answer{Outcomes: []Outcome{place(1, 0x103, muster.MaxNodes)}, Nodes: []muster.Node{{Number: muster.MaxNodes}}}, nil
		},
		"too many for rs3-2": func([]uint64) (Answer, error) {
			return Answer{Outcomes: []Outcome{place(1, coded, 0, 0, 0, 0, 0, 0)}, Nodes: known}, nil
		},
		"panic": func([]uint64) (Answer, error) { panic("at the source") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, answer, Options{})
			l := get(t, c, 1)[0]
			if muster.CodeOf(l.Err) != muster.ErrInternal || l.Placement != nil {
				t.Fatalf("%+v", l)
			}
			if c.Stats().Size != 0 {
				t.Fatal("it was kept")
			}
		})
	}
}

// TestTheAnswerStaysTheSources: what the source does with its answer later concerns
// nobody.
func TestTheAnswerStaysTheSources(t *testing.T) {
	nodes := []muster.NodeNumber{0, 1}
	buffer := []byte("a")
	alias := unsafe.String(&buffer[0], 1) // as a decoder makes them
	records := []muster.Node{{Number: 0, ID: alias, Host: alias, Address: alias, Rack: alias}, {Number: 1, ID: "b"}}
	c := newCache(t, faulty(func([]uint64) (Answer, error) {
		return Answer{Nodes: records, Outcomes: []Outcome{{Placement: muster.Placement{Container: 1, Replication: muster.Replicated(2), Nodes: nodes}}}}, nil
	}), Options{})
	get(t, c, 1)
	nodes[0], records[0].Port, buffer[0] = 1, 7, 'b'
	wantOn(t, get(t, c, 1)[0], 0, 1)
	if n := *c.Node(0); n != (muster.Node{ID: "a", Host: "a", Address: "a", Rack: "a"}) {
		t.Fatalf("a node's record is the source's: %+v", n)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	for _, o := range []Options{{Size: -1}, {Size: 1 << 40}, {TTL: -1}, {Loads: -1}, {Loads: 1 << 20}, {LoadTimeout: -1}} {
		if c, err := New(newService(), o); !errors.Is(err, muster.ErrInvalid) || c != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestSeenOfAnotherLengthIsRefused(t *testing.T) {
	c := newCache(t, newService(1), Options{})
	seen := get(t, c, 1)[0].Seen
	if got, err := ParseSeen(seen[:]); err != nil || got != seen {
		t.Fatalf("%x became %x, %v", seen, got, err)
	}
	for _, b := range [][]byte{nil, seen[:15], append(seen[:], 0)} {
		if _, err := ParseSeen(b); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

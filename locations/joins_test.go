package locations_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
	. "github.com/muster-fs/muster/locations"
)

// held makes the calls of a service wait until they are let go, one by one.
type held struct {
	mu   sync.Mutex
	gate map[int]chan struct{}
}

func (h *held) of(call int) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate == nil {
		h.gate = map[int]chan struct{}{}
	}
	if h.gate[call] == nil {
		h.gate[call] = make(chan struct{})
	}
	return h.gate[call]
}

func (h *held) letGo(call int) {
	close(h.of(call))
	synctest.Wait()
}

func (h *held) wait(ctx context.Context, call int) {
	select {
	case <-h.of(call):
	case <-ctx.Done():
	}
}

// answer is what a call in another goroutine will bring.
type answer struct {
	out  []Located
	err  error
	done chan struct{}
}

// later runs a call in another goroutine and returns when it waits, or has ended.
func later(n int, call func(out []Located) error) *answer {
	a := &answer{out: make([]Located, n), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = call(a.out)
	}()
	synctest.Wait()
	return a
}

func laterGet(ctx context.Context, c *Cache, ids ...uint64) *answer {
	return later(len(ids), func(out []Located) error { return c.Get(ctx, ids, out) })
}

func laterReload(ctx context.Context, c *Cache, ids ...uint64) *answer {
	return later(len(ids), func(out []Located) error { return c.Reload(ctx, ids, out) })
}

func laterRefresh(ctx context.Context, c *Cache, stale ...Stale) *answer {
	return later(len(stale), func(out []Located) error { return c.Refresh(ctx, stale, out) })
}

func (a *answer) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// now returns the answer, which must have come.
func (a *answer) now(t *testing.T) []Located {
	t.Helper()
	switch {
	case !a.ended():
		t.Fatal("the call still waits")
	case a.err != nil:
		t.Fatal(a.err)
	}
	return a.out
}

// TestCallsJoinWhatIsInFlight: a call of which a part is in flight loads the rest in one
// call, and waits for both.
func TestCallsJoinWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1, 2, 3, 4, 5), &held{}
		s.before = h.wait
		c := newCache(t, s, Options{})
		first := laterGet(t.Context(), c, 1, 2)
		second := laterGet(t.Context(), c, 2, 3)
		third := laterGet(t.Context(), c, 5, 1, 4, 3, 4)
		wantCalls(t, s, []uint64{1, 2}, []uint64{3}, []uint64{4, 5})
		h.letGo(2)
		if first.ended() || second.ended() || third.ended() {
			t.Fatal("a call ended while loads of its containers were in flight")
		}
		h.letGo(1)
		wantOn(t, first.now(t)[0], 1, 2, 3)
		wantOn(t, second.now(t)[1], 3, 4, 0)
		if third.ended() {
			t.Fatal("a call ended while loads of its containers were in flight")
		}
		h.letGo(3)
		for i, id := range []muster.NodeNumber{5, 1, 4, 3, 4} {
			wantOn(t, third.now(t)[i], id%5, (id+1)%5, (id+2)%5)
		}
	})
}

// TestNewAnswersAreNotReplacedByLateOnes goes through what may happen to the newer
// answer before the late one arrives.
func TestNewAnswersAreNotReplacedByLateOnes(t *testing.T) {
	for _, tc := range []struct {
		name string
		then func(t *testing.T, s *service, c *Cache) // after the newer answer
		size int
		late []muster.NodeNumber // what the late call's own caller is told
	}{
		{"kept", func(*testing.T, *service, *Cache) {}, 10, []muster.NodeNumber{4}},
		{"evicted", func(t *testing.T, s *service, c *Cache) {
			get(t, c, 2)
			if c.Stats().Evictions != 1 {
				t.Fatal("not evicted")
			}
		}, 1, []muster.NodeNumber{1, 2, 3}},
		{"ended by an empty one", func(t *testing.T, s *service, c *Cache) {
			s.move(1)
			reload(t, c, 1)
		}, 10, []muster.NodeNumber{1, 2, 3}},
		{"ended by not found", func(t *testing.T, s *service, c *Cache) {
			s.failOne(1, muster.ErrNotFound)
			reload(t, c, 1)
			s.failOne(1, nil)
		}, 10, []muster.NodeNumber{1, 2, 3}},
		{"expired", func(*testing.T, *service, *Cache) { time.Sleep(2 * time.Minute) }, 10, []muster.NodeNumber{1, 2, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newService(1, 2), &held{}
				s.after = func(ctx context.Context, call int) {
					if call == 1 {
						h.wait(ctx, call)
					}
				}
				c := newCache(t, s, Options{Size: tc.size, TTL: time.Minute, LoadTimeout: time.Hour})
				late := laterGet(t.Context(), c, 1) // has read 1, 2, 3
				s.move(1, 4)
				wantOn(t, reload(t, c, 1)[0], 4)
				tc.then(t, s, c)
				before := c.Stats()
				h.letGo(1)
				wantOn(t, late.now(t)[0], tc.late...)
				if now := c.Stats(); now.Size != before.Size {
					t.Fatalf("the late answer was kept: %d entries, then %d", before.Size, now.Size)
				}
				s.move(1, 0)
				if got := get(t, c, 1)[0]; got.Placement.Nodes[0] == 1 {
					t.Fatal("the late answer is given to others")
				}
			})
		})
	}
}

// TestNobodyJoinsALoadThatANewerOneOvertook: whoever asks after an answer is not told
// something older.
func TestNobodyJoinsALoadThatANewerOneOvertook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1), &held{}
		s.after = func(ctx context.Context, call int) {
			if call == 1 {
				h.wait(ctx, call)
			}
		}
		c := newCache(t, s, Options{})
		slow := laterGet(t.Context(), c, 1)
		s.move(1) // unusable, so that the next Get finds nothing kept
		reload(t, c, 1)
		s.move(1, 4)
		wantOn(t, get(t, c, 1)[0], 4)
		wantCalls(t, s, []uint64{1}, []uint64{1}, []uint64{1})
		h.letGo(1)
		wantOn(t, slow.now(t)[0], 4)
	})
}

func TestLateNodeRecordsDoNotReplaceNewerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1, 2), &held{}
		s.after = func(ctx context.Context, call int) {
			if call == 1 {
				h.wait(ctx, call)
			}
		}
		c := newCache(t, s, Options{})
		laterGet(t.Context(), c, 1) // on 1, 2, 3, as they were
		moved := muster.Node{Number: 2, ID: "c", Host: "elsewhere"}
		s.setNode(moved)
		get(t, c, 2) // on 2, 3, 4
		h.letGo(1)
		if n := c.Node(2); *n != moved {
			t.Fatalf("node 2 is %+v again", *n)
		}
		if c.Node(1) == nil {
			t.Fatal("what only the late answer knew is lost")
		}
	})
}

// TestReloadJoinsNothingBegunBeforeIt, while Get joins a Reload's load.
func TestReloadJoinsNothingBegunBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1), &held{}
		s.after = h.wait
		c := newCache(t, s, Options{})
		first := laterGet(t.Context(), c, 1)
		s.move(1, 4)
		second := laterReload(t.Context(), c, 1)
		s.move(1, 3)
		third := laterReload(t.Context(), c, 1)
		fourth := laterGet(t.Context(), c, 1)
		wantCalls(t, s, []uint64{1}, []uint64{1}, []uint64{1})
		h.letGo(2)
		wantOn(t, second.now(t)[0], 4)
		h.letGo(3)
		wantOn(t, third.now(t)[0], 3)
		wantOn(t, fourth.now(t)[0], 3)
		h.letGo(1)
		wantOn(t, first.now(t)[0], 3)
	})
}

// TestRefreshesOfOneAnswerShareALoad, at once and one after another, and one that has
// seen the result causes another.
func TestRefreshesOfOneAnswerShareALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1, 2), &held{}
		c := newCache(t, s, Options{})
		out := get(t, c, 1, 2)
		old := Stale{Container: 1, Seen: out[0].Seen}
		s.taken()
		s.before = h.wait
		s.move(1, 4)
		a := laterRefresh(t.Context(), c, old)
		b := laterRefresh(t.Context(), c, old, Stale{Container: 2, Seen: out[1].Seen}, old)
		wantCalls(t, s, []uint64{1}, []uint64{2})
		h.letGo(1)
		h.letGo(2)
		wantOn(t, a.now(t)[0], 4)
		wantOn(t, b.now(t)[2], 4)
		s.before = nil
		latest := refresh(t, c, old)[0]
		wantOn(t, latest, 4)
		wantCalls(t, s)
		refresh(t, c, Stale{Container: 1, Seen: latest.Seen})
		wantCalls(t, s, []uint64{1})
	})
}

// TestMarksOfAnotherBootAreOlderThanAllOfThis, and so are forged ones no worse than a
// Reload.
func TestMarksOfAnotherBootAreOlderThanAllOfThis(t *testing.T) {
	s := newService(1)
	before := newCache(t, s, Options{})
	foreign := get(t, before, 1)[0].Seen
	c := newCache(t, s, Options{})
	s.taken()
	s.move(1, 4)
	wantOn(t, refresh(t, c, Stale{Container: 1, Seen: foreign})[0], 4)
	wantCalls(t, s, []uint64{1})
	now := refresh(t, c, Stale{Container: 1, Seen: foreign}, Stale{Container: 1})[1]
	wantCalls(t, s)
	future := now.Seen
	for i := 8; i < SeenBytes; i++ {
		future[i] = 0xff
	}
	for range 2 {
		wantOn(t, refresh(t, c, Stale{Container: 1, Seen: future})[0], 4)
		wantCalls(t, s, []uint64{1})
	}
}

// TestManyContainersAreLoadedInSeveralCalls of MaxBatch at most.
func TestManyContainersAreLoadedInSeveralCalls(t *testing.T) {
	ids := make([]uint64, 2*MaxBatch+1)
	for i := range ids {
		ids[i] = uint64(i)
	}
	s := newService(ids...)
	c := newCache(t, s, Options{})
	for i, l := range get(t, c, ids...) {
		if l.Err != nil || l.Placement.Container != ids[i] {
			t.Fatalf("answer %d: %+v", i, l)
		}
	}
	var sizes []int
	for _, call := range s.taken() {
		sizes = append(sizes, len(call))
	}
	slices.Sort(sizes)
	if !slices.Equal(sizes, []int{1, MaxBatch, MaxBatch}) {
		t.Fatalf("calls for %v containers", sizes)
	}
}

// TestWhatIsMissedWhileAllAreBusyGoesTogether, also Reloads with what they did not cause.
func TestWhatIsMissedWhileAllAreBusyGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1, 2, 3, 4, 5), &held{}
		s.before = h.wait
		c := newCache(t, s, Options{Loads: 1})
		laterGet(t.Context(), c, 1)
		waiting := []*answer{
			laterGet(t.Context(), c, 2, 3), laterGet(t.Context(), c, 3, 4),
			laterReload(t.Context(), c, 4, 1, 5), laterReload(t.Context(), c, 5),
		}
		if n := c.Stats(); n.Waiting != 5 || n.Loading != 1 {
			t.Fatalf("%d gathered, %d loads", n.Waiting, n.Loading)
		}
		wantCalls(t, s, []uint64{1})
		h.letGo(1)
		wantCalls(t, s, []uint64{1, 2, 3, 4, 5})
		for _, a := range waiting {
			for _, l := range a.now(t) {
				if l.Err != nil {
					t.Fatal(l.Err)
				}
			}
		}
	})
}

func TestWhatNobodyWaitsForIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newService(1, 2, 3), &held{}
		s.before = h.wait
		c := newCache(t, s, Options{Loads: 1})
		laterGet(t.Context(), c, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := []*answer{laterGet(ctx, c, 2, 3), laterGet(ctx, c, 3)}
		cancel()
		synctest.Wait()
		for _, a := range gone {
			if !a.ended() || !errors.Is(a.err, context.Canceled) || !errors.Is(a.out[0].Err, muster.ErrCancelled) {
				t.Fatalf("a call that gave up: %+v", a)
			}
		}
		if n := c.Stats().Waiting; n != 0 {
			t.Fatalf("%d gathered", n)
		}
		stays := laterGet(t.Context(), c, 3)
		wantCalls(t, s, []uint64{1})
		h.letGo(1) // which is also the next's number, since the calls were taken
		wantOn(t, stays.now(t)[0], 3, 4, 0)
		wantCalls(t, s, []uint64{3})
	})
}

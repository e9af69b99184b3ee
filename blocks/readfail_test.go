package blocks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
)

// troubles are all, with the code that a read fails with if every replica has one, and whether
// locations are asked for then.
var troubles = []struct {
	what      trouble
	code      muster.Code
	refreshes bool
	atOnce    bool // the first answer is the last
}{
	{noBox, muster.ErrNotFound, true, false},
	{boxed, muster.ErrChanged, true, false},
	{resting, muster.ErrUnavailable, true, false},
	{cut, muster.ErrUnavailable, true, false},
	{half, muster.ErrUnavailable, true, false},
	{absent, muster.ErrNoData, false, false},
	{rotten, muster.ErrCorrupt, false, false},
	{broken, muster.ErrInternal, false, false},
	{short, muster.ErrCorrupt, false, false},
	{empty, muster.ErrCorrupt, false, false},
	{flipped, muster.ErrCorrupt, false, false},
	{shifted, muster.ErrCorrupt, false, false},
	{unsummed, muster.ErrCorrupt, false, false},
	{stranger, muster.ErrUnauthenticated, false, true},
	{banned, muster.ErrPermission, false, true},
}

// eachTrouble runs a test for each trouble, each mode, and both ways of reading: read fills p
// from an offset on.
func eachTrouble(t *testing.T, test func(t *testing.T, i int, m Mode, read func(f *File, p []byte, at int64) (int, error))) {
	for i := range troubles {
		bothModes(t, func(t *testing.T, m Mode) {
			t.Run(string(troubles[i].what)+"/positioned", func(t *testing.T) {
				test(t, i, m, func(f *File, p []byte, at int64) (int, error) { return f.ReadAt(p, at) })
			})
			t.Run(string(troubles[i].what)+"/sequential", func(t *testing.T) {
				test(t, i, m, func(f *File, p []byte, at int64) (int, error) {
					f.mustSeek(t, at)
					return f.Read(p)
				})
			})
		})
	}
}

// TestTroubleOfOneReplica: another one answers, and nobody is asked for locations; but when a
// token is refused the read fails at once.
func TestTroubleOfOneReplica(t *testing.T) {
	eachTrouble(t, func(t *testing.T, i int, m Mode, read func(*File, []byte, int64) (int, error)) {
		c := troubles[i]
		l := newLibrary(t, 3, DatanodesOptions{}, 50_000, 200_000, 1000)
		l.shelves[0].does(always(c.what))
		f := l.open(ReadOptions{Mode: m, Pause: 1, ReadAhead: -1})
		p := make([]byte, 100_000)
		n, err := read(f, p, 60_000)
		if asks := l.askedFor(); len(asks) > 0 {
			t.Errorf("locations were asked for: %v", asks)
		}
		if c.atOnce {
			wantCode(t, err, c.code)
			if n > 0 || len(l.shelves[0].took()) != 1 || len(l.shelves[1].took())+len(l.shelves[2].took()) > 0 {
				t.Errorf("%d bytes, or others were asked", n)
			}
			return
		}
		if n != len(p) || err != nil || !bytes.Equal(p, l.data[60_000:][:n]) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if len(l.shelves[0].took()) != 1 {
			t.Error("the replica in trouble was asked again, or not at all")
		}
		// The one that answered is asked first from now on.
		if n, err := read(f, p, 61_000); n != len(p) || err != nil || !bytes.Equal(p, l.data[61_000:][:n]) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if len(l.shelves[0].took()) > 0 {
			t.Error("the replica in trouble was asked by the next read")
		}
	})
}

// TestTroubleOfAllReplicas: the read fails with their code, after a bounded number of calls,
// and works again when one is well. Locations are asked for where that may help, of the one
// container.
func TestTroubleOfAllReplicas(t *testing.T) {
	eachTrouble(t, func(t *testing.T, i int, m Mode, read func(*File, []byte, int64) (int, error)) {
		c := troubles[i]
		l := newLibrary(t, 3, DatanodesOptions{}, 50_000, 200_000, 1000)
		for _, s := range l.shelves {
			s.does(always(c.what))
		}
		f := l.open(ReadOptions{Mode: m, Pause: 1, ReadAhead: -1})
		p := make([]byte, 100_000)
		n, err := read(f, p, 60_000)
		wantCode(t, err, c.code)
		if n != 0 {
			t.Errorf("%d bytes", n)
		}
		calls := 0
		for _, s := range l.shelves {
			calls += len(s.took())
		}
		if want := map[bool]int{true: 1, false: 9}[c.atOnce]; calls != want {
			t.Errorf("%d calls, want %d", calls, want)
		}
		asks := l.askedFor()
		if len(asks) > 0 != c.refreshes || len(asks) > 3 {
			t.Errorf("locations were asked for %d times", len(asks))
		}
		for _, stale := range asks {
			if len(stale) != 1 || stale[0].Container != 101 {
				t.Errorf("asked for %v", stale)
			}
		}
		if at, _ := f.Seek(0, io.SeekCurrent); at != 0 && at != 60_000 {
			t.Errorf("the cursor is at %d", at)
		}
		l.shelves[2].does(always(well))
		if n, err := read(f, p, 60_000); n != len(p) || err != nil || !bytes.Equal(p, l.data[60_000:][:n]) {
			if !c.atOnce { // the one that refuses the token is asked first
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
	})
}

// TestBlockThatHasMoved: the only datanode does not have it any more; the locations of its
// container are asked for once, and the data comes from the new one.
func TestBlockThatHasMoved(t *testing.T) {
	eachTrouble(t, func(t *testing.T, i int, m Mode, read func(*File, []byte, int64) (int, error)) {
		c := troubles[i]
		l := newLibrary(t, 2, DatanodesOptions{}, 1000, 100_000)
		l.layout.Blocks[1].Nodes = l.layout.Blocks[1].Nodes[:1]
		l.answer = func(l2 *Layout, _ int, _ []Stale) { l2.Blocks[1].Nodes = []muster.Node{l.shelves[1].node} }
		l.shelves[0].does(always(c.what))
		f := l.open(ReadOptions{Mode: m, Pause: 1})
		p := make([]byte, 50_000)
		n, err := read(f, p, 2000)
		if !c.refreshes {
			wantCode(t, err, c.code)
			if n != 0 || len(l.askedFor()) > 0 {
				t.Fatalf("%d bytes, asked for %v", n, l.askedFor())
			}
			return
		}
		if n != len(p) || err != nil || !bytes.Equal(p, l.data[2000:][:n]) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		asks := l.askedFor()
		if len(asks) != 1 || len(asks[0]) != 1 || asks[0][0].Container != 101 || string(asks[0][0].Seen) != "seen-0" {
			t.Errorf("asked for %v", asks)
		}
		if calls := l.shelves[1].took(); len(calls) != 1 || calls[0].token != "token-1" {
			t.Errorf("the new datanode was called with %+v", calls)
		}
		if calls := l.shelves[0].took(); len(calls) != 1 || calls[0].token != "token-0" {
			t.Errorf("the old datanode was called with %+v", calls)
		}
	})
}

// TestNobodyKnowsWhere: a block without datanodes, or with an error, is asked for once by each
// read that needs it; the others are read all the same.
func TestNobodyKnowsWhere(t *testing.T) {
	for _, c := range []struct {
		err       error
		code      muster.Code
		refreshes bool
	}{
		{nil, muster.ErrUnavailable, true},
		{fmt.Errorf("%w: no replica reported", muster.ErrUnavailable), muster.ErrUnavailable, true},
		{fmt.Errorf("%w: no such container", muster.ErrNotFound), muster.ErrNotFound, true},
		{fmt.Errorf("%w: damaged placement", muster.ErrCorrupt), muster.ErrCorrupt, false},
	} {
		bothModes(t, func(t *testing.T, m Mode) {
			l := newLibrary(t, 2, DatanodesOptions{}, 1000, 1000, 1000)
			nodes := l.layout.Blocks[1].Nodes
			l.layout.Blocks[1].Nodes, l.layout.Blocks[1].Err = nil, c.err
			f := l.open(ReadOptions{Mode: m, Pause: 1})
			p := make([]byte, 3000)
			for round := range 2 {
				n, err := f.ReadAt(p, 500)
				wantCode(t, err, c.code)
				if n != 500 || !bytes.Equal(p[:n], l.data[500:1000]) {
					t.Errorf("%d bytes", n)
				}
				if asks := len(l.askedFor()); asks != (round+1) && c.refreshes || asks > 0 && !c.refreshes {
					t.Errorf("asked for locations %d times in %d reads", asks, round+1)
				}
			}
			l.checkAt(f, 2000, 1000)
			if n, err := f.Read(p); n != 1000 || err != nil {
				t.Errorf("Read: %d, %v", n, err)
			}
			_, err := f.Read(p)
			wantCode(t, err, c.code)
			if !c.refreshes {
				return
			}
			l.answer = func(l *Layout, _ int, _ []Stale) { l.Blocks[1].Nodes, l.Blocks[1].Err = nodes, nil }
			if n, err := f.Read(p); n != 2000 || err != nil || !bytes.Equal(p[:n], l.data[1000:]) {
				t.Errorf("once it is known: %d, %v", n, err)
			}
		})
	}
}

// TestRefreshThatFails: the reader makes do with what it knows, and says both at the end.
func TestRefreshThatFails(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 2, DatanodesOptions{}, 1000)
		for i, s := range l.shelves {
			var calls atomic.Int64
			s.does(func(asked) trouble {
				if i == 1 && calls.Add(1) > 1 {
					return well
				}
				return resting
			})
		}
		l.refuse = fmt.Errorf("%w: no namespace server", muster.ErrUnavailable)
		f := l.open(ReadOptions{Mode: m, Pause: 1})
		l.checkAt(f, 0, 1000)
		l.shelves[1].does(always(noBox))
		l.refuse = errors.New("a riddle")
		_, err := f.ReadAt(make([]byte, 10), 0)
		wantCode(t, err, muster.CodeOf(err))
		if !errors.Is(err, l.refuse) || muster.CodeOf(err) == muster.ErrInternal {
			t.Errorf("got %v", err)
		}
	})
}

// TestNobodyToAsk: without a Refresh reads fail as the datanodes do.
func TestNobodyToAsk(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 1000)
	l.shelves[0].does(always(noBox))
	f := l.openAs(l.layout, nil, quick)
	_, err := f.ReadAt(make([]byte, 10), 0)
	wantCode(t, err, muster.ErrNotFound)
	if calls := len(l.shelves[0].took()); calls != 3 {
		t.Errorf("%d calls", calls)
	}
	wantCode(t, f.Refresh(t.Context()), muster.ErrInvalid)
}

// TestAttemptsOption bounds the calls of a read.
func TestAttemptsOption(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		for _, n := range []int{1, 2, 4, 10} {
			l := newLibrary(t, 3, DatanodesOptions{}, 1000)
			for _, s := range l.shelves {
				s.does(always(flipped))
			}
			f := l.open(ReadOptions{Mode: m, Pause: 1, Attempts: n})
			_, err := f.ReadAt(make([]byte, 10), 0)
			wantCode(t, err, muster.ErrCorrupt)
			calls := 0
			for _, s := range l.shelves {
				calls += len(s.took())
			}
			if calls != n {
				t.Errorf("%d calls, want %d", calls, n)
			}
		}
	})
}

// TestOrderOfReplicas: those that are not in service come last, in the order that they had.
func TestOrderOfReplicas(t *testing.T) {
	l := newLibrary(t, 5, DatanodesOptions{}, 1000)
	nodes := l.layout.Blocks[0].Nodes
	for i, s := range []muster.NodeState{muster.Dead, muster.InService, muster.Draining, muster.InService, muster.Stale} {
		nodes[i].State = s
	}
	var order []int
	for i, s := range l.shelves {
		s.does(func(asked) trouble {
			l.mu.Lock()
			defer l.mu.Unlock()
			order = append(order, i)
			return flipped
		})
	}
	f := l.open(ReadOptions{Pause: 1, Attempts: 5})
	before := slices.Clone(nodes)
	_, err := f.ReadAt(make([]byte, 10), 0)
	wantCode(t, err, muster.ErrCorrupt)
	if !slices.Equal(order, []int{1, 3, 0, 2, 4}) {
		t.Errorf("asked in the order %v", order)
	}
	if !slices.Equal(nodes, before) {
		t.Error("the layout was changed")
	}
}

// TestHalfCopiedDestination: what is copied when the rest fails is what the cursor moves by,
// and the next read goes on right there.
func TestHalfCopiedDestination(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 3, DatanodesOptions{}, 300_000, 300_000)
		f := l.open(ReadOptions{Mode: m, Pause: 1, ReadAhead: -1})
		for _, at := range []int64{5, 250_000} { // the failure is in the same block, and in the next
			var buffered atomic.Bool
			for _, s := range l.shelves {
				s.does(func(a asked) trouble {
					if at > 5 && a.block.LocalID == 2 || at == 5 && (a.from >= 131_072 || !a.stream && buffered.Load()) {
						return flipped
					}
					return well
				})
			}
			f.mustSeek(t, at)
			p := make([]byte, 100)
			if _, err := io.ReadFull(f, p); err != nil {
				t.Fatal(err)
			}
			buffered.Store(true)
			p = bytes.Repeat([]byte{0xEE}, 290_000)
			done := at + 100
			n, err := f.Read(p) // what is buffered, and more where that works
			if n == 0 || err != nil || !bytes.Equal(p[:n], l.data[done:][:n]) {
				t.Fatalf("the rest of the buffer: %d, %v", n, err)
			}
			if !bytes.Equal(p[n:], bytes.Repeat([]byte{0xEE}, len(p)-n)) {
				t.Error("bytes after those that count were written")
			}
			done += int64(n)
			for range 2 {
				n, err = f.Read(p)
				wantCode(t, err, muster.ErrCorrupt)
				if n != 0 {
					t.Errorf("a failed Read returned %d bytes", n)
				}
				if now, _ := f.Seek(0, io.SeekCurrent); now != done {
					t.Errorf("the cursor is at %d, %d bytes were delivered", now, done)
				}
			}
			for _, s := range l.shelves {
				s.does(always(well))
			}
			p = p[:min(len(p), len(l.data)-int(done))]
			if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, l.data[done:][:len(p)]) {
				t.Fatalf("once all are well: %v", err)
			}
		}
	})
}

// TestPositionedReadFailsInItsMiddle returns what came before, and leaves the rest as it was.
func TestPositionedReadFailsInItsMiddle(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 2, DatanodesOptions{}, 1000, 5<<20)
		for _, s := range l.shelves {
			s.does(func(a asked) trouble {
				if a.block.LocalID == 2 && a.from+a.length > 3<<20 && a.length <= muster.MaxTransfer {
					return flipped
				}
				return well
			})
		}
		f := l.open(ReadOptions{Mode: m, Pause: 1})
		p := bytes.Repeat([]byte{0xEE}, 4<<20)
		n, err := f.ReadAt(p, 10)
		wantCode(t, err, muster.ErrCorrupt)
		if n < 2<<20 || n > 3<<20+990 || !bytes.Equal(p[:n], l.data[10:][:n]) || !bytes.Equal(p[n:], bytes.Repeat([]byte{0xEE}, len(p)-n)) {
			t.Errorf("%d bytes, or others", n)
		}
	})
}

// TestDatanodesThatStop: one, then two, before a read and in its middle.
func TestDatanodesThatStop(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		t.Run(m.String(), func(t *testing.T) {
			l := newLibrary(t, 3, DatanodesOptions{}, 2<<20, 2<<20)
			f := l.open(ReadOptions{Mode: m, Pause: 1, ReadAhead: 256 << 10})
			var got []byte
			p := make([]byte, 50_000)
			stopped := 0
			for {
				n, err := f.Read(p)
				got = append(got, p[:n]...)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(got) > (stopped+1)<<20 && stopped < 2 {
					for _, s := range l.shelves { // the one that is read from
						if s.busy() && !s.away.Load() {
							s.stop()
							stopped++
							break
						}
					}
				}
			}
			if stopped != 2 || !bytes.Equal(got, l.data) {
				t.Errorf("%d bytes of %d, %d datanodes stopped", len(got), len(l.data), stopped)
			}
			l.checkAt(f, 0, len(l.data))
			for _, s := range l.shelves {
				s.stop()
			}
			n, err := f.ReadAt(p, 100)
			wantCode(t, err, muster.ErrUnavailable)
			if n != 0 {
				t.Errorf("%d bytes of nobody", n)
			}
			l.shelves[0].start() // is not shut out for ever
			l.checkAt(f, 100, 1<<20)
		})
	}
}

// busy says whether the shelf was called since it was asked last.
func (s *shelf) busy() bool { return len(s.took()) > 0 }

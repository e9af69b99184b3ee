package blocks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
)

// TestFileThatGrew by a block: its new end is seen after a refresh, by both cursors.
func TestFileThatGrew(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 2, DatanodesOptions{}, 10, 25)
		f := l.open(ReadOptions{Mode: m})
		p := make([]byte, 100)
		if n, err := io.ReadFull(f, p); n != 35 || err != io.ErrUnexpectedEOF {
			t.Fatalf("%d, %v", n, err)
		}
		l.append(7)
		if n, err := f.ReadAt(p, 0); n != 35 || err != io.EOF || f.Length() != 35 {
			t.Errorf("before the refresh: %d, %v, length %d", n, err, f.Length())
		}
		if n, err := f.Read(p); n != 0 || err != io.EOF {
			t.Errorf("before the refresh: %d, %v", n, err)
		}
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.checkAt(f, 0, 100)
		if n, err := f.Read(p); n != 7 || err != nil || !bytes.Equal(p[:n], l.data[35:]) || f.Length() != 42 {
			t.Errorf("after it: %d, %v, length %d", n, err, f.Length())
		}
		if asks := l.askedFor(); len(asks) != 1 || len(asks[0]) != 0 {
			t.Errorf("asked for %v", asks)
		}
	})
}

// TestBlockBeingWritten has no length yet; it is read when it has one.
func TestBlockBeingWritten(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 10, 25)
	layout := Layout{Length: 10, Blocks: slices.Clone(l.layout.Blocks)}
	layout.Blocks[1].Length = 0
	f := l.openAs(layout, l.ask, ReadOptions{})
	if n, err := f.ReadAt(make([]byte, 20), 0); n != 10 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.checkAt(f, 0, 40)
}

// TestFileThatWasReplaced: its blocks are gone, and the refresh says why.
func TestFileThatWasReplaced(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		for _, told := range []bool{true, false} {
			l := newLibrary(t, 2, DatanodesOptions{}, 1000)
			for _, s := range l.shelves {
				s.does(always(noBox))
			}
			if told {
				l.refuse = fmt.Errorf("%w: the file was replaced", muster.ErrChanged)
			} else {
				l.answer = func(l *Layout, _ int, _ []Stale) { l.Blocks[0].ID = muster.BlockID{Container: 7, LocalID: 7} }
			}
			f := l.open(ReadOptions{Mode: m, Pause: 1})
			_, err := f.ReadAt(make([]byte, 10), 0)
			if !errors.Is(err, muster.ErrChanged) {
				t.Errorf("told: %v: %v", told, err)
			}
		}
	})
}

// TestRefreshesAreShared: many readers that fail at once ask once, also when the answer is no
// newer than what they had.
func TestRefreshesAreShared(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		for _, newer := range []bool{true, false} {
			l := newLibrary(t, 2, DatanodesOptions{Connections: 64}, 1<<20)
			l.layout.Blocks[0].Nodes = l.layout.Blocks[0].Nodes[:1]
			l.answer = func(l2 *Layout, _ int, _ []Stale) {
				l2.Blocks[0].Nodes = []muster.Node{l.shelves[1].node}
				if !newer {
					l2.Blocks[0].Seen = []byte("seen-0")
				}
			}
			const readers = 50
			var failing sync.WaitGroup // until all have been told to go elsewhere
			failing.Add(readers)
			l.shelves[0].does(func(a asked) trouble {
				if !(a.stream && a.message == 0) {
					failing.Done()
					return noBox
				}
				return well
			})
			var f *File
			refresh := func(ctx context.Context, stale []Stale) (Layout, error) {
				failing.Wait()
				return l.ask(ctx, stale)
			}
			f = l.openAs(l.layout, refresh, ReadOptions{Mode: m, Pause: 1})
			var wg sync.WaitGroup
			for i := range readers {
				wg.Go(func() { l.checkAtOther(f, int64(i)*1000, 5000) })
			}
			wg.Wait()
			if asks := l.askedFor(); len(asks) != 1 {
				t.Errorf("asked %d times", len(asks))
			}
		}
	})
}

// checkAtOther is checkAt for other goroutines than the test's.
func (l *library) checkAtOther(f *File, offset int64, n int) {
	p := make([]byte, n)
	if k, err := f.ReadAt(p, offset); k != n || err != nil || !bytes.Equal(p, l.data[offset:][:n]) {
		l.t.Errorf("ReadAt(%d bytes, %d) = %d, %v", n, offset, k, err)
	}
}

// TestTokensAreRenewed before they end, beside the readers, and by few calls.
func TestTokensAreRenewed(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		synctest.Test(t, func(t *testing.T) {
			l := newPipedLibrary(t, 1, DatanodesOptions{}, 100_000)
			const life = time.Hour
			l.layout.Blocks[0].Expires = time.Now().Add(life)
			l.answer = func(l *Layout, _ int, _ []Stale) { l.Blocks[0].Expires = time.Now().Add(life) }
			answer := make(chan struct{})
			refresh := func(ctx context.Context, stale []Stale) (Layout, error) {
				<-answer
				return l.ask(ctx, stale)
			}
			f := l.openAs(l.layout, refresh, ReadOptions{Mode: m})
			token := func() string {
				t.Helper()
				l.checkAt(f, 5, 1000)
				calls := l.shelves[0].took()
				return calls[len(calls)-1].token
			}
			time.Sleep(life / 2)
			if got := token(); got != "token-0" {
				t.Errorf("halfway: %s", got)
			}
			time.Sleep(life * 3 / 10)
			for range 20 { // while one asks, all go on
				if got := token(); got != "token-0" {
					t.Errorf("while the renewal is under way: %s", got)
				}
			}
			answer <- struct{}{}
			synctest.Wait()
			if got := token(); got != "token-1" {
				t.Errorf("after the renewal: %s", got)
			}
			if asks := l.askedFor(); len(asks) != 1 || len(asks[0]) != 0 {
				t.Errorf("asked for %v", asks)
			}
			// One that has ended is not used; readers wait for the next.
			time.Sleep(2 * life)
			go func() { time.Sleep(time.Second); answer <- struct{}{} }()
			if got := token(); got != "token-2" {
				t.Errorf("after its end: %s", got)
			}
		})
	})
}

// TestRenewalsThatFail are repeated, not by each read.
func TestRenewalsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 1, DatanodesOptions{}, 100_000)
		l.layout.Blocks[0].Expires = time.Now().Add(time.Hour)
		l.refuse = muster.ErrUnavailable
		f := l.open(ReadOptions{})
		time.Sleep(50 * time.Minute)
		for range 100 {
			l.checkAt(f, 5, 1000)
			time.Sleep(100 * time.Millisecond)
		}
		if asks := len(l.askedFor()); asks < 5 || asks > 11 {
			t.Errorf("asked %d times in 10 s", asks)
		}
		l.mu.Lock()
		l.refuse = nil
		l.mu.Unlock()
		time.Sleep(2 * time.Second)
		l.checkAt(f, 5, 1000)
		synctest.Wait()
		l.shelves[0].took()
		l.checkAt(f, 5, 1000)
		if got := l.shelves[0].took()[0].token; got == "token-0" {
			t.Error("the token was not renewed")
		}
	})
}

// TestTokenAndNodesBelongTogether: no datanode ever gets the token of another answer.
func TestTokenAndNodesBelongTogether(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 2, DatanodesOptions{}, 50_000)
		l.answer = func(l2 *Layout, asks int, _ []Stale) {
			l2.Blocks[0].Nodes = []muster.Node{l.shelves[asks%2].node}
			l2.Blocks[0].Token = fmt.Appendf(nil, "for-%d", asks%2)
		}
		f := l.open(ReadOptions{Mode: m, Pause: 1})
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						l.checkAtOther(f, 100, 5000)
					}
				}
			})
		}
		for range 100 {
			if err := f.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
		close(stop)
		wg.Wait()
		for i, s := range l.shelves {
			for _, a := range s.took() {
				if a.token != fmt.Sprintf("for-%d", i) {
					t.Fatalf("datanode %d got the token %s", i, a.token)
				}
			}
		}
	})
}

// TestRefreshOfTheCaller ends with its context, and waits for one that began before.
func TestRefreshOfTheCaller(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 10)
	began, goOn := make(chan struct{}, 2), make(chan struct{})
	f := l.openAs(l.layout, func(ctx context.Context, stale []Stale) (Layout, error) {
		began <- struct{}{}
		<-goOn
		return l.ask(ctx, stale)
	}, ReadOptions{})
	results := make(chan error, 2)
	go func() { results <- f.Refresh(context.Background()) }()
	<-began
	ctx, cancel := context.WithCancel(context.Background())
	go func() { results <- f.Refresh(ctx) }()
	cancel()
	wantCode(t, <-results, muster.ErrCancelled)
	go func() { results <- f.Refresh(context.Background()) }()
	close(goOn)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if asks := len(l.askedFor()); asks != 2 {
		t.Errorf("asked %d times", asks)
	}
}

// TestAttemptKeepsItsToken: the locations change while a reader pauses, which then asks the
// datanode that it had chosen by the token that it had for it.
func TestAttemptKeepsItsToken(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		for _, sequential := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				l := newPipedLibrary(t, 2, DatanodesOptions{}, 50_000)
				l.layout.Blocks[0].Nodes = l.layout.Blocks[0].Nodes[:1]
				l.answer = func(l2 *Layout, _ int, _ []Stale) { l2.Blocks[0].Nodes = []muster.Node{l.shelves[1].node} }
				l.shelves[0].does(always(flipped))
				f := l.open(ReadOptions{Mode: m, Pause: time.Second})
				time.AfterFunc(500*time.Millisecond, func() {
					if err := f.Refresh(context.Background()); err != nil {
						t.Error(err)
					}
					l.shelves[0].does(always(well))
				})
				p := make([]byte, 100)
				var err error
				if sequential {
					_, err = f.Read(p)
				} else {
					_, err = f.ReadAt(p, 0)
				}
				if err != nil || !bytes.Equal(p, l.data[:100]) {
					t.Fatal(err)
				}
				calls := l.shelves[0].took()
				if len(calls) != 2 || calls[0].token != "token-0" || calls[1].token != "token-0" {
					t.Errorf("calls %+v", calls)
				}
			})
		}
	})
}

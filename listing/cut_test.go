package listing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// cuts are the ways in which a stream ends in the middle: each is what send does with the
// message that is the last.
var cuts = map[string]func(cancel context.CancelFunc) error{
	"send fails":     func(context.CancelFunc) error { return errStop },
	"send panics":    func(context.CancelFunc) error { panic(errStop) },
	"call cancelled": func(cancel context.CancelFunc) error { cancel(); return nil },
}

// cutStream streams paths until message number last, which it cuts in one of the ways. It
// returns what the stream failed or panicked with, and how many messages were sent.
func cutStream(l *listing.Lister, paths []string, o listing.Options, ordered bool, last int, cut func(context.CancelFunc) error) (messages int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if p, ok := recover().(error); ok {
			err = p
		}
	}()
	send := func(*listing.Message) error {
		messages++
		if messages == last {
			return cut(cancel)
		}
		return nil
	}
	next := feedOf(paths, 2)
	if ordered {
		next, send = lockstep(paths, send)
	}
	return messages, l.Stream(ctx, root, o, nil, next, send)
}

// However and wherever a stream is cut, its goroutines have ended and its buffers are given
// back when it returns, and nothing is sent afterwards.
func TestStreamCutAtAnyMessageLeaksNothing(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/large", 6000)...)
	w.build("/a/f", "/b/f", "/c/", "/d/g")
	l := w.lister(listing.Config{})
	few := []string{"/a", "/missing", "/b", "/c", "/d", "/a"}
	for name, test := range map[string]struct {
		paths   []string
		ordered bool // each path in a message of its own
	}{
		"ahead of the client":  {[]string{"/a", "/large", "/b", "/large", "/missing"}, false},
		"behind the client":    {few, true},
		"as fast as it may be": {slices.Repeat(few, 100), false},
	} {
		for _, c := range []muster.Consistency{muster.ConsistencyPage, muster.ConsistencySnapshot} {
			for way, cut := range cuts {
				t.Run(fmt.Sprintf("%s/%v/%s", name, c, way), func(t *testing.T) {
					before := goleak.IgnoreCurrent()
					o := listing.Options{Columns: rows.ColName, Consistency: c}
					for last, whole := 1, false; !whole; last++ {
						messages, err := cutStream(l, test.paths, o, test.ordered, last, cut)
						whole = messages < last
						switch {
						case whole && err != nil:
							t.Errorf("not cut, and yet %v", err)
						case messages > last:
							t.Errorf("%d messages, cut at %d", messages, last)
						case err != nil && !errors.Is(err, errStop) && !errors.Is(err, context.Canceled):
							t.Errorf("cut at %d: %v", last, err)
						}
						if n := l.Lent(); n != 0 {
							t.Fatalf("cut at %d: %d buffers were not given back", last, n)
						}
						if err := goleak.Find(before); err != nil {
							t.Fatalf("cut at %d: %v", last, err)
						}
					}
				})
			}
		}
	}
	if err := w.tree.Close(); err != nil { // waits for views
		t.Error(err)
	}
}

// A page call gives its buffers back, too, whatever send does.
func TestPageCutInSendLeaksNothing(t *testing.T) {
	w := newWorld(t)
	w.build("/a/f")
	l := w.lister(listing.Config{})
	for way, cut := range cuts {
		err := func() (err error) {
			defer func() {
				if p, ok := recover().(error); ok {
					err = p
				}
			}()
			return l.Page(t.Context(), root, []string{"/a"}, listing.Options{}, nil, func(*listing.Message) error { return cut(func() {}) })
		}()
		if err != nil && !errors.Is(err, errStop) {
			t.Errorf("%s: %v", way, err)
		}
		if n := l.Lent(); n != 0 {
			t.Errorf("%s: %d buffers were not given back", way, n)
		}
	}
}

// A client that does not read holds up its own stream: others, pages and writers go on, and
// it keeps no view.
func TestSlowReaderHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.build(filesIn("/large", 9000)...)
	l := w.lister(listing.Config{})
	paths := []string{"/large", "/", "/large"}
	const slow = 3
	waits, reading, done := make(chan struct{}, slow), make(chan struct{}), make(chan error)
	for range slow {
		first := true
		go func() {
			done <- l.Stream(context.Background(), root, listing.Options{}, nil, feedOf(paths, 1), func(*listing.Message) error {
				if first {
					first = false
					waits <- struct{}{}
				}
				<-reading
				return nil
			})
		}()
	}
	for range slow {
		<-waits
	}
	for i := range 3 {
		w.build(fmt.Sprintf("/new/f%d", i))
		if got := both(t, l, root, []string{"/new", "/large"}, listing.Options{}); len(got.names(0)) != i+1 || len(got.names(1)) != 9000 {
			t.Errorf("%d and %d rows", len(got.names(0)), len(got.names(1)))
		}
	}
	if n := l.Lent(); n != 2*slow {
		t.Errorf("%d buffers are in use by %d streams", n, slow)
	}
	if err := w.tree.Close(); err != nil { // would wait for views
		t.Error(err)
	}
	close(reading)
	for range slow {
		if err := <-done; !errors.Is(err, muster.ErrUnavailable) {
			t.Error(err)
		}
	}
}

// The end of a call reaches a stream that waits, in whichever of its goroutines.
func TestCancelReachesAStreamThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.build("/d/f")
		l := w.lister(listing.Config{})
		gone := errors.New("the client is gone")
		for _, where := range []string{"for paths", "for room"} {
			ctx, cancel := context.WithCancelCause(t.Context())
			next := func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, context.Cause(ctx) }
			if where == "for room" {
				next = feedOf(slices.Repeat([]string{"/d"}, 3000), 100)
			}
			done := make(chan error)
			go func() {
				done <- l.Stream(ctx, root, listing.Options{}, nil, next, func(*listing.Message) error {
					<-ctx.Done()
					return nil
				})
			}()
			synctest.Wait()
			cancel(gone)
			if err := <-done; !errors.Is(err, gone) || l.Lent() != 0 {
				t.Errorf("waits %s: %v, %d buffers in use", where, err, l.Lent())
			}
		}
	})
}

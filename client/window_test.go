package client

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// counted returns n paths and a count of how many were taken.
func counted(n int) (iter.Seq[string], *int) {
	taken := new(int)
	return func(yield func(string) bool) {
		for i := range n {
			*taken++
			if !yield(fmt.Sprintf("/%06d", i)) {
				return
			}
		}
	}, taken
}

func TestWindowReadsNoFurtherAheadThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWindow(10)
		paths, taken := counted(1000)
		go w.fill(ctx, t.Context(), paths)
		for from := uint64(0); from < 500; from += 10 {
			synctest.Wait()
			if want := int(from) + 11; *taken != want { // ten held, one at the door
				t.Fatalf("%d paths taken, want %d", *taken, want)
			}
			chunk, last := w.next(ctx, from, 1000, 1<<20)
			if len(chunk) != 10 || last || chunk[0] != fmt.Sprintf("/%06d", from) {
				t.Fatalf("chunk of %d from %q, last %v", len(chunk), chunk[0], last)
			}
			if !w.drop(from + 10) {
				t.Fatal("paths that were sent cannot be dropped")
			}
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n, all := w.given(); n != 500 || all {
			t.Fatalf("%d paths given, all: %v", n, all)
		}
		if chunk, last := w.next(t.Context(), 500, 1000, 1<<20); len(chunk) != 10 || !last {
			t.Fatalf("last chunk of %d, last: %v", len(chunk), last)
		}
		if n, all := w.given(); n != 510 || !all {
			t.Fatalf("%d paths given, all: %v", n, all)
		}
	})
}

func TestWindowChunksKeepTheirBoundsAndTheLastSaysSo(t *testing.T) {
	w := newWindow(100)
	w.fill(t.Context(), t.Context(), slices.Values([]string{"/aaaa", "/bbbb", "/a-long-one", "/c", "/d", "/e"}))
	var got [][]string
	for from, last := uint64(0), false; !last; {
		var chunk []string
		chunk, last = w.next(t.Context(), from, 2, 8)
		from += uint64(len(chunk))
		got = append(got, slices.Clone(chunk))
	}
	want := [][]string{{"/aaaa"}, {"/bbbb"}, {"/a-long-one"}, {"/c", "/d"}, {"/e"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestWindowSharesSlicesThatLaterPathsDoNotChange(t *testing.T) {
	w := newWindow(1 << 20)
	f := filler{window: w}
	add := func(n int) {
		for range n {
			f.tryAdd(fmt.Sprintf("/%06d", f.added))
		}
	}
	add(3 * blockPaths)
	for from := uint64(0); from < 3*blockPaths; from += blockPaths {
		if chunk, last := w.next(t.Context(), from, 1000, 1<<20); len(chunk) != blockPaths || last {
			t.Fatalf("chunk of %d, last: %v", len(chunk), last)
		}
	}
	const a, b, dropped = blockPaths - 10, 2*blockPaths + 10, 2*blockPaths + 5
	shared := w.list(a, b)
	if w.drop(3*blockPaths+1) || !w.drop(dropped) || w.drop(dropped-1) {
		t.Fatal("drop keeps no bounds")
	}
	add(10 * blockPaths)
	for i := uint64(a); i < b; i++ {
		if got, want := shared.at(i), fmt.Sprintf("/%06d", i); got != want {
			t.Fatalf("path %d became %q", i, got)
		}
	}
	later := w.list(dropped, 12*blockPaths)
	for i := uint64(dropped); i < 12*blockPaths; i++ {
		if got, want := later.at(i), fmt.Sprintf("/%06d", i); got != want {
			t.Fatalf("path %d is %q", i, got)
		}
	}
}

func TestPathsThatStopWithTheirContextAreNotAllOfThem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWindow(10)
	w.fill(ctx, ctx, func(yield func(string) bool) {
		yield("/a")
		cancel()
	})
	if chunk, last := w.next(t.Context(), 0, 10, 10); len(chunk) != 1 || last {
		t.Fatalf("chunk of %d, last: %v", len(chunk), last)
	}
	if chunk, last := w.next(ctx, 1, 10, 10); len(chunk) != 0 || last {
		t.Fatalf("chunk of %d, last: %v", len(chunk), last)
	}
}

func TestPanicOfPathsIsRaisedAtTheConsumer(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindow(10)
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.fill(t.Context(), t.Context(), func(yield func(string) bool) {
					yield("/a")
					fail()
				})
			}()
			<-done
			if chunk, last := w.next(t.Context(), 1, 10, 10); len(chunk) > 0 || last {
				t.Fatalf("next gives %q, last %v", chunk, last)
			}
			defer func() {
				if recover() == nil {
					t.Fatal("nothing was raised")
				}
			}()
			w.rethrow()
		})
	}
}

func TestAWindowOpensWithTheFirstAnswer(t *testing.T) {
	w := newWindow(maxWindowPaths)
	f := filler{window: w}
	add := func() {
		for f.tryAdd("/a") {
		}
	}
	if add(); f.added != firstWindowPaths {
		t.Fatalf("%d paths before an answer, want %d", f.added, firstWindowPaths)
	}
	if !w.drop(0) {
		t.Fatal("an answer that finishes no path was refused")
	}
	if add(); f.added != maxWindowPaths {
		t.Fatalf("%d paths after it, want %d", f.added, maxWindowPaths)
	}
}

package client

import (
	"context"
	"iter"
	"sync"
)

// The bounds of what a window holds, and so of how far paths are read ahead.
const (
	maxWindowPaths = 1 << 16
	maxWindowBytes = 8 << 20
)

// window holds the paths of a listing that the server may still need: those from the
// last cursor's on. One goroutine fills it, one takes chunks to send, and the
// listing's own looks paths up and drops those that are done with.
//
// The elements of paths are written once and stay where they are: what slices shares
// out may be read without mu.
type window struct {
	limit int           // paths at one time
	more  chan struct{} // capacity 1: paths came, or their end
	room  chan struct{} // capacity 1: paths were dropped

	mu    sync.Mutex
	paths []string // guarded by mu: from index base on
	base  uint64   // guarded by mu
	sent  uint64   // guarded by mu: index after the last path that next gave in this call
	bytes int      // guarded by mu: of paths
	ended bool     // guarded by mu: no more paths follow
	fault any      // guarded by mu: what paths panicked with
}

func newWindow(limit int) *window {
	return &window{limit: limit, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// goexit is the fault of paths that ended their goroutine.
const goexit = "client: the paths of a listing ended their goroutine (runtime.Goexit)"

// fill adds all paths, until ctx ends. What paths panics with is raised again where
// the listing is consumed. caller is the context of the whole listing: paths that stop
// because it ended are not all of them, and must not look so.
func (w *window) fill(ctx, caller context.Context, paths iter.Seq[string]) {
	fault := any(goexit)
	defer func() {
		if p := recover(); p != nil {
			fault = p
		}
		if fault != nil || caller.Err() == nil {
			w.end(fault)
		}
	}()
	for path := range paths {
		if !w.add(ctx, path) {
			break
		}
	}
	fault = nil
}

// add adds a path as soon as there is room, and says whether it did.
func (w *window) add(ctx context.Context, path string) bool {
	for ctx.Err() == nil {
		if w.tryAdd(path) {
			notify(w.more)
			return true
		}
		select {
		case <-w.room:
		case <-ctx.Done():
		}
	}
	return false
}

func (w *window) tryAdd(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.paths) >= w.limit || w.bytes >= maxWindowBytes {
		return false
	}
	w.paths = append(w.paths, path)
	w.bytes += len(path)
	return true
}

func (w *window) end(fault any) {
	w.mu.Lock()
	w.ended, w.fault = true, fault
	w.mu.Unlock()
	notify(w.more)
}

// next waits for paths from index from on and returns as many as a chunk may have,
// and whether they are the last. None that are not the last means that ctx ended, or
// that paths panicked.
func (w *window) next(ctx context.Context, from uint64, maxPaths, maxBytes int) (chunk []string, last bool) {
	for {
		chunk, last, fault := w.chunk(from, maxPaths, maxBytes)
		if len(chunk) > 0 || last || fault {
			return chunk, last
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// rethrow raises in the consumer's goroutine what paths panicked with.
func (w *window) rethrow() {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	if fault != nil {
		panic(fault)
	}
}

func (w *window) chunk(from uint64, maxPaths, maxBytes int) (chunk []string, last, fault bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.paths[from-w.base:]
	n, bytes := 0, 0
	for n < len(rest) && n < maxPaths && (n == 0 || bytes+len(rest[n]) <= maxBytes) {
		bytes += len(rest[n])
		n++
	}
	w.sent = max(w.sent, from+uint64(n))
	return rest[:n:n], w.fault == nil && w.ended && n == len(rest), w.fault != nil
}

// slice returns the paths from index from up to index to, which are all in the window.
func (w *window) slice(from, to uint64) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paths[from-w.base : to-w.base : to-w.base]
}

// drop forgets the paths before index to. It says whether that is one that the server
// can know and has not been dropped itself.
func (w *window) drop(to uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to < w.base || to > w.sent {
		return false
	}
	n := int(to - w.base)
	for _, path := range w.paths[:n] {
		w.bytes -= len(path)
	}
	w.paths, w.base = w.paths[n:], to
	notify(w.room)
	return true
}

// given returns the number of paths that the server can know, and whether that is all.
func (w *window) given() (n uint64, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, w.ended && w.fault == nil && w.sent == w.base+uint64(len(w.paths))
}

// rewind begins another call, which knows no path, and returns the first path's index.
func (w *window) rewind() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = w.base
	return w.base
}

// notify wakes the one that waits on c, now or when it comes to wait.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

package client

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// The bounds of what a window holds. With the outcomes of the batches that wait for the
// consumer, no more than 65,536 paths are read ahead.
//
// Until a server has answered there are no more than firstWindowPaths: with all processors
// busy reading and sending paths, nobody would look for the answer, and the first rows
// would come late. A server that has so many paths answers.
const (
	firstWindowPaths = 8 << 10

	maxWindowPaths = 48 << 10
	maxWindowBytes = 8 << 20
)

// window holds the paths of a listing that the server may still need: those from the
// last cursor's on. One goroutine fills it, one takes chunks to send, and the one that
// receives looks paths up and drops those that are done with.
//
// A path is added without a lock: it is written once to its place in a block, and then
// counted. Whoever reads the count may read the paths below it.
type window struct {
	most uint64        // paths at one time
	more chan struct{} // capacity 1: paths came, or their end
	room chan struct{} // capacity 1: paths were dropped

	limit   atomic.Uint64 // paths at one time, for now
	count   atomic.Uint64 // paths added so far
	waiting atomic.Bool   // next waits for more
	stopped atomic.Bool   // nobody needs more

	dropped      atomic.Uint64 // paths dropped so far
	droppedBytes atomic.Uint64

	mu     sync.Mutex
	blocks [][]string // guarded by mu, each of full length: from the one of index first on
	first  uint64     // guarded by mu
	sent   uint64     // guarded by mu: index after the last path that next gave in this call
	ended  bool       // guarded by mu: no more paths follow
	fault  any        // guarded by mu: what paths panicked with
}

func newWindow(limit int) *window {
	w := &window{most: uint64(limit), more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	w.limit.Store(min(w.most, firstWindowPaths))
	return w
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
	f := filler{window: w}
	for path := range paths {
		if !f.add(ctx, path) {
			break
		}
	}
	fault = nil
}

// filler is the state of the goroutine that fills a window.
type filler struct {
	*window
	block []string // of the next path, unless that begins one
	added uint64   // paths
	bytes uint64   // of them
}

// add adds a path as soon as there is room, and says whether it did.
func (f *filler) add(ctx context.Context, path string) bool {
	for !f.stopped.Load() {
		if f.tryAdd(path) {
			return true
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

func (f *filler) tryAdd(path string) bool {
	if f.added-f.dropped.Load() >= f.limit.Load() || f.bytes-f.droppedBytes.Load() >= maxWindowBytes {
		return false
	}
	at := f.added % blockPaths
	if at == 0 {
		f.block = f.newBlock()
	}
	f.block[at] = path
	f.bytes += uint64(len(path))
	f.added++
	f.count.Store(f.added)
	if f.waiting.Load() && f.waiting.CompareAndSwap(true, false) {
		notify(f.more)
	}
	return true
}

func (w *window) newBlock() []string {
	block := make([]string, blockPaths)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocks = append(w.blocks, block)
	return block
}

func (w *window) end(fault any) {
	w.mu.Lock()
	w.ended, w.fault = true, fault
	w.mu.Unlock()
	notify(w.more)
}

// next waits for paths from index from on and returns as many as a chunk may have, no
// more than one block's, and whether they are the last. None that are not the last means
// that ctx ended, or that paths panicked. One goroutine at a time waits.
func (w *window) next(ctx context.Context, from uint64, maxPaths, maxBytes int) (chunk []string, last bool) {
	for {
		chunk, last, fault := w.chunk(from, maxPaths, maxBytes)
		if len(chunk) > 0 || last || fault {
			return chunk, last
		}
		if w.waiting.Store(true); w.count.Load() > from {
			continue // it came before it could know that it is waited for
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

// failed says whether there is something to rethrow.
func (w *window) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault != nil
}

func (w *window) chunk(from uint64, maxPaths, maxBytes int) (chunk []string, last, fault bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := w.count.Load()
	n, bytes := 0, 0
	if from < count {
		rest := w.blocks[(from-w.first)/blockPaths][from%blockPaths:]
		rest = rest[:min(count-from, uint64(len(rest)), uint64(maxPaths))]
		for n < len(rest) && (n == 0 || bytes+len(rest[n]) <= maxBytes) {
			bytes += len(rest[n])
			n++
		}
		chunk = rest[:n:n]
	}
	w.sent = max(w.sent, from+uint64(n))
	return chunk, w.fault == nil && w.ended && from+uint64(n) == count, w.fault != nil
}

// list returns the paths from index from up to index to, which are all in the window. There
// are none, from may even be past to, where a server speaks before it has any in this call.
func (w *window) list(from, to uint64) pathList {
	if from >= to {
		return pathList{first: from}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a, b := (from-w.first)/blockPaths, (to-1-w.first)/blockPaths
	l := pathList{first: w.first + a*blockPaths, blocks: make([][]string, 0, b-a+1)}
	l.blocks = append(l.blocks, w.blocks[a:b+1]...)
	return l
}

// drop forgets the paths before index to, which a message was about. It says whether that
// is one that the server can know and has not been dropped itself.
func (w *window) drop(to uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := w.dropped.Load()
	if to < base || to > w.sent {
		return false
	}
	bytes := uint64(0)
	for i := base; i < to; i++ {
		bytes += uint64(len(w.blocks[(i-w.first)/blockPaths][i%blockPaths]))
	}
	w.limit.Store(w.most)
	w.droppedBytes.Add(bytes)
	w.dropped.Store(to)
	for ; to-w.first >= blockPaths; w.first += blockPaths {
		w.blocks[0] = nil // it would keep its place as long as the others do
		w.blocks = w.blocks[1:]
	}
	notify(w.room)
	return true
}

// given returns the number of paths that the server can know, and whether that is all.
func (w *window) given() (n uint64, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, w.ended && w.fault == nil && w.sent == w.count.Load()
}

// rewind begins another call, which knows no path, and returns the first path's index.
func (w *window) rewind() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = w.dropped.Load()
	return w.sent
}

// notify wakes the one that waits on c, now or when it comes to wait.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

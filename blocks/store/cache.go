package store

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// entry is a committed block that can be read: immutable, but for the count of its users.
type entry struct {
	id        muster.BlockID
	container *container
	epoch     uint64 // of the container, before the block was looked up
	record    blockRecord
	file      vfs.File
	sums      []byte // of all pieces, as they go out
	chunks    []uint32

	users atomic.Int64 // and one for the cache; the last one closes the file
	hot   atomic.Bool  // it was used since the cache looked last
}

// acquire makes the caller a user, unless the file is being closed.
func (e *entry) acquire() bool {
	for {
		n := e.users.Load()
		if n == 0 {
			return false
		}
		if e.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (e *entry) release() {
	if e.users.Add(-1) == 0 {
		_ = e.file.Close() // it was only read
		e.container.disk.store.cache.open.Done()
	}
}

// size is what an entry counts for in bytes.
func (e *entry) size() int64 { return int64(len(e.sums)) + sumSize*int64(len(e.chunks)) }

// cache keeps entries, divided by id, so that the small maps can be replaced instead of locked: a
// block is found without a lock or an allocation.
type cache struct {
	shards   []shard
	most     int   // entries in a shard
	mostSize int64 // of the entries of a shard
	held     atomic.Int64
	open     sync.WaitGroup // files of entries, in the cache or not
}

type shard struct {
	entries atomic.Pointer[map[muster.BlockID]*entry] // immutable
	mu      sync.Mutex                                // guards the changing of entries, and size
	size    int64
	_       [40]byte // a line of the processor's cache to itself
}

// shardEntries is about how many entries a shard is to have, which are copied when one is added.
const shardEntries = 16

func newCache(handles int, size int64) *cache {
	shards := 1 << max(0, bits.Len(uint(handles/shardEntries))-1)
	c := &cache{shards: make([]shard, shards), most: handles / shards, mostSize: size / int64(shards)}
	for i := range c.shards {
		c.shards[i].entries.Store(&map[muster.BlockID]*entry{})
	}
	return c
}

func (c *cache) shard(id muster.BlockID) *shard {
	const odd = 0x9e3779b97f4a7c15
	h := (id.Container*odd ^ id.LocalID) * odd
	return &c.shards[h>>32&uint64(len(c.shards)-1)]
}

// peek returns the entry of a block, nil if there is none. Its file may be closed already.
func (c *cache) peek(id muster.BlockID) *entry { return (*c.shard(id).entries.Load())[id] }

// get returns the entry of a block, for the caller to release; nil if there is none.
func (c *cache) get(id muster.BlockID) *entry {
	e := c.peek(id)
	if e == nil || !e.acquire() {
		return nil
	}
	if !e.hot.Load() {
		e.hot.Store(true)
	}
	return e
}

// add puts an entry into the cache, unless one is there, or it may be of a block that is gone.
func (c *cache) add(e *entry) {
	s := c.shard(e.id)
	var out []*entry
	s.mu.Lock()
	old := *s.entries.Load()
	if _, has := old[e.id]; !has && e.container.epoch.Load() == e.epoch && e.acquire() {
		next := maps.Clone(old)
		next[e.id] = e
		s.size += e.size()
		c.held.Add(1)
		out = c.shrink(s, next, e)
		s.entries.Store(&next)
	}
	s.mu.Unlock()
	for _, e := range out {
		e.release()
	}
}

// shrink takes entries other than keep out of next until the shard is within its bounds: those
// that were not used since it looked last go first. The caller holds mu.
func (c *cache) shrink(s *shard, next map[muster.BlockID]*entry, keep *entry) (out []*entry) {
	const idle, any = 0, 1
	for pass := idle; pass <= any; pass++ {
		for id, e := range next {
			if len(next) <= c.most && (s.size <= c.mostSize || len(next) == 1) {
				return out
			}
			if e == keep || pass == idle && e.hot.Swap(false) {
				continue
			}
			delete(next, id)
			out = append(out, c.took(s, e))
		}
	}
	return out
}

// took notes that an entry was taken out of a shard. The caller holds mu.
func (c *cache) took(s *shard, e *entry) *entry {
	s.size -= e.size()
	c.held.Add(-1)
	return e
}

// dropIf takes the entries out of a shard that are to go.
func (c *cache) dropIf(s *shard, gone func(*entry) bool) {
	var out []*entry
	s.mu.Lock()
	next := maps.Clone(*s.entries.Load())
	for id, e := range next {
		if gone(e) {
			delete(next, id)
			out = append(out, c.took(s, e))
		}
	}
	if len(out) > 0 {
		s.entries.Store(&next)
	}
	s.mu.Unlock()
	for _, e := range out {
		e.release()
	}
}

// drop takes a block out. Its container's epoch was moved on before.
func (c *cache) drop(id muster.BlockID) {
	c.dropIf(c.shard(id), func(e *entry) bool { return e.id == id })
}

// dropContainer takes all blocks of a container out. Its epoch was moved on before.
func (c *cache) dropContainer(k *container) {
	for i := range c.shards {
		c.dropIf(&c.shards[i], func(e *entry) bool { return e.container == k })
	}
}

// close empties the cache, and waits until its files are closed. Nothing is added any more.
func (c *cache) close() {
	for i := range c.shards {
		c.dropIf(&c.shards[i], func(*entry) bool { return true })
	}
	c.open.Wait()
}

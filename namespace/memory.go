package namespace

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The default budget of images, and what it is if nobody knows how much memory there is.
const (
	maxDefaultImageBytes     = 3 << 29
	unknownDefaultImageBytes = 256 << 20
)

// defaultImageBytes is a quarter of the memory that the process may use.
func defaultImageBytes() int64 {
	most, known := availableMemory()
	if !known {
		return unknownDefaultImageBytes
	}
	return max(1, min(most/4, maxDefaultImageBytes))
}

// availableMemory is how many bytes of memory the process may use.
func availableMemory() (most int64, known bool) {
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 {
		return max(soft, 0), true
	}
	limit := uint64(math.MaxInt64)
	for _, provider := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		if n, err := provider(); err == nil && n > 0 {
			limit = min(limit, n)
		}
	}
	return int64(limit), limit < math.MaxInt64
}

// otherMemory is room for what a process needs beside what a tree keeps: calls, tables of the store
// and garbage.
const otherMemory = 256 << 20

// MemoryLimit is the limit of Go's runtime, as debug.SetMemoryLimit takes it, that suits a process
// which serves one tree of these options and sets no other: what the tree keeps in memory of Go's,
// an eighth of its images for those that were replaced, and a fixed part for all else; at most nine
// tenths of the memory there is. Without a limit the collector lets the heap grow to twice what is
// kept. With it, collections are more frequent only when most of it is kept, and then they cost
// little, since images hold no pointers: 20 ms of CPU with 1.5 GiB of them.
//
// In a program built with cgo the store's cache and its tables of new entries are no memory of
// Go's. They come on top of the limit, and can take two to three times what is configured when
// much is read that is not in memory: blocks of all sizes leave gaps.
func (o Options) MemoryLimit() int64 {
	images, cache, tables := o.ImageBytes, o.CacheBytes, o.MemTableBytes
	if images == 0 {
		images = defaultImageBytes()
	}
	if cache == 0 {
		cache = defaultCacheBytes
	}
	if tables == 0 {
		tables = defaultMemTableBytes
	}
	limit := images + images/8 + otherMemory
	if !storeOutsideGo {
		limit += cache + memTables*tables
	}
	if most, known := availableMemory(); known {
		limit = min(limit, most/10*9)
	}
	return limit
}

// memTables is how many tables of new entries are in memory at most: two in use, and those that
// readers still hold.
const memTables = 4

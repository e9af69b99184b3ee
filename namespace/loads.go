package namespace

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/muster-fs/muster/namespace/images"
)

// Items of the image cache that are no directory's have these bits in their keys.
const (
	rangeKey = 1 << 63 // image of a range
	headKey  = 1 << 62 // head of the directory whose id is the rest
)

// loads keeps the image cache true while readers load and the committer commits.
//
// A reader registers what it is about to read and gets the view to read from, the newest
// there is; it may publish what it read unless a commit touched that since. A commit, before
// its view can be had, marks the loads in flight that it touches, makes its view the newest,
// and drops the items that it touches. So an item in the cache is what the newest view says;
// and for an older view too it is right if it has been so since the view's txid or before.
//
// mu guards all but cache and door. Whatever is put into the cache is put under it. It is never held
// over I/O or a wait.
type loads struct {
	cache *images.Cache
	door  doorkeeper

	mu      sync.Mutex
	newest  *View // with a reference; nil once the tree is down
	down    bool
	flights []*flight
	ranges  uint64 // the last key given to a range
	old     []part // scratch
	parts   []part
	item    []byte
}

// flight is what one reader is loading. It is registered with loads, whose mu guards the marks.
type flight struct {
	wants []want // ascending by directory
	heads []head // ascending by directory
}

// want is a directory, or the names in it from low up to high, which is nil for no bound.
type want struct {
	dir       uint64
	low, high []byte
	hit       string // mark: the first name from low on that a commit touched
	lost      bool   // mark: nothing of it is what it was

	held // what the reader made of it
}

// held is how a reader has a directory.
type held struct {
	as    holding
	item  []byte // what is in memory; stays valid
	since uint64 // of a whole image: the directory's changed_at
}

type holding uint8

const (
	unknown holding = iota
	whole           // all of it, as an image
	ranged          // by ranges
	stored          // not in memory as the view has it: read the view's snapshot
)

// head is the head of a directory that is being loaded.
type head struct {
	id   uint64
	lost bool // mark

	ok bool // it was found, and is
	Head
	since uint64
}

// begin registers a load and returns the view to read it from, with a reference; nil if the
// tree is down.
func (l *loads) begin(f *flight) *View {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest != nil {
		l.newest.refs.Add(1)
		l.flights = append(l.flights, f)
	}
	return l.newest
}

// end takes a load off the register.
func (l *loads) end(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.flights, f); i >= 0 {
		l.flights = slices.Delete(l.flights, i, i+1)
	}
}

// advance prepares the cache for a commit whose view can be had only after it.
func (l *loads) advance(v *View, c *touched) {
	l.mu.Lock()
	for _, f := range l.flights {
		f.mark(c)
	}
	old := v
	if !l.down {
		v.refs.Add(1)
		old, l.newest = l.newest, v
	}
	l.mu.Unlock()
	if old != v && old != nil {
		old.Release()
	}
	l.drop(c)
}

// takeDown ends loading for good.
func (l *loads) takeDown() {
	l.mu.Lock()
	old := l.newest
	l.newest, l.down = nil, true
	l.mu.Unlock()
	if old != nil {
		old.Release()
	}
}

// mark notes what a commit touches of a load.
func (f *flight) mark(c *touched) {
	if len(f.wants) > 0 {
		for _, key := range c.rows {
			if w := f.want(key.dir); w != nil && key.name >= string(w.low) && (w.hit == "" || key.name < w.hit) {
				w.hit = key.name
			}
		}
		for _, id := range c.gone {
			if w := f.want(id); w != nil {
				w.lost = true
			}
		}
	}
	if len(f.heads) > 0 {
		for _, id := range c.heads {
			if h := f.head(id); h != nil {
				h.lost = true
			}
		}
	}
}

// want returns the want of a directory, nil if there is none. It looks at nothing but ids: the
// rest may be written meanwhile.
func (f *flight) want(dir uint64) *want {
	i, ok := sort.Find(len(f.wants), func(i int) int { return compareIDs(&dir, &f.wants[i].dir) })
	if !ok {
		return nil
	}
	return &f.wants[i]
}

// head is want for heads.
func (f *flight) head(id uint64) *head {
	i, ok := sort.Find(len(f.heads), func(i int) int { return compareIDs(&id, &f.heads[i].id) })
	if !ok {
		return nil
	}
	return &f.heads[i]
}

// atOnce is how many items are put or dropped under one lock.
const atOnce = 64

// drop drops what a commit touches. It needs mu, since a change of ranges meanwhile could hide
// one.
func (l *loads) drop(c *touched) {
	for rows := range slices.Chunk(c.rows, atOnce) {
		l.mu.Lock()
		l.dropRows(rows)
		l.mu.Unlock()
	}
	for ids := range slices.Chunk(c.heads, atOnce) {
		l.mu.Lock()
		for _, id := range ids {
			l.cache.Drop(headKey | id)
		}
		l.mu.Unlock()
	}
	for ids := range slices.Chunk(c.gone, atOnce) {
		l.mu.Lock()
		for _, id := range ids {
			l.cache.Drop(id)
		}
		l.mu.Unlock()
	}
}

// dropRows drops the images, or the ranges, that rows are in.
func (l *loads) dropRows(rows []rowKey) {
	for len(rows) > 0 {
		dir := rows[0].dir
		l.door.written(dir)
		item, _, ok := l.cache.Get(dir, math.MaxUint64)
		if ok && item[0] != itemRanges {
			l.cache.Drop(dir)
			ok = false
		}
		for len(rows) > 0 && rows[0].dir == dir {
			if d := ranges(item); ok {
				if key := d.key(d.find(rows[0].name)); key != 0 {
					l.cache.Drop(key)
				}
			}
			rows = rows[1:]
		}
	}
}

// publish puts the image of what was read into the cache and returns its key; 0 if a commit
// touched it.
func (l *loads) publish(w *want, s *stretch, item []byte) (key uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case w.lost, w.hit != "" && (s.high == nil || w.hit < string(s.high)):
		return 0
	case len(s.low) == 0 && s.high == nil:
		key = w.dir
	default:
		key = l.rangeFor(w.dir, s)
	}
	if key != 0 {
		l.cache.Put(key, s.since, item)
	}
	return key
}

// rangeFor returns the key for the image of a stretch of names, splitting the range that it is
// in; 0 if the directory is parted otherwise by now.
func (l *loads) rangeFor(dir uint64, s *stretch) uint64 {
	defer func() { // scratch must not hold on to what the cache lets go of
		clear(l.old)
		clear(l.parts)
	}()
	var d ranges
	item, before, ok := l.cache.Get(dir, math.MaxUint64)
	switch {
	case ok && item[0] != itemRanges:
		return 0
	case ok:
		d = item
	}
	l.old = d.parts(l.old[:0])
	i := 0
	if ok {
		i = d.find(string(s.low))
	}
	at, end := l.old[i], []byte(nil)
	if i+1 < len(l.old) {
		end = l.old[i+1].low
	}
	switch {
	case end != nil && (s.high == nil || string(s.high) > string(end)):
		return 0
	case at.key != 0 && string(at.low) == string(s.low) && string(s.high) == string(end):
		return at.key
	case at.key != 0:
		l.cache.Drop(at.key)
	}
	l.ranges++
	key := rangeKey | l.ranges
	l.parts = splitPart(l.parts[:0], l.old, i, part{key, s.low}, s.high)
	if l.item = appendRanges(l.item[:0], l.parts); len(l.item) > maxRanges {
		clear(l.parts)
		l.parts = splitPart(l.parts[:0], []part{{}}, 0, part{key, s.low}, s.high)
		l.item = appendRanges(l.item[:0], l.parts)
	}
	l.cache.Put(dir, max(before, s.since), l.item)
	if kept, _, ok := l.cache.Get(dir, math.MaxUint64); !ok || !bytes.Equal(kept, l.item) {
		return 0 // too large
	}
	return key
}

// publishHeads puts the heads that were found into the cache, but for those that a commit touched.
func (l *loads) publishHeads(heads []head) {
	var item [headLen]byte
	for heads := range slices.Chunk(heads, atOnce) {
		l.mu.Lock()
		for i := range heads {
			if h := &heads[i]; h.ok && !h.lost {
				l.cache.Put(headKey|h.id, h.since, appendHead(item[:0], h.Head))
			}
		}
		l.mu.Unlock()
	}
}

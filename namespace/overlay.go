package namespace

import "slices"

// overlay holds the writes of a group of requests over what the store has: the newest value of
// each key, in the order in which the keys came, and what it takes to take back the request
// being applied. It is for one goroutine. The zero value is ready.
type overlay[K comparable, V any] struct {
	index   map[K]int32 // place in entries
	entries []entry[K, V]
	epoch   uint32 // of the request being applied
	begun   int    // entries when it began
	undo    []undone[V]
	order   []int32 // scratch of sorted
}

type entry[K comparable, V any] struct {
	key   K
	value V
	epoch uint32 // of the last request that set it
}

// undone is the value that an entry had before the request being applied.
type undone[V any] struct {
	at    int32
	epoch uint32
	value V
}

// keptEntries is how large an overlay may be to be used again.
const keptEntries = 1 << 15

// reset empties o for a new group.
func (o *overlay[K, V]) reset() {
	if o.index == nil || len(o.entries) > keptEntries {
		*o = overlay[K, V]{index: map[K]int32{}}
		return
	}
	clear(o.index)
	clear(o.entries)
	clear(o.undo)
	o.entries, o.undo, o.epoch, o.begun = o.entries[:0], o.undo[:0], 0, 0
}

// begin starts a request.
func (o *overlay[K, V]) begin() {
	o.epoch++
	o.begun, o.undo = len(o.entries), o.undo[:0]
}

func (o *overlay[K, V]) get(key K) (value V, ok bool) {
	i, ok := o.index[key]
	if ok {
		value = o.entries[i].value
	}
	return value, ok
}

func (o *overlay[K, V]) set(key K, value V) {
	i, ok := o.index[key]
	if !ok {
		o.index[key] = int32(len(o.entries))
		o.entries = append(o.entries, entry[K, V]{key, value, o.epoch})
		return
	}
	e := &o.entries[i]
	if int(i) < o.begun && e.epoch != o.epoch {
		o.undo = append(o.undo, undone[V]{i, e.epoch, e.value})
	}
	e.value, e.epoch = value, o.epoch
}

// rollback takes back all since begin.
func (o *overlay[K, V]) rollback() {
	for i := range o.entries[o.begun:] {
		delete(o.index, o.entries[o.begun+i].key)
	}
	o.entries = o.entries[:o.begun]
	for i := range o.undo {
		u := &o.undo[i]
		o.entries[u.at].value, o.entries[u.at].epoch = u.value, u.epoch
	}
	o.undo = o.undo[:0]
}

// sorted yields the entries in the order of compare.
func (o *overlay[K, V]) sorted(compare func(a, b *K) int) func(yield func(*entry[K, V]) bool) {
	o.order = o.order[:0]
	for i := range o.entries {
		o.order = append(o.order, int32(i))
	}
	slices.SortFunc(o.order, func(a, b int32) int { return compare(&o.entries[a].key, &o.entries[b].key) })
	return func(yield func(*entry[K, V]) bool) {
		for _, i := range o.order {
			if !yield(&o.entries[i]) {
				return
			}
		}
	}
}

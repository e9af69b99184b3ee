package namespace

import (
	"math"
	"slices"

	"github.com/muster-fs/muster"
)

// This file reads the children of directories, from images where they can be had.

// loadRowsAtOnce is how many rows one Load reads, about; directories past that are loaded when
// they are scanned.
const loadRowsAtOnce = 4096

// Load finds or reads all directories among res at once, in one ordered pass over the store,
// and notes in res what it found, so that Scan need not look for it. It skips what is no
// directory and what the caller may not list. It is never needed, but faster than one by one.
func (r *Reader) Load(res []Resolved) {
	if !r.images {
		return
	}
	if !r.holdAll(res) {
		r.loadAll(res)
	}
}

// loadAll loads the directories among res of which nothing is in memory.
func (r *Reader) loadAll(res []Resolved) {
	wants := r.load.flight.wants[:0]
	for i := range res {
		if res[i].loadable() {
			wants = append(wants, want{dir: res[i].id})
		}
	}
	slices.SortFunc(wants, func(a, b want) int { return compareIDs(&a.dir, &b.dir) })
	r.load.flight.wants = slices.CompactFunc(wants, func(a, b want) bool { return a.dir == b.dir })
	r.loadWants()
	for i := range res {
		if res[i].loadable() {
			res[i].held = r.load.flight.want(res[i].id).held
		}
	}
	r.land()
}

// mayList says whether it is a directory that the caller may list.
func (r *Resolved) mayList() bool {
	return r.kind == muster.Directory && r.access&(mayRead|mayExecute) == mayRead|mayExecute
}

func (r *Resolved) loadable() bool { return r.held.as == unknown && r.mayList() }

// holdAll notes how directories are held; false if nothing is in memory of some.
func (r *Reader) holdAll(res []Resolved) bool {
	r.keys = r.keys[:0]
	for i := range res {
		if res[i].loadable() {
			r.keys = append(r.keys, res[i].id)
		}
	}
	r.items = slices.Grow(r.items[:0], len(r.keys))[:len(r.keys)]
	r.cache.GetAll(r.keys, math.MaxUint64, r.items)
	next, found := 0, uint64(0)
	for i := range res {
		if !res[i].loadable() {
			continue
		}
		item, to := &r.items[next], &res[i].held
		next++
		switch {
		case len(item.Bytes) == 0:
			continue
		case item.Bytes[0] == itemRanges:
			to.as = ranged
		case item.Since > r.view.meta.txid:
			to.as = stored
		default:
			to.as, to.item, to.since = whole, item.Bytes, item.Since
		}
		found++
	}
	r.hits += found
	r.misses += uint64(len(r.keys)) - found
	return found == uint64(len(r.keys))
}

// loadWants loads the directories that are wanted, whole or as far as an image goes.
func (r *Reader) loadWants() {
	rows, up := 0, r.takeOff()
	for i := range r.load.flight.wants {
		if w := &r.load.flight.wants[i]; !up {
			w.held.as = stored
		} else if rows < loadRowsAtOnce {
			r.loadWant(w)
			rows += len(r.load.packer.ends)
		}
	}
}

func (r *Reader) loadWant(w *want) {
	w.held.as = stored
	s, err := r.load.read(w, plan{})
	if err != nil {
		return // whoever reads it from the view says what is wrong
	}
	item, published := r.publish(w, &s)
	switch {
	case s.high == nil && s.since <= r.view.meta.txid:
		w.held = held{whole, item, s.since}
	case s.high != nil && published:
		w.held.as = ranged
	}
}

// run is the rows of a directory with names from low up to high, nil for no bound.
type run struct {
	held      // whole: the item has them; stored: the view's snapshot; unknown: neither
	low, high []byte
}

// has says whether the run is known and a name would be in it.
func (u *run) has(name string) bool {
	return u.as != unknown && (len(u.low) == 0 || name >= string(u.low)) && (u.high == nil || name < string(u.high))
}

// runTries is how often a run is looked for after it was loaded and turned out to be elsewhere.
const runTries = 3

// runAt returns the run that a name is in, loading it if it is in no image. If may says no, it
// is not loaded and unknown; it is told where the run begins.
func (r *Reader) runAt(dir uint64, name string, may func(low []byte) (rows int, ok bool)) run {
	for range runTries {
		u, p := r.lookUpRun(dir, name)
		if u.as != unknown {
			r.hits++
			return u
		}
		r.misses++
		if may != nil {
			ok := false
			if p.rows, ok = may(u.low); !ok {
				return u
			}
			p.back = p.rows / 2
		}
		if u := r.loadRun(dir, u, p); u.has(name) {
			return u
		}
	}
	return run{held: held{as: stored}}
}

// lookUpRun finds the run that a name is in. One that is unknown has the bounds to load it by.
func (r *Reader) lookUpRun(dir uint64, name string) (run, plan) {
	item, since, ok := r.cache.Get(dir, math.MaxUint64)
	switch {
	case !ok:
		return run{}, plan{from: name}
	case item[0] != itemRanges:
		return r.asOf(run{held: held{whole, item, since}}), plan{}
	}
	d := ranges(item)
	i := d.find(name)
	low, high := d.bounds(i)
	key := d.key(i)
	if key == 0 {
		return run{low: low, high: high}, plan{from: name}
	}
	if item, since, ok := r.cache.Get(key, math.MaxUint64); ok {
		return r.asOf(run{held{whole, item, since}, low, high}), plan{}
	}
	return run{low: low, high: high}, plan{known: true}
}

// asOf makes a run in memory one in the store if it is newer than the reader's view.
func (r *Reader) asOf(u run) run {
	if u.since > r.view.meta.txid {
		u.held = held{as: stored}
	}
	return u
}

// loadRun loads a run, or its first part.
func (r *Reader) loadRun(dir uint64, u run, p plan) run {
	defer r.land()
	r.load.flight.wants = append(r.load.flight.wants[:0], want{dir: dir, low: u.low, high: u.high})
	w := &r.load.flight.wants[0]
	u.as = stored
	if !r.takeOff() {
		return u
	}
	s, err := r.load.read(w, p)
	if err != nil {
		r.tree.loads.door.written(dir) // it would fail each time
		return u
	}
	item, _ := r.publish(w, &s)
	u = run{held{whole, item, s.since}, s.low, s.high}
	if s.high != nil {
		u.high = r.snap.arena.copy(s.high)
	}
	return r.asOf(u)
}

// children is the scan of a directory, run by run.
type children struct {
	dir   uint64
	image image
	at    int    // the next row of it
	store bool   // it is the store's rows that come next
	scan  scan   // of them
	more  bool   // another run follows
	next  []byte // which begins with this name
}

func (r *Reader) startScan(res *Resolved, after string) error {
	c := &r.children
	c.dir, c.image.n, c.at, c.store, c.more = res.id, 0, 0, false, false
	if res.kind != muster.Directory {
		return muster.ErrNotDirectory
	}
	if !res.mayList() {
		if _, err := decodeRow(res.row, &r.row); err != nil {
			return err
		}
		return r.walk.who.deny("read and execute", res.path, &r.row)
	}
	if res.held.as == unknown && !r.images {
		res.held.as = stored
	}
	switch res.held.as {
	case whole:
		c.image.open(res.held.item)
		if after != "" {
			at, ok := c.image.find(after, c.image.n)
			if c.at = at; ok {
				c.at++
			}
		}
		return nil
	case stored:
		c.store = true
		return c.scan.start(&r.snap, c.dir, after)
	}
	c.next = append(c.next[:0], after...)
	if after != "" {
		c.next = append(c.next, 0)
	}
	u, err := r.nextRun()
	if u.as == whole && len(u.low) == 0 && u.high == nil {
		res.held = u.held
	}
	return err
}

// nextRun goes on with the run in which the next name is.
func (r *Reader) nextRun() (run, error) {
	c := &r.children
	u := r.runAt(c.dir, string(c.next), nil)
	c.more, c.store = u.high != nil, u.as == stored
	var err error
	if c.store {
		c.image, c.at = image{}, 0
		err = c.scan.startWithin(&r.snap, c.dir, c.next, u.high)
	} else {
		c.image.open(u.item)
		c.at, _ = c.image.find(string(c.next), c.image.n)
	}
	c.next = append(c.next[:0], u.high...)
	return u, err
}

// Next reads the next child, in the order of bytes of names; false at the end and at an
// error, which Err tells apart. What row refers to is valid until the next call. A
// directory's mtime is 0: see Heads.
func (r *Reader) Next(row *muster.Row) bool {
	c := &r.children
	for r.err == nil {
		switch {
		case c.at < c.image.n:
			name, v := c.image.row(c.at)
			c.at++
			b := unpackRow(v, row)
			if row.Name = name; r.blocks && row.Kind == muster.File {
				r.err = r.readBlocks(row, b)
			}
			return r.err == nil
		case c.store:
			if r.nextStored(row) {
				return true
			}
		case c.more:
			_, r.err = r.nextRun()
		default:
			return false
		}
	}
	return false
}

// nextStored is Next where the store's rows come next.
func (r *Reader) nextStored(row *muster.Row) bool {
	name, v, ok, err := r.children.scan.next()
	if ok {
		var b blockList
		if b, err = decodeRow(v, row); err == nil && r.blocks && row.Kind == muster.File {
			err = r.readBlocks(row, b)
		}
	}
	row.Name, r.children.store, r.err = name, ok, err
	return ok && err == nil
}

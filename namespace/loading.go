package namespace

import (
	"bytes"
	"cmp"
	"math"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// loading reads for one reader what is to become images, from the newest view. It goes forward
// as long as what is wanted ascends, and then the store need not search anew.
type loading struct {
	most    int // rows of an image
	flight  flight
	view    *View // whose the iterators are, with a reference
	rows    *pebble.Iterator
	from    uint64 // rows is at the first row of this directory or a later one; 0: nobody knows
	key     []byte // scratch
	end     []byte // the first key past the directory that is read: rows stops there
	records records
	seeks   uint64
	packer  packer
	item    []byte
	high    []byte // scratch of stretch
	row     muster.Row
	rec     record
}

// close ends the iterators and gives the view back.
func (l *loading) close() error {
	if l.view == nil {
		return nil
	}
	err := cmp.Or(closeIter(&l.rows), l.records.close())
	l.from = 0
	l.view.Release()
	l.view = nil
	return err
}

// dirAt returns the id of the directory whose row rows is at, 0 if it is at none.
func (l *loading) dirAt() uint64 { return idAt(l.rows) }

// manySteps is from how many steps on a search is cheaper.
const manySteps = 3

// seek makes rows go to the first row of a directory whose name is not before low, and says
// whether there is one.
func (l *loading) seek(dir uint64, low []byte) bool {
	l.seeks++
	l.from = 0
	l.key = append(appendIDKey(l.key[:0], tagRow, dir), low...)
	return l.rows.SeekGEWithLimit(l.key, l.end) == pebble.IterValid && l.dirAt() == dir
}

// next makes rows go on in a directory.
func (l *loading) next(dir uint64) bool {
	return l.rows.NextWithLimit(l.end) == pebble.IterValid && l.dirAt() == dir
}

// enter makes rows go to the first row of a directory, and says whether there is one. A
// directory that is not much past the one before is likely to be next. It must not be far, since
// any number of rows that were deleted may lie between.
func (l *loading) enter(dir uint64) bool {
	if l.from == 0 || l.from > dir || dir-l.from > manySteps {
		return l.seek(dir, nil)
	}
	for range manySteps {
		if l.dirAt() >= dir || l.rows.NextWithLimit(l.end) != pebble.IterValid {
			break
		}
	}
	if at := l.dirAt(); at >= dir || !l.rows.Valid() && l.rows.Error() == nil {
		return at == dir
	}
	return l.seek(dir, nil)
}

// record reads a directory's record into l.rec.
func (l *loading) record(id uint64) error {
	v, err := l.records.find(l.view.snap, id)
	if err != nil {
		return err
	}
	return decodeHead(v, id, &l.rec)
}

// stretch is what was read of a directory into the packer: the names from low up to high, nil
// for no bound, as of since. high is valid until the next one.
type stretch struct {
	low, high []byte
	since     uint64
}

// plan says how much to read of what is wanted, if it may not fit into an image.
type plan struct {
	known bool   // it did fit before: begin where it begins
	from  string // else begin with this name
	rows  int    // and read so many, or the bytes that go with them; 0: as many as fit
	back  int    // of which so many before the name
}

// firstRows is how many rows a range has when it is read for the first time: there is room for
// some more.
func firstRows(most int) int { return max(1, most*3/4) }

// read reads what is wanted of a directory, or as much of it as makes an image.
func (l *loading) read(w *want, p plan) (s stretch, err error) {
	if err := l.record(w.dir); err != nil {
		return s, err
	}
	if l.rec.parent == 0 && w.dir != rootID {
		return s, corrupt("directory %d is being reclaimed", w.dir) // half of its rows may be gone
	}
	if l.rows == nil {
		if l.rows, err = newTagIter(l.view.snap, tagRow); err != nil {
			return s, err
		}
	}
	l.end = appendIDKey(l.end[:0], tagRow, w.dir+1)
	s = stretch{w.low, w.high, l.rec.changedAt}
	part := len(w.low) > 0 || w.high != nil
	rows, keep := l.most, firstRows(l.most)
	switch {
	case p.known:
		keep = l.most / 2
	case part || p.from != "" && l.rec.entries > uint64(l.most):
		rows = cmp.Or(p.rows, keep)
		keep = rows
		s.low, err = l.goBack(w.dir, w.low, []byte(p.from), p.back)
	}
	if err == nil {
		err = l.readRows(w.dir, &s, rows, keep)
	}
	return s, err
}

// goBack returns the name that is some rows, or the bytes that go with them, before a given one, at
// least low.
func (l *loading) goBack(dir uint64, low, name []byte, rows int) ([]byte, error) {
	if rows == 0 || len(name) == 0 {
		return name, nil
	}
	l.seeks++
	l.from = 0
	l.key = append(appendIDKey(l.key[:0], tagRow, dir), name...)
	iter := l.rows
	room := rows * rowImageMax
	for ok := iter.SeekLT(l.key); ok && rows > 0 && l.dirAt() == dir; ok = iter.Prev() {
		before := iter.Key()[idKeyLen:]
		v, err := iter.ValueAndErr()
		if err != nil {
			return nil, store.Error(err)
		}
		if room -= 1 + len(before) + len(v); room < 0 || string(before) < string(low) {
			break
		}
		name = append(name[:0], before...)
		rows--
	}
	return name, store.Error(iter.Error())
}

// readRows packs the rows of a stretch. If there are more than fit, it keeps some.
func (l *loading) readRows(dir uint64, s *stretch, rows, keep int) error {
	l.packer.reset()
	iter := l.rows
	ok := false
	if len(s.low) == 0 {
		ok = l.enter(dir)
	} else {
		ok = l.seek(dir, s.low)
	}
	for l.from = 0; ok; ok = l.next(dir) {
		name := iter.Key()[idKeyLen:]
		if s.high != nil && string(name) >= string(s.high) {
			return nil
		}
		if l.packer.full(rows) {
			if keep < rows {
				if dropped := l.packer.cut(keep); dropped != nil {
					name = dropped
				}
			}
			l.high = append(l.high[:0], name...)
			s.high = l.high
			return nil
		}
		v, err := iter.ValueAndErr()
		if err != nil {
			return store.Error(err)
		}
		if !nameOK(name) {
			return corrupt("row of directory %d: bad name %.255q", dir, name)
		}
		if err := checkRow(v, &l.row); err != nil {
			return err
		}
		l.packer.add(name, v)
	}
	err := store.Error(iter.Error())
	if err == nil {
		l.from = dir + 1
	}
	return err
}

// takeOff registers what is wanted, and prepares to read it from the newest view. If it says
// false, the tree is down.
func (r *Reader) takeOff() bool {
	l := &r.load
	v := r.tree.loads.begin(&l.flight)
	switch {
	case v == nil:
		return false
	case v == l.view:
		v.Release()
	default:
		r.noteClosed(l.close())
		l.view = v
	}
	return true
}

// land ends what takeOff began.
func (r *Reader) land() {
	r.tree.loads.end(&r.load.flight)
	clear(r.load.flight.wants)
	r.load.flight.wants, r.load.flight.heads = r.load.flight.wants[:0], r.load.flight.heads[:0]
}

// publish publishes what was read of a directory, and returns its image, which stays valid.
func (r *Reader) publish(w *want, s *stretch) (item []byte, published bool) {
	l := &r.load
	r.tree.counters.loads.Add(1)
	r.tree.counters.loadedRows.Add(uint64(len(l.packer.ends)))
	l.item = l.packer.appendItem(l.item[:0])
	key := r.tree.loads.publish(w, s, l.item)
	if key != 0 {
		if kept, _, ok := r.cache.Get(key, math.MaxUint64); ok && bytes.Equal(kept, l.item) {
			return kept, true
		}
	}
	return r.snap.arena.copy(l.item), key != 0
}

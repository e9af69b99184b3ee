package namespace

import (
	"bytes"
	"cmp"
	"encoding/binary"
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
	rows    position
	records position
	seeks   uint64
	packer  packer
	item    []byte
	high    []byte // scratch of stretch
	row     muster.Row
	rec     record
}

// position is an iterator over the keys of one tag, and where it is.
type position struct {
	iter *pebble.Iterator
	key  []byte
	from uint64 // it is at the first key of this id or a greater one; 0: nobody knows
}

// close ends the iterators and gives the view back.
func (l *loading) close() error {
	if l.view == nil {
		return nil
	}
	err := l.rows.close()
	if e := l.records.close(); err == nil {
		err = e
	}
	l.view.Release()
	l.view = nil
	return err
}

func (p *position) close() error {
	p.from = 0
	if p.iter == nil {
		return nil
	}
	iter := p.iter
	p.iter = nil
	return store.Error(iter.Close())
}

func (p *position) open(v *View, tag byte) (err error) {
	if p.iter == nil {
		p.iter, err = v.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	}
	return store.Error(err)
}

// at returns the id of the key that the iterator is at.
func (p *position) at() uint64 {
	if key := p.iter.Key(); len(key) >= idKeyLen {
		return binary.BigEndian.Uint64(key[1:])
	}
	return 0
}

// manySteps is from how many steps on a search is cheaper.
const manySteps = 3

// to goes to the first key of an id or a greater one, and says whether it is that id's.
func (l *loading) to(p *position, tag byte, id uint64) (bool, error) {
	ahead := p.from != 0 && p.from <= id
	for steps := 0; ahead && p.iter.Valid() && p.at() < id; steps++ {
		if ahead = steps < manySteps; ahead {
			p.iter.Next()
		}
	}
	if !ahead {
		l.seeks++
		p.key = appendIDKey(p.key[:0], tag, id)
		p.iter.SeekGE(p.key)
	}
	p.from = id
	if !p.iter.Valid() {
		p.from = 0
		return false, store.Error(p.iter.Error())
	}
	return p.at() == id, nil
}

// record reads a directory's record into l.rec.
func (l *loading) record(id uint64) error {
	if err := l.records.open(l.view, tagRecord); err != nil {
		return err
	}
	ok, err := l.to(&l.records, tagRecord, id)
	if err != nil {
		return err
	}
	var v []byte
	if ok {
		if v, err = l.records.iter.ValueAndErr(); err != nil {
			return store.Error(err)
		}
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
	if err := l.rows.open(l.view, tagRow); err != nil {
		return s, err
	}
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
	l.rows.from = 0
	l.rows.key = append(appendIDKey(l.rows.key[:0], tagRow, dir), name...)
	iter := l.rows.iter
	room := rows * rowImageMax
	for ok := iter.SeekLT(l.rows.key); ok && rows > 0 && l.rows.at() == dir; ok = iter.Prev() {
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
	ok, err := true, error(nil)
	if len(s.low) == 0 {
		ok, err = l.to(&l.rows, tagRow, dir)
	} else {
		l.seeks++
		l.rows.key = append(appendIDKey(l.rows.key[:0], tagRow, dir), s.low...)
		ok = l.rows.iter.SeekGE(l.rows.key) && l.rows.at() == dir
		err = store.Error(l.rows.iter.Error())
	}
	iter := l.rows.iter
	for l.rows.from = 0; ok; ok = iter.Next() && l.rows.at() == dir {
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
	if err == nil {
		err = store.Error(iter.Error())
	}
	if err == nil && iter.Valid() {
		l.rows.from = dir + 1
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

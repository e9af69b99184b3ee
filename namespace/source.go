package namespace

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster/store"
)

// This file has the ways to read a view's snapshot: a child of a directory by name
// (snapshot.child, lookups), the scan of a directory (scan) and records by id (records). A Reader
// tries images first.

// snapshot reads one state of the store, for one goroutine.
type snapshot struct {
	snap  *pebble.Snapshot
	arena arena
	key   []byte
	gets  uint64
	seeks uint64
}

// child returns the row of a child of a directory by name, nil if there is none. It stays
// valid.
func (s *snapshot) child(dir uint64, name string) ([]byte, error) {
	s.key = appendRowKey(s.key[:0], dir, name)
	return s.get(s.key)
}

// lookups is child for names that may come in order, such as the partitions of a page. Then it
// goes from row to row, which costs a tenth of a point read.
type lookups struct {
	iter    *pebble.Iterator
	key     []byte // looked up last
	end     []byte // the first key past it, where the iterator stops
	inOrder int    // look-ups that led to it, each of a name after the one before
}

// fromRowToRow is after how many look-ups in order the iterator is put to use.
const fromRowToRow = 2

func (c *lookups) child(s *snapshot, dir uint64, name string) ([]byte, error) {
	s.key = appendRowKey(s.key[:0], dir, name)
	if len(c.key) >= idKeyLen && string(s.key[:idKeyLen]) == string(c.key[:idKeyLen]) && string(s.key) > string(c.key) {
		c.inOrder++
	} else {
		c.inOrder = 0
	}
	c.key = append(c.key[:0], s.key...)
	if c.inOrder >= fromRowToRow {
		if v, ok := c.advance(s); ok {
			return v, nil
		}
		c.inOrder = 0
	}
	return s.get(s.key)
}

// advance returns the row of the key, nil if there is none, if it is not far from the one before. It
// reads nothing past the key.
func (c *lookups) advance(s *snapshot) (v []byte, ok bool) {
	if err := c.move(s); err != nil || c.iter.Error() != nil {
		return nil, false // a point read says whether the row can be had
	}
	if !c.iter.Valid() {
		return nil, true
	}
	switch bytes.Compare(c.iter.Key(), c.key) {
	case -1:
		return nil, false
	case 1:
		return nil, true
	}
	v, err := c.iter.ValueAndErr()
	return s.arena.copy(v), err == nil
}

// move goes to the key, or if that is far, some rows nearer.
func (c *lookups) move(s *snapshot) (err error) {
	c.end = append(append(c.end[:0], c.key...), 0)
	if c.inOrder > fromRowToRow {
		for steps := 0; steps < manySteps && !(c.iter.Valid() && string(c.iter.Key()) >= string(c.key)); steps++ {
			if c.iter.NextWithLimit(c.end) != pebble.IterValid {
				break
			}
		}
		return nil
	}
	if c.iter == nil {
		if c.iter, err = newTagIter(s.snap, tagRow); err != nil {
			return err
		}
	}
	s.seeks++
	c.iter.SeekGEWithLimit(c.key, c.end)
	return nil
}

func (c *lookups) close() error {
	c.key, c.inOrder = c.key[:0], 0
	return closeIter(&c.iter)
}

// get returns a copy of the value of key that stays valid, nil if there is none.
func (s *snapshot) get(key []byte) ([]byte, error) {
	s.gets++
	v, closer, err := s.snap.Get(key)
	if err != nil {
		return nil, missingOK(err)
	}
	c := s.arena.copy(v)
	return c, closer.Close()
}

// records finds records of inodes. Where ids ascend by little it goes from one to the next; not
// further, since any number of records that were deleted may lie between.
type records struct {
	iter  *pebble.Iterator
	key   []byte
	seeks uint64
}

// find returns the record of an id, valid until the next call; nil if there is none.
func (c *records) find(snap *pebble.Snapshot, id uint64) (v []byte, err error) {
	if c.iter == nil {
		if c.iter, err = newTagIter(snap, tagRecord); err != nil {
			return nil, err
		}
	}
	if at := c.at(); at == 0 || at > id || id-at > manySteps || !c.step(id) {
		c.seeks++
		c.key = appendIDKey(c.key[:0], tagRecord, id)
		c.iter.SeekGE(c.key)
	}
	if c.at() != id {
		return nil, store.Error(c.iter.Error())
	}
	v, err = c.iter.ValueAndErr()
	return v, store.Error(err)
}

// at returns the id whose record the iterator is at, 0 if it is at none.
func (c *records) at() uint64 { return idAt(c.iter) }

// step goes to the first record of an id or a later one.
func (c *records) step(id uint64) bool {
	for c.at() < id {
		if !c.iter.Next() {
			return false
		}
	}
	return true
}

func (c *records) close() error { return closeIter(&c.iter) }

// newTagIter returns an iterator over the keys of a tag.
func newTagIter(snap *pebble.Snapshot, tag byte) (*pebble.Iterator, error) {
	iter, err := snap.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	return iter, store.Error(err)
}

// idAt returns the id in the key that an iterator is at, 0 if it is at none.
func idAt(iter *pebble.Iterator) uint64 {
	if iter.Valid() && len(iter.Key()) >= idKeyLen {
		return binary.BigEndian.Uint64(iter.Key()[1:])
	}
	return 0
}

// closeIter closes an iterator if there is one.
func closeIter(iter **pebble.Iterator) error {
	if *iter == nil {
		return nil
	}
	open := *iter
	*iter = nil
	return store.Error(open.Close())
}

// scan reads the rows of one directory at a time, in the order of names. One store
// iterator serves all directories.
type scan struct {
	iter  *pebble.Iterator
	dir   uint64
	begun bool // the iterator is at a row that was not returned yet
	lower []byte
	upper []byte
}

// start positions the scan at the first name after a given one; "" is before all names.
func (c *scan) start(s *snapshot, dir uint64, after string) error {
	c.lower = appendRowKey(c.lower[:0], dir, after)
	if after != "" {
		c.lower = append(c.lower, 0)
	}
	return c.seek(s, dir, nil)
}

// startWithin positions the scan at the first name from low on; it ends before high, which is
// no bound if it is nil.
func (c *scan) startWithin(s *snapshot, dir uint64, low, high []byte) error {
	c.lower = append(appendIDKey(c.lower[:0], tagRow, dir), low...)
	return c.seek(s, dir, high)
}

func (c *scan) seek(s *snapshot, dir uint64, high []byte) error {
	c.dir = dir
	if c.upper = appendIDKey(c.upper[:0], tagRow, dir+1); high != nil {
		c.upper = append(appendIDKey(c.upper[:0], tagRow, dir), high...)
	}
	s.seeks++
	if c.iter == nil {
		iter, err := s.snap.NewIter(&pebble.IterOptions{LowerBound: c.lower, UpperBound: c.upper})
		if err != nil {
			return store.Error(err)
		}
		c.iter = iter
	} else {
		c.iter.SetBounds(c.lower, c.upper)
	}
	c.begun = c.iter.SeekGE(c.lower)
	return store.Error(c.iter.Error())
}

// next returns the next name and row, valid until the call after; false at the end.
func (c *scan) next() (name, row []byte, ok bool, err error) {
	if c.iter == nil {
		return nil, nil, false, nil
	}
	if !c.begun && !c.iter.Next() || !c.iter.Valid() {
		return nil, nil, false, store.Error(c.iter.Error())
	}
	c.begun = false
	name = c.iter.Key()[idKeyLen:]
	if !nameOK(name) {
		return nil, nil, false, corrupt("row of directory %d: bad name %.255q", c.dir, name)
	}
	row, err = c.iter.ValueAndErr()
	return name, row, err == nil, store.Error(err)
}

func (c *scan) close() error { return closeIter(&c.iter) }

// missingOK turns the store's "not found" into no error.
func missingOK(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return store.Error(err)
}

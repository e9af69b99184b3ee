package namespace

import (
	"errors"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster/store"
)

// This file has the two ways to read rows of a view's snapshot: a child of a directory by name
// (snapshot.child) and the scan of a directory (scan). A Reader tries images first.

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

func (c *scan) close() error {
	if c.iter == nil {
		return nil
	}
	iter := c.iter
	c.iter = nil
	return store.Error(iter.Close())
}

// missingOK turns the store's "not found" into no error.
func missingOK(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return store.Error(err)
}

package store

import (
	"fmt"

	"github.com/muster-fs/muster"
)

// FileOf returns the inode id of the file that a block was written for. Of a block that is read often
// it allocates nothing and takes no lock. Errors are those of Stat.
func (s *Store) FileOf(id muster.BlockID) (uint64, error) {
	if e := s.cache.peek(id); e != nil {
		return e.record.file, nil
	}
	file, err := s.fileOf(id)
	if err != nil {
		return 0, fmt.Errorf("look up block %v: %w", id, err)
	}
	return file, nil
}

func (s *Store) fileOf(id muster.BlockID) (uint64, error) {
	if err := s.gate.enter(); err != nil {
		return 0, err
	}
	defer s.gate.leave()
	c, err := s.find(id)
	if err != nil {
		return 0, err
	}
	r, err := record(c.disk.kv.DB, id)
	return r.file, c.disk.sound(err)
}

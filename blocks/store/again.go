package store

import (
	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	kv "github.com/muster-fs/muster/store"
)

// deleteAgain removes blocks that were deleted while the disk that has them was out: their tombstones
// are on others. What cannot be written on a disk that is full waits for the next start.
func (s *Store) deleteAgain() {
	for _, d := range s.disks {
		if d.alive() != nil {
			continue
		}
		ids, err := d.buried()
		if err != nil {
			d.fail(err) // its metadata cannot be read
			continue
		}
		for _, id := range ids {
			if _, err := s.removeHere(id); err != nil {
				s.opts.Logger.Warn("blocks: a block that was deleted while its disk was out is still there", "block", id, "error", err)
			}
		}
	}
}

// buried returns the blocks that have a tombstone on this disk, and are on another one.
func (d *disk) buried() (ids []muster.BlockID, err error) {
	it, err := d.kv.DB.NewIter(&pebble.IterOptions{LowerBound: []byte{tagTombstone}, UpperBound: []byte{tagTombstone + 1}})
	if err != nil {
		return nil, d.sound(kv.Error(err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		id, err := idIn(it.Key())
		if err != nil {
			continue
		}
		at, err := decodeTombstone(it.Value())
		if err != nil || d.store.now()-at >= TombstoneLife.Milliseconds() {
			continue
		}
		if c := d.store.known(id.Container); c != nil && c.disk != d && c.disk.alive() == nil {
			if _, found, getErr := get(c.disk.kv.DB, blockKey(id)); getErr == nil && found {
				ids = append(ids, id)
			}
		}
	}
	return ids, d.sound(kv.Error(it.Close()))
}

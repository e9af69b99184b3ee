package store

import (
	"fmt"

	"github.com/muster-fs/muster"
)

// Discard removes what was written of a block without a commit, so that all of it can be copied from
// elsewhere: unlike Delete it leaves no tombstone. If nothing is there, it is nil. ErrExists: the block
// is committed, or is being written.
func (s *Store) Discard(id muster.BlockID) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	if err := s.discard(id); err != nil {
		return fmt.Errorf("discard block %v: %w", id, err)
	}
	return nil
}

func (s *Store) discard(id muster.BlockID) error {
	if id.Container == 0 || id.LocalID == 0 {
		return fmt.Errorf("%w: ids are from 1", muster.ErrInvalid)
	}
	c := s.known(id.Container)
	if c == nil {
		return nil
	}
	nobody := &Writer{container: c, id: id, copy: true} // so that no other makes the file before it was removed
	err := c.addWriter(nobody)
	if err == nil {
		defer c.removeWriter(nobody)
		err = c.disk.change(func(b *batch) (func(), error) { return c.planDiscard(b, id) })
	}
	switch {
	case c.ended() != nil:
		return nil
	case err != nil:
		return err
	}
	if err := s.opts.FS.Remove(c.disk.blockPath(id)); err != nil && !isMissing(err) {
		s.opts.Logger.Warn("blocks: the file of a discarded block was not removed; the next start removes it", "block", id, "error", err)
	}
	return nil
}

func (c *container) planDiscard(b *batch, id muster.BlockID) (func(), error) {
	if err := c.ended(); err != nil {
		return nil, err
	}
	v, found, err := b.get(blockKey(id))
	if err != nil || !found {
		return nil, err
	}
	r, err := decodeBlock(v)
	if err != nil {
		return nil, err
	}
	if r.committed {
		return nil, fmt.Errorf("%w: it is committed", muster.ErrExists)
	}
	b.deleteBlock(id, r.length)
	return func() { c.lost(id, r) }, nil
}

// setChunks sets a block's chunks, from the start of one to the end of the data, with their checksums.
func (b *batch) setChunks(id muster.BlockID, start, length int64, sums []byte) {
	for at := start; at < length; at += muster.ChunkBytes {
		n := min(muster.ChunkBytes, length-at)
		b.set(chunkKey(id, uint32(at/muster.ChunkBytes)), appendChunk(nil, int(n), sums[:sumBytes(n)]))
		sums = sums[sumBytes(n):]
	}
}

// deleteBlock removes a block's record and its chunks.
func (b *batch) deleteBlock(id muster.BlockID, length int64) {
	b.delete(blockKey(id))
	for at := int64(0); at < length; at += muster.ChunkBytes {
		b.delete(chunkKey(id, uint32(at/muster.ChunkBytes)))
	}
}

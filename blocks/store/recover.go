package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/muster-fs/muster"
)

// Commit makes an unfinished block readable, cut to a length that is durable. A block that is
// committed with this length is fine, with another one ErrExists. A Writer that the block still
// has can do no more. Other errors are ErrNotFound and ErrNoData as of Stat, ErrInvalid for a
// length that is not durable, and ErrCorrupt if the last bytes before it do not match their
// checksum.
func (s *Store) Commit(id muster.BlockID, length int64) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	if err := s.commit(id, length); err != nil {
		return fmt.Errorf("commit block %v: %w", id, err)
	}
	return nil
}

func (s *Store) commit(id muster.BlockID, length int64) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	r, sums, err := c.disk.lookup(id)
	if err != nil {
		return err
	}
	if done, err := cutTo(r, length); done || err != nil {
		return err
	}
	last, err := s.lastSum(c, id, r, length, sums)
	if err != nil {
		return err
	}
	cut := false
	err = c.disk.change(func(b *batch) (show func(), err error) {
		show, cut, err = c.planCommit(b, id, length, last)
		return show, err
	})
	if cut && err == nil {
		c.disk.cutTail(c.disk.blockPath(id), length)
	}
	return err
}

// cutTo says whether a block is committed at a length already, and why it cannot be.
func cutTo(r blockRecord, length int64) (done bool, err error) {
	switch {
	case length < 0 || !r.committed && length > r.length:
		return false, fmt.Errorf("%w: length %d; %d bytes are durable", muster.ErrInvalid, length, r.length)
	case r.committed && length != r.length:
		return false, fmt.Errorf("%w: it is committed with %d bytes, not %d", muster.ErrExists, r.length, length)
	}
	return r.committed, nil
}

// lastSum returns the checksum of the last data before a cut, nil if it is that of a whole piece.
// What is durable of a piece never changes, so the answer stays true.
func (s *Store) lastSum(c *container, id muster.BlockID, r blockRecord, length int64, sums []byte) ([]byte, error) {
	rest := length % muster.ChecksumBytes
	if rest == 0 || length == r.length {
		return nil, nil
	}
	at := length - rest
	piece := make([]byte, min(muster.ChecksumBytes, r.length-at))
	f, err := s.opts.FS.Open(c.disk.blockPath(id))
	if err != nil {
		return nil, c.disk.readError(c, id, err)
	}
	n, err := f.ReadAt(piece, at)
	_ = f.Close() // it was only read
	if n != len(piece) {
		return nil, c.disk.readError(c, id, err)
	}
	if mismatch(piece, sums[sumBytes(at):]) >= 0 {
		return nil, corrupt("the data at %d does not match its checksum", at)
	}
	return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(piece[:rest], castagnoli)), nil
}

// planCommit commits a block with a length, and with the checksum of what is before it, if that
// changes.
func (c *container) planCommit(b *batch, id muster.BlockID, length int64, last []byte) (show func(), cut bool, err error) {
	if err := c.ended(); err != nil {
		return nil, false, err
	}
	r, err := record(b.b, id)
	if err != nil {
		return nil, false, err
	}
	if done, err := cutTo(r, length); done || err != nil {
		return nil, false, err
	}
	if err := cutChunks(b, id, r.length, length, last); err != nil {
		return nil, false, err
	}
	before := r.length
	r.committed, r.length, r.touched = true, length, c.disk.store.now()
	b.set(blockKey(id), appendBlock(nil, r))
	c.stopWriter(id.LocalID, fmt.Errorf("%w: it was committed with %d bytes", muster.ErrExists, length))
	return func() {
		c.grew(id.LocalID, r)
		c.disk.store.counts.committed.Add(1)
	}, length < before, nil
}

// cutChunks cuts the chunks of a block.
func cutChunks(b *batch, id muster.BlockID, from, to int64, last []byte) error {
	if from == to {
		return nil
	}
	first := chunkStart(to)
	if to > first {
		key := chunkKey(id, uint32(first/muster.ChunkBytes))
		v, found, err := b.get(key)
		if err != nil {
			return err
		}
		if !found {
			return corrupt("the chunk at %d is missing", first)
		}
		_, sums, err := decodeChunk(v)
		if err != nil {
			return err
		}
		n := to - first
		if int64(len(sums)) < sumBytes(n) {
			return corrupt("the chunk at %d is short", first)
		}
		sums = slices.Clone(sums[:sumBytes(n)])
		copy(sums[len(sums)-len(last):], last)
		b.set(key, appendChunk(nil, int(n), sums))
		first += muster.ChunkBytes
	}
	for at := first; at < from; at += muster.ChunkBytes {
		b.delete(chunkKey(id, uint32(at/muster.ChunkBytes)))
	}
	return nil
}

// stopWriter ends the writing of a block.
func (c *container) stopWriter(local uint64, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.writers[local]; w != nil {
		w.stop(why)
	}
}

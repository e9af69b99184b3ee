package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	kv "github.com/muster-fs/muster/store"
)

// Read reads from a committed block into dst, from offset on, and appends the checksums of what it
// read to checksums. Offset is a multiple of muster.ChecksumBytes, and so is the length of dst,
// unless it reaches the end. At the end nothing is read, and past it is ErrInvalid. The data is not
// compared with the checksums. Reading a block again allocates nothing and takes no lock.
//
// Errors are ErrNotFound if there is no such container, or its disk failed, ErrNoData if it has no
// such block, or the block is not committed, ErrCorrupt if the disk cannot read it.
func (s *Store) Read(id muster.BlockID, offset int64, dst, checksums []byte) (n int, sums []byte, err error) {
	s.counts.reads.Add(1)
	e := s.cache.get(id)
	if e == nil {
		if e, err = s.load(id); err != nil {
			return 0, checksums, fmt.Errorf("read block %v: %w", id, err)
		}
	}
	n, sums, err = e.read(offset, dst, checksums)
	e.release()
	if err != nil {
		return 0, checksums, fmt.Errorf("read block %v: %w", id, err)
	}
	s.counts.readBytes.Add(uint64(n))
	return n, sums, nil
}

func (e *entry) read(offset int64, dst, checksums []byte) (int, []byte, error) {
	length := e.record.length
	if offset == length {
		return 0, checksums, nil
	}
	if offset < 0 || offset > length || offset%muster.ChecksumBytes != 0 {
		return 0, nil, fmt.Errorf("%w: offset %d; it is from 0 to the length of %d, and a multiple of %d", muster.ErrInvalid, offset, length, muster.ChecksumBytes)
	}
	n := min(int64(len(dst)), length-offset)
	if n%muster.ChecksumBytes != 0 && offset+n != length {
		return 0, nil, fmt.Errorf("%w: %d bytes at %d: neither a multiple of %d nor up to the end at %d", muster.ErrInvalid, n, offset, muster.ChecksumBytes, length)
	}
	if err := e.container.disk.alive(); err != nil {
		return 0, nil, err
	}
	got, err := e.file.ReadAt(dst[:n], offset)
	if int64(got) != n {
		return 0, nil, e.container.disk.readError(e.container, e.id, err)
	}
	at := sumBytes(offset)
	return got, append(checksums, e.sums[at:at+sumBytes(n)]...), nil
}

// readError says what an error of reading a block's file is about, and takes the disk out or
// marks the block. The disk is not tested for one that is marked already: it may be read often.
func (d *disk) readError(c *container, id muster.BlockID, err error) error {
	d.store.counts.readErrors.Add(1)
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF // the file is too short
	}
	bad := corrupt("the disk %s cannot read it: %v", d.dir, err)
	if c.isDamaged(id.LocalID) {
		return bad
	}
	if err != io.ErrUnexpectedEOF {
		if what := d.blame(err, id); what != ofFile {
			return d.blamed(what, "read", err)
		}
	}
	d.store.opts.Logger.Error("blocks: a block cannot be read", "block", id, "disk", d.dir, "error", err)
	if err := d.mark(c, id, true); err != nil && !errors.Is(err, muster.ErrUnavailable) {
		return err
	}
	return bad // marked, or there is no room to write that down
}

// ioError says what an I/O error is about that is not of reading a block, and takes the disk out
// if it is that.
func (d *disk) ioError(op string, err error, id muster.BlockID) error {
	what := d.blame(err, id)
	if what != ofRoom {
		d.store.counts.writeErrors.Add(1)
	}
	return d.blamed(what, op, err)
}

func (d *disk) blamed(what cause, op string, err error) error {
	switch what {
	case ofDisk:
		return d.alive()
	case ofRoom:
		return fmt.Errorf("%w: the disk %s is full: %s: %v", muster.ErrUnavailable, d.dir, op, err)
	}
	return fmt.Errorf("%w: disk %s: %s: %v", muster.ErrUnavailable, d.dir, op, err)
}

// load makes the entry of a block, for the caller to release, and puts it into the cache.
func (s *Store) load(id muster.BlockID) (*entry, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	s.counts.misses.Add(1)
	c, err := s.find(id)
	if err != nil {
		return nil, err
	}
	e := &entry{id: id, container: c, epoch: c.epoch.Load()}
	if e.record, e.sums, err = c.disk.lookup(id); err != nil {
		return nil, err
	}
	if !e.record.committed {
		return nil, fmt.Errorf("%w: it is not committed", muster.ErrNoData)
	}
	if e.file, err = s.opts.FS.Open(c.disk.blockPath(id)); err != nil {
		if gone := c.exists(); gone != nil {
			return nil, gone
		}
		if c.epoch.Load() != e.epoch { // it may be gone as well
			if _, _, err := c.disk.lookup(id); err != nil {
				return nil, err
			}
		}
		return nil, c.disk.readError(c, id, err)
	}
	e.chunks = chunkSums(e.record.length, e.sums)
	e.users.Store(1)
	s.cache.open.Add(1)
	s.cache.add(e)
	return e, nil
}

// find returns the container of a block.
func (s *Store) find(id muster.BlockID) (*container, error) {
	if id.LocalID == 0 {
		return nil, fmt.Errorf("%w: local id 0", muster.ErrInvalid)
	}
	return s.container(id.Container)
}

// lookup returns a block's record and its checksums.
func (d *disk) lookup(id muster.BlockID) (blockRecord, []byte, error) {
	view := d.kv.DB.NewSnapshot()
	r, sums, err := lookup(view, id)
	if closeErr := view.Close(); err == nil {
		err = kv.Error(closeErr)
	}
	return r, sums, d.sound(err)
}

func lookup(view pebble.Reader, id muster.BlockID) (r blockRecord, sums []byte, err error) {
	r, err = record(view, id)
	if err != nil || r.length == 0 {
		return r, nil, err
	}
	from := chunkKey(id, 0)
	it, err := view.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: successor(from[:len(from)-4])})
	if err != nil {
		return r, nil, kv.Error(err)
	}
	sums = make([]byte, 0, sumBytes(r.length))
	at := int64(0)
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var n int
		var part []byte
		n, part, err = decodeChunk(it.Value())
		if at%muster.ChunkBytes != 0 || string(it.Key()) != string(chunkKey(id, uint32(at/muster.ChunkBytes))) {
			err = corrupt("chunks of block %v: one is missing at %d", id, at)
		}
		sums, at = append(sums, part...), at+int64(n)
	}
	if closeErr := it.Close(); err == nil {
		err = kv.Error(closeErr)
	}
	if err == nil && at != r.length {
		err = corrupt("block %v of %d bytes has chunks for %d", id, r.length, at)
	}
	return r, sums, err
}

// record returns a block's record.
func record(view pebble.Reader, id muster.BlockID) (blockRecord, error) {
	v, found, err := get(view, blockKey(id))
	if err != nil {
		return blockRecord{}, err
	}
	if !found {
		return blockRecord{}, fmt.Errorf("%w: the container has no such block", muster.ErrNoData)
	}
	return decodeBlock(v)
}

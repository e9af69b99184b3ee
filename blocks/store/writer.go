package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// Writer writes one block. One goroutine may Sync while another writes; Commit and Close come
// after both.
type Writer struct {
	container *container
	id        muster.BlockID
	of        uint64 // the file
	copy      bool   // of a block that is committed elsewhere
	repair    bool   // of one that is here and damaged
	file      vfs.File
	stopped   atomic.Pointer[error] // why no more can be written

	// mu guards what follows. It is not held over I/O.
	mu      sync.Mutex
	written int64
	sums    []byte // of what is written, from the chunk on that durable is in

	// What follows belongs to whoever syncs.
	durable int64
	created int64 // ms; of the block's record, 0: it has none
	named   bool  // the entry of the file in its folder is durable
	done    bool  // committed or closed
}

// stop ends writing; the first reason is kept.
func (w *Writer) stop(why error) { w.stopped.CompareAndSwap(nil, &why) }

// usable returns why no more can be written.
func (w *Writer) usable() error {
	if why := w.stopped.Load(); why != nil {
		return *why
	}
	return nil
}

func (w *Writer) store() *Store { return w.container.disk.store }

func (w *Writer) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s block %v: %w", op, w.id, err)
}

// Write appends data at offset, where the Write before ended. It is whole checksums, but in the
// last Write, and at most muster.MaxTransfer. Checksums are the CRC-32C of each
// muster.ChecksumBytes of it, little-endian.
//
// Errors are ErrInvalid for data out of order or after the end, ErrLimit, ErrCorrupt if data does
// not match its checksums, ErrChanged if the container was closed meanwhile, ErrNotFound if it or
// its disk is gone, ErrNoData if the block was deleted, ErrUnavailable if the disk is full or did
// not write. Nothing was written then, and what was before can be made durable, unless the block
// or its container is gone, or the disk refused to write.
func (w *Writer) Write(offset int64, data, checksums []byte) error {
	s := w.store()
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	if err := w.check(offset, data, checksums); err != nil {
		return w.wrap("write", err)
	}
	if len(data) == 0 {
		return nil
	}
	if err := w.append(data, offset); err != nil {
		return w.wrap("write", err)
	}
	w.mu.Lock()
	w.written += int64(len(data))
	w.sums = append(w.sums, checksums...)
	w.mu.Unlock()
	s.counts.writes.Add(1)
	s.counts.writtenBytes.Add(uint64(len(data)))
	return nil
}

// check says what is wrong with data that is to be written.
func (w *Writer) check(offset int64, data, checksums []byte) error {
	if err := w.usable(); err != nil {
		return err
	}
	w.mu.Lock()
	at := w.written
	w.mu.Unlock()
	n := int64(len(data))
	switch {
	case w.done:
		return fmt.Errorf("%w: the writer is closed", muster.ErrInvalid)
	case n > muster.MaxTransfer:
		return fmt.Errorf("%w: %d bytes at once; at most %d", muster.ErrLimit, n, muster.MaxTransfer)
	case offset != at:
		return fmt.Errorf("%w: data for offset %d; %d is next", muster.ErrInvalid, offset, at)
	case n > muster.MaxBlockSize-at:
		return fmt.Errorf("%w: %d bytes at %d; a block has at most %d", muster.ErrLimit, n, at, int64(muster.MaxBlockSize))
	case n > 0 && at%muster.ChecksumBytes != 0:
		return fmt.Errorf("%w: data after the end: the data before was %d bytes, which is not a multiple of %d", muster.ErrInvalid, at, muster.ChecksumBytes)
	case int64(len(checksums)) != sumBytes(n):
		return fmt.Errorf("%w: %d bytes of checksums for %d of data; there must be %d", muster.ErrInvalid, len(checksums), n, sumBytes(n))
	}
	if bad := mismatch(data, checksums); bad >= 0 {
		w.store().counts.badChecksums.Add(1)
		return corrupt("the data at %d does not match its checksum", offset+int64(bad))
	}
	return nil
}

// append writes to the file. If that fails, what the file ends with is unknown, so it ends all
// writing.
func (w *Writer) append(data []byte, offset int64) error {
	d := w.container.disk
	if err := w.container.takesData(w); err != nil {
		return err
	}
	if err := d.makeRoom(int64(len(data)), false); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(data, offset); err != nil {
		err = d.ioError("write", err, w.id)
		w.stop(err)
		return err
	}
	return nil
}

// takesData says why a container takes no data of a writer.
func (c *container) takesData(w *Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil && c.closed && !w.copy {
		return errClosed(c.id)
	}
	return c.gone
}

// Sync makes what was written before it durable, and returns how much of the block is. After an
// error it is what was durable before.
func (w *Writer) Sync() (durable int64, err error) {
	s := w.store()
	if err := s.gate.enter(); err != nil {
		return w.durable, err
	}
	defer s.gate.leave()
	if w.repair {
		err = fmt.Errorf("%w: a repair is durable as a whole", muster.ErrInvalid)
	} else {
		err = w.sync(false)
	}
	err = w.wrap("sync", err)
	return w.durable, err
}

// Commit makes the block durable and readable, and ends the Writer unless it fails. A block
// without data is fine.
func (w *Writer) Commit() error {
	s := w.store()
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	end := func() error { return w.sync(true) }
	if w.repair {
		end = w.replace
	}
	if err := end(); err != nil {
		return w.wrap("commit", err)
	}
	w.done = true
	w.container.removeWriter(w)
	_ = w.file.Close() // all of it is durable
	if !w.repair {
		s.counts.committed.Add(1)
	}
	return nil
}

// sync makes what is written durable: data, then the name of the file, then metadata that counts it.
func (w *Writer) sync(commit bool) error {
	if w.done {
		return fmt.Errorf("%w: the writer is closed", muster.ErrInvalid)
	}
	w.mu.Lock()
	length, sums := w.written, w.sums
	w.mu.Unlock()
	if length == w.durable && !commit {
		return w.usable()
	}
	if err := w.container.disk.makeDurable(); err != nil {
		return err
	}
	if err := w.syncFile(length); err != nil {
		w.stop(err)
		return err
	}
	if err := w.container.disk.change(func(b *batch) (func(), error) { return w.plan(b, length, sums, commit) }); err != nil {
		w.stop(err)
		return err
	}
	w.mu.Lock()
	w.sums = w.sums[sumBytes(chunkStart(length))-sumBytes(chunkStart(w.durable)):]
	w.durable = length
	w.mu.Unlock()
	return nil
}

// chunkStart returns where the chunk begins that holds the byte at offset.
func chunkStart(offset int64) int64 { return offset - offset%muster.ChunkBytes }

// syncFile makes the file's data and its name durable.
func (w *Writer) syncFile(length int64) error {
	if err := w.usable(); err != nil {
		return err
	}
	d := w.container.disk
	if length > w.durable {
		d.store.counts.dataSyncs.Add(1)
		if err := w.file.SyncData(); err != nil {
			return d.ioError("sync", err, w.id)
		}
	}
	if w.named {
		return nil
	}
	if err := d.syncFolder(d.containerPath(w.id.Container)); err != nil {
		return d.ioError("sync its folder", err, w.id)
	}
	w.named = true
	return nil
}

// path is that of the file.
func (w *Writer) path() string {
	path := w.container.disk.blockPath(w.id)
	if w.repair {
		path += repairSuffix
	}
	return path
}

// plan counts what is durable of the file, and commits the block if told.
func (w *Writer) plan(b *batch, length int64, sums []byte, commit bool) (func(), error) {
	c, now := w.container, w.store().now()
	err := w.usable()
	if err == nil && w.created == 0 {
		err = w.buried(b)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return nil, c.gone
	}
	if !c.durable {
		b.set(containerKey(c.id), appendContainer(nil, containerRecord{closed: c.closed, created: c.created}))
	}
	b.setChunks(w.id, chunkStart(w.durable), length, sums)
	if w.created == 0 {
		w.created = max(1, now)
	}
	r := blockRecord{committed: commit, file: w.of, length: length, created: w.created, touched: now}
	b.set(blockKey(w.id), appendBlock(nil, r))
	return func() { c.grew(w.id.LocalID, r) }, nil
}

// buried says that the block was deleted when the Writer was there, and the deletion did not see it yet.
func (w *Writer) buried(b *batch) error {
	v, found, err := b.get(tombstoneKey(w.id))
	if err != nil || !found {
		return err
	}
	at, err := decodeTombstone(v)
	if err == nil && w.store().now()-at < TombstoneLife.Milliseconds() {
		err = fmt.Errorf("%w: it was deleted", muster.ErrNoData)
	}
	return err
}

// grew shows that more of a block is durable, or all of it.
func (c *container) grew(local uint64, r blockRecord) {
	c.mu.Lock()
	before := c.unfinished[local]
	if r.committed {
		delete(c.unfinished, local)
		c.blocks++
		c.bytes += uint64(r.length)
	} else {
		c.unfinished[local] = unfinished{file: r.file, length: r.length, touched: r.touched}
	}
	news := r.committed || !c.durable
	c.durable = true
	c.mu.Unlock()
	c.disk.used.Add(r.length - before.length)
	if news {
		c.changed()
	}
}

// Close ends the Writer: what is durable is an unfinished block. After Commit it does nothing.
func (w *Writer) Close() error {
	s := w.store()
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	if w.done {
		return nil
	}
	w.done = true
	c := w.container
	err := w.cut()
	c.removeWriter(w)
	if err != nil && c.disk.alive() == nil {
		return w.wrap("close", fmt.Errorf("%w: %v", muster.ErrUnavailable, err))
	}
	return nil
}

// cut removes what is not durable of the file, unless others do: the next start, or who removed
// the block.
func (w *Writer) cut() error {
	if w.usable() == nil && w.durable > 0 {
		truncate(w.file, w.durable)
	}
	err := w.file.Close()
	if w.created == 0 && w.container.ended() == nil {
		d := w.container.disk
		if removeErr := d.store.opts.FS.Remove(w.path()); !isMissing(removeErr) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

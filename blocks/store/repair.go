package store

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// repairSuffix ends the name of a file that is to replace a block's.
const repairSuffix = ".repair"

// Repair begins the replacement of a damaged block by what another datanode has of it, given to
// the Writer from the beginning. Sync is ErrInvalid. Commit replaces the block's file in one step, and
// takes the mark away, if all of it has come and it is what the block was: of the same length, with
// the checksums that are stored. A stored checksum gives way to the given one only if it cannot be read,
// or if what the file has matches the given one. Otherwise Commit is ErrCorrupt, and the block
// stays as it is. Reads in progress go on with the file that they have.
//
// Errors are those of Stat, ErrNoData if the block is not committed, ErrExists if it is not
// damaged, or is being repaired, ErrUnavailable if its disk has no room.
func (s *Store) Repair(id muster.BlockID) (*Writer, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	w, err := s.beginRepair(id)
	if err != nil {
		return nil, fmt.Errorf("repair block %v: %w", id, err)
	}
	return w, nil
}

func (s *Store) beginRepair(id muster.BlockID) (*Writer, error) {
	c, err := s.find(id)
	if err != nil {
		return nil, err
	}
	d := c.disk
	if err := d.makeRoom(0, true); err != nil {
		return nil, err
	}
	w := &Writer{container: c, id: id, copy: true, repair: true}
	if err := c.addWriter(w); err != nil {
		return nil, err
	}
	r, err := record(d.kv.DB, id) // nobody else repairs it meanwhile
	switch err = d.sound(err); {
	case err != nil:
	case !r.committed:
		err = fmt.Errorf("%w: it is not committed", muster.ErrNoData)
	case !r.damaged:
		err = fmt.Errorf("%w: it is not damaged", muster.ErrExists)
	default:
		w.of = r.file
		w.file, err = d.createRepair(w)
	}
	if err != nil {
		c.removeWriter(w)
		return nil, err
	}
	return w, nil
}

// createRepair makes the file, and the container's folder if it has vanished with its blocks.
func (d *disk) createRepair(w *Writer) (vfs.File, error) {
	files := d.store.opts.FS
	f, err := files.Create(w.path())
	if isMissing(err) && w.container.ended() == nil {
		if err = files.MkdirAll(d.containerPath(w.id.Container), 0o700); err == nil {
			err = d.syncFolder(d.path())
		}
		if err == nil {
			f, err = files.Create(w.path())
		}
	}
	if err == nil {
		return f, nil
	}
	if gone := w.container.ended(); gone != nil {
		return nil, gone
	}
	return nil, d.ioError("make a file to repair it", err, w.id)
}

// replace commits a repair. The new file is durable under its own name before it takes the other's,
// and has that durably before the mark goes. So a crash leaves the old file or the new one, and a
// block that is marked unless it is the new one.
func (w *Writer) replace() error {
	if w.done {
		return fmt.Errorf("%w: the writer is closed", muster.ErrInvalid)
	}
	changed, err := w.fits()
	if err != nil {
		return err
	}
	if err := w.putInPlace(); err != nil {
		w.stop(err)
		return err
	}
	d := w.container.disk
	err = d.change(func(b *batch) (func(), error) { return w.planRepair(b, changed) })
	if err == nil {
		return nil
	}
	w.stop(err)
	if d.alive() == nil && w.container.ended() == nil { // the block was deleted, maybe before its file came
		if _, found, getErr := get(d.kv.DB, blockKey(w.id)); getErr == nil && !found {
			_ = d.store.opts.FS.Remove(d.blockPath(w.id)) // else the next start does
		}
	}
	return err
}

// fits says whether what was written is what the block was, and whether its stored checksums
// change.
func (w *Writer) fits() (changed bool, err error) {
	if err := w.usable(); err != nil {
		return false, err
	}
	d := w.container.disk
	r, err := record(d.kv.DB, w.id)
	if err = d.sound(err); err != nil {
		return false, err
	}
	if w.written != r.length {
		return false, corrupt("%d bytes to repair it with; it has %d", w.written, r.length)
	}
	_, stored, err := d.lookup(w.id)
	switch {
	case muster.CodeOf(err) == muster.ErrCorrupt:
		return true, nil // they cannot be read
	case err != nil:
		return false, err
	case bytes.Equal(stored, w.sums):
		return false, nil
	}
	return true, w.outvoted(stored)
}

// outvoted is nil if each stored checksum that differs from the given one stands against the data
// in the file as well.
func (w *Writer) outvoted(stored []byte) error {
	d := w.container.disk
	f, err := d.store.opts.FS.Open(d.blockPath(w.id))
	if err != nil {
		return corrupt("other checksums than those of the block, whose file cannot be read: %v", err)
	}
	defer f.Close() // it is only read
	buf := make([]byte, muster.ChecksumBytes)
	for at := int64(0); at < w.written; at += muster.ChecksumBytes {
		i := sumBytes(at)
		given := w.sums[i : i+sumSize]
		if bytes.Equal(given, stored[i:i+sumSize]) {
			continue
		}
		piece := buf[:min(muster.ChecksumBytes, w.written-at)]
		if n, err := f.ReadAt(piece, at); n != len(piece) {
			return corrupt("another checksum than that of the block at %d, where its file cannot be read: %v", at, err)
		}
		if mismatch(piece, given) >= 0 {
			return corrupt("other data than that of the block at %d", at)
		}
	}
	return nil
}

// putInPlace makes the file durable and gives it the block's name.
func (w *Writer) putInPlace() error {
	d := w.container.disk
	d.store.counts.dataSyncs.Add(1)
	if err := w.file.Sync(); err != nil {
		return d.ioError("sync", err, w.id)
	}
	if gone := w.container.ended(); gone != nil {
		return gone
	}
	if err := d.store.opts.FS.Rename(w.path(), d.blockPath(w.id)); err != nil {
		if gone := w.container.ended(); gone != nil {
			return gone
		}
		return d.ioError("replace its file", err, w.id)
	}
	w.named = true
	if err := d.syncFolder(d.containerPath(w.id.Container)); err != nil {
		return d.ioError("sync its folder", err, w.id)
	}
	return nil
}

// planRepair takes the mark away, and stores the checksums that were given if they are others.
func (w *Writer) planRepair(b *batch, changed bool) (func(), error) {
	c := w.container
	if err := w.usable(); err != nil {
		return nil, err
	}
	if err := c.ended(); err != nil {
		return nil, err
	}
	r, err := record(b.b, w.id)
	if err != nil {
		return nil, err
	}
	if changed {
		b.setChunks(w.id, 0, r.length, w.sums)
	}
	r.damaged = false
	b.set(blockKey(w.id), appendBlock(nil, r))
	return func() {
		c.epoch.Add(1) // before the mark goes: who reads it from now on opens the new file
		c.disk.store.cache.drop(w.id)
		c.marked(w.id.LocalID, false)
		c.disk.store.counts.repaired.Add(1)
	}, nil
}

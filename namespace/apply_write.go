package namespace

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fs/muster"
)

// startFile makes an empty file that its holder writes.
func (tx *txn) startFile(c *muster.StartFile) (uint64, error) {
	if err := checkStart(c); err != nil {
		return 0, err
	}
	f := newFile{path: c.Path, owners: owners{c.Owner, c.Group}, mtime: c.MTime, parents: c.Parents, overwrite: c.Overwrite && c.Target == "", started: true}
	r := muster.Row{
		Kind: muster.File, Mode: c.Mode, ATime: tx.meta.stamp,
		Replication: c.Replication, BlockSize: c.BlockSize, Flags: muster.FlagWriting,
	}
	id, err := tx.makeFile(&f, &r, blockList{})
	if err != nil {
		return 0, err
	}
	if c.Target != "" {
		if err := tx.mayBecome(c.Target, c.Overwrite); err != nil {
			return 0, err
		}
	}
	if rec, ok := tx.records.get(id); ok {
		tx.reach = rec.parent // the walk came by there
	}
	tx.setWriting(&Writing{File: id, Holder: c.Holder, User: tx.who.User, Since: tx.meta.stamp, Temporary: c.Target != ""})
	tx.meta.writing++
	return id, nil
}

// mayBecome says whether a file could be renamed to a path now.
func (tx *txn) mayBecome(path string, overwrite bool) error {
	dir, name, err := tx.place(path, nil)
	if err != nil {
		return err
	}
	var old muster.Row
	_, exists, err := tx.lookup(dir, name, &old)
	switch {
	case err != nil:
		return err
	case !exists:
		return tx.mayChange(dir)
	case !overwrite:
		return muster.ErrExists
	case old.Kind == muster.Directory:
		return muster.ErrIsDirectory
	}
	return tx.mayRemove(dir, name, &old)
}

// checkStart checks what does not depend on the tree.
func checkStart(c *muster.StartFile) error {
	switch {
	case !c.Replication.Valid() || c.Replication == 0:
		return fmt.Errorf("%w: replication %#04x", muster.ErrInvalid, uint16(c.Replication))
	case c.BlockSize < muster.MinBlockSize || c.BlockSize > muster.MaxBlockSize:
		return fmt.Errorf("%w: block size %d; from %d to %d", muster.ErrInvalid, c.BlockSize, muster.MinBlockSize, muster.MaxBlockSize)
	}
	if err := checkMode(c.Mode); err != nil {
		return err
	}
	return checkHolder(&c.Holder)
}

func checkHolder(h *muster.Holder) error {
	if *h == (muster.Holder{}) {
		return fmt.Errorf("%w: nobody is to write the file: its holder is zero", muster.ErrInvalid)
	}
	return nil
}

// addBlock appends a block. It reads and writes the last chunk of the block list at most, and the
// one before if it begins a chunk.
func (tx *txn) addBlock(c *muster.AddBlock) (uint64, error) {
	if !isBlock(muster.BlockID{Container: c.Block.Container, LocalID: c.Block.LocalID}) || c.Block.Length != 0 {
		return 0, fmt.Errorf("%w: block %d/%d of length %d; a new block has a container, a local id and no length yet",
			muster.ErrInvalid, c.Block.Container, c.Block.LocalID, c.Block.Length)
	}
	var f written
	if err := tx.openWritten(c.File, &c.Holder, &f); err != nil {
		return 0, err
	}
	if err := tx.endBlock(&f, c.Ends, c.Previous); err != nil {
		return 0, err
	}
	if f.blocks.count >= muster.MaxBlocks {
		return 0, fmt.Errorf("%w: the file has %d blocks, the most there may be", muster.ErrLimit, f.blocks.count)
	}
	if f.full() {
		tx.setPart(&f)
		f.chunk, f.part = f.chunk+1, f.part[:0]
	}
	f.part = appendBlocks(f.part, []muster.Block{c.Block})
	f.blocks.count++
	return f.row.ID, tx.saveWritten(&f)
}

// finishFile ends the writing of a file.
func (tx *txn) finishFile(c *muster.FinishFile) (uint64, error) {
	var f written
	if err := tx.openWritten(c.File, &c.Holder, &f); err != nil {
		return 0, err
	}
	if err := tx.endBlock(&f, c.Ends, c.Last); err != nil {
		return 0, err
	}
	f.row.Flags &^= muster.FlagWriting
	f.row.MTime = tx.stampOr(c.MTime)
	tx.endWriting(f.row.ID)
	return f.row.ID, tx.saveWritten(&f)
}

// takeLease gives a file to another holder. Who started it, and when, stays.
func (tx *txn) takeLease(c *muster.TakeLease) (uint64, error) {
	if err := checkHolder(&c.Holder); err != nil {
		return 0, err
	}
	var f written
	if err := tx.openWritten(c.File, &c.From, &f); err != nil {
		return 0, err
	}
	f.writing.Holder = c.Holder
	tx.setWriting(&f.writing)
	return f.row.ID, nil
}

// written is a file that is being written, as a command finds and changes it.
type written struct {
	writing   Writing
	parent    uint64
	parentRec record
	name      string
	row       muster.Row
	blocks    blockList
	chunk     int    // in which the last block is; -1: in the row
	part      []byte // the blocks of that chunk, or of the row, to be changed
}

// openWritten finds the file of a command that may be given only by who writes it.
func (tx *txn) openWritten(file uint64, holder *muster.Holder, f *written) (err error) {
	if file == 0 {
		file = tx.made
	}
	if file == 0 {
		return fmt.Errorf("%w: neither it nor a command before it names a file", muster.ErrInvalid)
	}
	if err := tx.findWritten(file, f); err != nil {
		return err
	}
	if f.writing, err = tx.writing(file); err != nil {
		return err
	}
	switch w := &f.writing; {
	case w.Holder != *holder:
		return fmt.Errorf("%w: it is being written by another client, of user %q, since %s", muster.ErrExists, w.User, sinceText(w.Since))
	case w.User != tx.who.User && !tx.who.super:
		return fmt.Errorf("%w: user %q started to write it, not user %q", muster.ErrPermission, w.User, tx.who.User)
	}
	return nil
}

// findWritten finds a file that is being written, by its id.
func (tx *txn) findWritten(file uint64, f *written) error {
	rec, ok, err := tx.findRecord(file)
	if err != nil {
		return err
	}
	if !ok || rec.kind != muster.File {
		return fmt.Errorf("%w: inode %d is no file, or not any more", muster.ErrNotFound, file)
	}
	f.parent, f.name = rec.parent, string(rec.name)
	if f.parentRec, ok, err = tx.attached(rec.parent); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: a directory above inode %d was deleted", muster.ErrNotFound, file)
	}
	v, err := tx.child(f.parent, f.name)
	if err != nil {
		return err
	}
	if v == nil {
		return corrupt("inode %d has no row", file)
	}
	if f.blocks, err = decodeRow(v, &f.row); err != nil {
		return err
	}
	switch {
	case f.row.ID != file:
		return corrupt("the row of inode %d is that of %d", file, f.row.ID)
	case f.row.Flags&muster.FlagWriting == 0:
		return fmt.Errorf("%w: inode %d is not being written", muster.ErrNotFound, file)
	}
	return nil
}

// attached returns the record of a directory; ok is false if it is, or is in, one that was deleted.
func (tx *txn) attached(dir uint64) (rec record, ok bool, err error) {
	if rec, err = tx.record(dir); err != nil {
		return rec, false, err
	}
	up := rec
	for at, steps := dir, uint64(0); at != rootID && at != tx.reach; steps++ {
		switch at = up.parent; {
		case at == 0:
			return rec, false, nil
		case steps > tx.meta.inodes:
			return rec, false, corrupt("directory %d does not lead to the root", dir)
		case at == rootID || at == tx.reach:
		default:
			if up, err = tx.record(at); err != nil {
				return rec, false, err
			}
		}
	}
	tx.reach = dir
	return rec, true, nil
}

// loadPart reads the blocks that the last one is among, to be changed.
func (tx *txn) loadPart(f *written) error {
	f.chunk = f.blocks.chunks() - 1
	if f.chunk < 0 {
		f.part = append(tx.blocks[:0], f.blocks.inline...)
		return nil
	}
	tx.key = appendChunkKey(tx.key[:0], f.row.ID, f.chunk)
	v, err := tx.get(tx.key)
	if err != nil {
		return err
	}
	if err := checkChunk(v, f.blocks.chunkLen(f.chunk)); err != nil {
		return fmt.Errorf("chunk %d of file %d: %w", f.chunk, f.row.ID, err)
	}
	f.part = append(tx.blocks[:0], v[1:]...)
	return nil
}

// endBlock loads the part with the last block, which is to be the given one if that is not zero,
// and gives it its final length; one of no data is taken from the list.
func (tx *txn) endBlock(f *written, id muster.BlockID, length int64) error {
	switch {
	case length < 0 || length > f.row.BlockSize:
		return fmt.Errorf("%w: a block of %d bytes; at most %d, the file's block size", muster.ErrInvalid, length, f.row.BlockSize)
	case length > 0 && f.blocks.count == 0:
		return fmt.Errorf("%w: a length of %d, and the file has no block yet", muster.ErrInvalid, length)
	}
	if err := tx.loadPart(f); err != nil {
		return err
	}
	if err := f.checkEnd(id); err != nil || f.blocks.count == 0 {
		return err
	}
	last := len(f.part) - blockSize
	if length == 0 {
		tx.queueBlocks(f.part[last:])
		f.part = f.part[:last]
		f.blocks.count--
		return nil
	}
	binary.LittleEndian.PutUint64(f.part[last+16:], uint64(length))
	f.row.Length += length
	return nil
}

// checkEnd refuses a block that is said to be the file's last one and is not. The part is loaded.
func (f *written) checkEnd(id muster.BlockID) error {
	if id == (muster.BlockID{}) {
		return nil
	}
	if f.blocks.count == 0 {
		return fmt.Errorf("%w: block %v is not the last one: the file has none", muster.ErrChanged, id)
	}
	last := f.part[len(f.part)-blockSize:]
	if is := (muster.BlockID{Container: binary.LittleEndian.Uint64(last), LocalID: binary.LittleEndian.Uint64(last[8:])}); is != id {
		return fmt.Errorf("%w: block %v is not the file's last one, which is %v", muster.ErrChanged, id, is)
	}
	return nil
}

// full says whether no block goes into the part any more.
func (f *written) full() bool {
	if f.chunk < 0 {
		return len(f.part) == inlineBlocks*blockSize
	}
	return len(f.part) == chunkBlocks*blockSize
}

// setPart writes the part: a chunk, or what is to be in the row. What is left of it may be used again.
func (tx *txn) setPart(f *written) {
	if f.chunk < 0 {
		f.blocks.inline = tx.arena.copy(f.part)
		return
	}
	tx.key = appendChunkKey(tx.key[:0], f.row.ID, f.chunk)
	if len(f.part) == 0 {
		tx.set(tx.key, nil)
		return
	}
	tx.value = append(append(tx.value[:0], chunkVersion), f.part...)
	tx.set(tx.key, tx.value)
}

// saveWritten writes the part and the row.
func (tx *txn) saveWritten(f *written) error {
	tx.setPart(f)
	tx.blocks = f.part[:0]
	tx.setRow(f.parent, f.name, &f.row, f.blocks)
	tx.walk.changed(&f.row)
	return tx.change(f.parent, &f.parentRec, entryDelta{})
}

// writing returns who writes a file.
func (tx *txn) writing(file uint64) (Writing, error) {
	tx.key = appendIDKey(tx.key[:0], tagWriting, file)
	v, err := tx.get(tx.key)
	if err != nil {
		return Writing{}, err
	}
	return decodeWriting(v, file)
}

func (tx *txn) setWriting(w *Writing) {
	tx.key = appendIDKey(tx.key[:0], tagWriting, w.File)
	tx.value = appendWriting(tx.value[:0], w)
	tx.set(tx.key, tx.value)
}

// endWriting forgets who writes a file.
func (tx *txn) endWriting(file uint64) {
	tx.key = appendIDKey(tx.key[:0], tagWriting, file)
	tx.set(tx.key, nil)
	if tx.meta.writing > 0 { // it is, but in a damaged store, which must open still
		tx.meta.writing--
	}
}

package namespace

import "github.com/muster-fs/muster"

// This file checks the keys of files being written and of blocks to be deleted.

// deletes checks the keys of blocks to be deleted; that no file has one is checked with the rows.
func (c *checker) deletes() error {
	return c.each(tagDelete, func(key, value []byte) error {
		c.seen.deletes++
		if _, ok := splitDeleteKey(key); !ok {
			return damaged(corrupt("bad key of a block to be deleted"))
		}
		return damaged(decodeDelete(value))
	})
}

// notDeleted checks that no block of a file, those in c.blocks, is to be deleted.
func (c *checker) notDeleted(parent uint64, name string, file uint64) error {
	if c.seen.deletes == 0 {
		return nil
	}
	for _, b := range c.blocks {
		id := muster.BlockID{Container: b.Container, LocalID: b.LocalID}
		if !isBlock(id) {
			continue
		}
		v, err := c.snap.get(appendDeleteKey(nil, id))
		if err != nil {
			return err
		}
		if v != nil {
			return c.problem(ProblemDelete, file, muster.JoinPath(c.path(parent), name), "block %v of file %d is to be deleted", id, file)
		}
	}
	return nil
}

// isWritten checks that it is known who writes a file.
func (c *checker) isWritten(parent uint64, name string, file uint64) error {
	v, err := c.snap.get(appendIDKey(nil, tagWriting, file))
	if err == nil && v == nil {
		err = c.problem(ProblemWriting, file, muster.JoinPath(c.path(parent), name), "file %d is being written, and it is not known by whom", file)
	}
	return err
}

// writings checks that what is said to be written is.
func (c *checker) writings() error {
	return c.each(tagWriting, func(key, value []byte) error {
		c.seen.writings++
		id, _, ok := splitIDKey(key, 0)
		if !ok {
			return damaged(corrupt("bad key of a file being written"))
		}
		w, err := decodeWriting(value, id)
		if err != nil {
			return damaged(err)
		}
		var rec record
		if ok, err = c.record(id, &rec); err != nil {
			return err
		}
		var r muster.Row
		if ok {
			v, err := c.snap.child(rec.parent, string(rec.name))
			if err != nil {
				return err
			}
			if v != nil {
				_, err = decodeRow(v, &r)
			}
			if v == nil || err != nil {
				return nil // reported with the records, or the rows
			}
		}
		if !ok || r.ID != id || r.Flags&muster.FlagWriting == 0 {
			return c.problem(ProblemWriting, id, "", "inode %d is said to be written by user %q, and is not being written", id, w.User)
		}
		return nil
	})
}

// drops checks that dropped files are gone, and that their chunks are there.
func (c *checker) drops() error {
	return c.each(tagDropped, func(key, value []byte) error {
		c.seen.drops++
		id, _, ok := splitIDKey(key, 0)
		if !ok || id == 0 || id >= c.view.meta.nextID {
			return damaged(corrupt("bad key of a dropped file"))
		}
		d, err := decodeDropped(value)
		if err != nil {
			return damaged(err)
		}
		var rec record
		if ok, err = c.record(id, &rec); err != nil {
			return err
		}
		if ok {
			return c.problem(ProblemDelete, id, "", "the blocks of file %d are to be deleted, and it is there", id)
		}
		for chunk := d.done; chunk < d.chunks(); chunk++ {
			v, err := c.snap.get(appendChunkKey(nil, id, chunk))
			if err != nil {
				return err
			}
			if err := checkChunk(v, blockList{count: d.count}.chunkLen(chunk)); err != nil {
				return c.problem(ProblemBlocks, id, "", "dropped file %d, chunk %d: %v", id, chunk, err)
			}
		}
		return nil
	})
}

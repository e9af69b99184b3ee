package namespace

import (
	"fmt"

	"github.com/muster-fs/muster"
)

// remove takes a child out of its directory. A directory with entries is detached whole, to
// be reclaimed later: that takes the same few writes whatever is below.
func (tx *txn) remove(dir int32, name string, r *muster.Row, b blockList) error {
	if err := tx.mayRemove(dir, name, r); err != nil {
		return err
	}
	parent := tx.walk.nodes[dir].id
	d := entryDelta{entries: -1}
	if r.Kind == muster.Directory {
		d.dirs = -1
	}
	if err := tx.touch(parent, d); err != nil {
		return err
	}
	tx.walk.changed(r)
	tx.deleteRow(parent, name)
	if r.Kind != muster.Directory {
		tx.drop(r, b)
		return nil
	}
	rec, err := tx.record(r.ID)
	if err != nil {
		return err
	}
	if rec.entries == 0 {
		tx.drop(r, b)
		return nil
	}
	tx.detach(r.ID, &rec)
	return nil
}

// drop deletes what lies under an inode's id. Its blocks enter the queue of those to be deleted;
// the janitor moves there what of them is in chunks, so that deleting a file takes few writes
// however long its list is.
func (tx *txn) drop(r *muster.Row, b blockList) {
	tx.deleteRecord(r.ID)
	tx.meta.inodes--
	if r.Flags&muster.FlagWriting != 0 {
		tx.endWriting(r.ID)
	}
	tx.queueBlocks(b.inline)
	if b.chunks() > 0 {
		tx.setDropped(r.ID, dropped{count: b.count})
		tx.meta.dropped++
	}
}

// detach makes a directory the root of a tree to be reclaimed.
func (tx *txn) detach(id uint64, rec *record) {
	rec.parent, rec.name, rec.recordAt = 0, nil, tx.meta.txid
	tx.reach = 0
	tx.setRecord(id, rec)
	tx.key = appendIDKey(tx.key[:0], tagQueue, id)
	tx.value = appendQueue(tx.value[:0], nil)
	tx.set(tx.key, tx.value)
	tx.meta.detached++
}

// mayRemove checks that the caller may remove or rename a child of a directory.
func (tx *txn) mayRemove(dir int32, name string, r *muster.Row) error {
	if err := tx.mayChange(dir); err != nil {
		return err
	}
	var parent muster.Row
	if _, err := decodeRow(tx.walk.nodes[dir].row, &parent); err != nil {
		return err
	}
	if tx.who.sticky(&parent, r) {
		path := tx.walk.nodePath(dir)
		return fmt.Errorf("%w: %s is sticky, and user %q owns neither it nor %q in it", muster.ErrPermission, path, tx.who.User, name)
	}
	return nil
}

// delete removes an entry, not following a link. Of a tree it checks the top only.
func (tx *txn) delete(c *muster.Delete) (uint64, error) {
	path := c.Path
	if c.File != 0 {
		var err error
		if path, err = tx.pathOf(c.File); err != nil {
			return 0, err
		}
	}
	dir, name, err := tx.place(path, nil)
	if err != nil {
		return 0, err
	}
	var r muster.Row
	b, err := tx.existing(dir, name, &r)
	if err != nil {
		return 0, err
	}
	if r.Kind == muster.Directory && !c.Recursive {
		if err := tx.mayRemove(dir, name, &r); err != nil {
			return 0, err
		}
		if err := tx.mustBeEmpty(r.ID); err != nil {
			return 0, err
		}
	}
	return r.ID, tx.remove(dir, name, &r, b)
}

func (tx *txn) mustBeEmpty(dir uint64) error {
	rec, err := tx.record(dir)
	if err == nil && rec.entries > 0 {
		err = muster.ErrNotEmpty
	}
	return err
}

// rename moves an entry, following no link in last place.
func (tx *txn) rename(c *muster.Rename) (uint64, error) {
	path := c.From
	if c.File != 0 {
		var err error
		if path, err = tx.pathOf(c.File); err != nil {
			return 0, err
		}
	}
	from, name, err := tx.place(path, nil)
	if err != nil {
		return 0, err
	}
	var r, old muster.Row
	b, err := tx.existing(from, name, &r)
	if err != nil {
		return 0, err
	}
	source := tx.walk.nodes[from].id
	if err := tx.mayRemove(from, name, &r); err != nil {
		return 0, err
	}
	to, newName, err := tx.place(c.To, nil)
	if err != nil {
		return 0, fmt.Errorf("to %s: %w", c.To, err)
	}
	target := tx.walk.nodes[to].id
	oldBlocks, exists, err := tx.lookup(to, newName, &old)
	switch {
	case err != nil:
		return 0, err
	case r.Kind == muster.Directory && tx.walk.within(to, r.ID):
		return 0, fmt.Errorf("%w: %s is in the directory to be moved", muster.ErrInvalid, c.To)
	case exists && !c.Overwrite:
		return 0, fmt.Errorf("to %s: %w", c.To, muster.ErrExists)
	case newName == "":
		return 0, fmt.Errorf("%w: nothing replaces the root", muster.ErrInvalid)
	case exists && old.ID == r.ID:
		return r.ID, nil
	}
	if exists {
		err = tx.replace(to, newName, r.Kind, &old, oldBlocks)
	} else {
		err = tx.mayChange(to)
	}
	if err != nil {
		return 0, fmt.Errorf("to %s: %w", c.To, err)
	}
	return r.ID, tx.move(source, target, name, newName, &r, b)
}

// existing is lookup where there must be something to take away.
func (tx *txn) existing(dir int32, name string, r *muster.Row) (blockList, error) {
	if name == "" {
		return blockList{}, fmt.Errorf("%w: the root stays where it is", muster.ErrInvalid)
	}
	b, ok, err := tx.lookup(dir, name, r)
	if err == nil && !ok {
		err = muster.ErrNotFound
	}
	return b, err
}

// replace removes what is at the place of a rename's target.
func (tx *txn) replace(dir int32, name string, kind muster.Kind, old *muster.Row, b blockList) error {
	if err := tx.mayRemove(dir, name, old); err != nil {
		return err
	}
	switch {
	case kind != muster.Directory && old.Kind == muster.Directory:
		return muster.ErrIsDirectory
	case kind == muster.Directory && old.Kind != muster.Directory:
		return muster.ErrNotDirectory
	case kind == muster.Directory:
		if err := tx.mustBeEmpty(old.ID); err != nil {
			return err
		}
	}
	return tx.remove(dir, name, old, b)
}

// move takes a row from one place to another.
func (tx *txn) move(from, to uint64, name, newName string, r *muster.Row, b blockList) error {
	d := entryDelta{entries: 1}
	if r.Kind == muster.Directory {
		d.dirs = 1
	}
	if err := tx.touch(from, entryDelta{-d.entries, -d.dirs}); err != nil {
		return err
	}
	if err := tx.touch(to, d); err != nil {
		return err
	}
	rec, err := tx.record(r.ID)
	if err != nil {
		return err
	}
	rec.parent, rec.name = to, []byte(newName)
	if rec.kind == muster.Directory {
		rec.recordAt = tx.meta.txid
	}
	tx.setRecord(r.ID, &rec)
	tx.deleteRow(from, name)
	tx.setRow(to, newName, r, b)
	tx.walk.changed(r)
	return nil
}

// setAttr changes attributes. Mode and owners are the owner's to change, a new owner the
// superuser's; times are also for who may write a file.
func (tx *txn) setAttr(c *muster.SetAttr) (uint64, error) {
	if err := checkSetAttr(c); err != nil {
		return 0, err
	}
	f, err := tx.walk.resolve(c.Path, true)
	if err != nil {
		return 0, err
	}
	var r muster.Row
	b, err := decodeRow(f.row, &r)
	if err != nil {
		return 0, err
	}
	if err := tx.maySetAttr(c, &r); err != nil {
		return 0, err
	}
	row := c.Mode != nil || c.Owner != nil || c.Group != nil || c.ATime != nil
	if c.Mode != nil {
		r.Mode = *c.Mode
	}
	if c.Owner != nil {
		r.Owner = []byte(*c.Owner)
	}
	if c.Group != nil {
		r.Group = []byte(*c.Group)
	}
	if c.ATime != nil {
		r.ATime = *c.ATime
	}
	if c.MTime != nil {
		if r.Kind == muster.Directory {
			if err := tx.setDirectoryTime(r.ID, *c.MTime); err != nil {
				return 0, err
			}
		} else {
			r.MTime, row = *c.MTime, true
		}
	}
	if row {
		err = tx.replaceRow(tx.walk.parentID(f), f.name, &r, b)
	}
	return r.ID, err
}

// checkSetAttr checks what does not depend on the tree.
func checkSetAttr(c *muster.SetAttr) error {
	if c.Mode != nil {
		if err := checkMode(*c.Mode); err != nil {
			return err
		}
	}
	if c.Owner != nil {
		if err := checkOwner("owner", *c.Owner); err != nil {
			return err
		}
	}
	if c.Group != nil {
		return checkOwner("group", *c.Group)
	}
	return nil
}

func (tx *txn) maySetAttr(c *muster.SetAttr, r *muster.Row) error {
	owns := tx.who.super || tx.who.owns(r)
	if !owns && (c.Mode != nil || c.Owner != nil || c.Group != nil) {
		return fmt.Errorf("%w: user %q is not the owner, %q", muster.ErrPermission, tx.who.User, r.Owner)
	}
	if c.Owner != nil {
		if err := tx.mayGive(*c.Owner); err != nil {
			return err
		}
	}
	if c.Group != nil {
		if err := tx.mayGroup(*c.Group); err != nil {
			return err
		}
	}
	times := c.MTime != nil || c.ATime != nil
	if times && !owns && (r.Kind != muster.File || tx.who.access(r)&mayWrite == 0) {
		return fmt.Errorf("%w: user %q is not the owner, %q, and may not write it", muster.ErrPermission, tx.who.User, r.Owner)
	}
	return nil
}

func (tx *txn) setDirectoryTime(id uint64, mtime int64) error {
	rec, err := tx.record(id)
	if err != nil {
		return err
	}
	rec.mtime, rec.recordAt = mtime, tx.meta.txid
	tx.setRecord(id, &rec)
	return nil
}

// replaceRow writes a changed row; its directory's mtime stays.
func (tx *txn) replaceRow(parent uint64, name string, r *muster.Row, b blockList) error {
	tx.setRow(parent, name, r, b)
	tx.walk.changed(r)
	if parent == 0 {
		return nil
	}
	rec, err := tx.record(parent)
	if err != nil {
		return err
	}
	return tx.change(parent, &rec, entryDelta{})
}

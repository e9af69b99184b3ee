package namespace

import (
	"errors"
	"fmt"

	"github.com/muster-fs/muster"
)

// ancestry says how to make the missing ancestors of a new entry.
type ancestry struct {
	mode uint16
	owners
}

// place walks to the directory that holds, or would hold, the last name of a path. The root
// has no name, and is its own directory. Missing ancestors are made as missing says, unless it
// is nil.
func (tx *txn) place(path string, missing *ancestry) (dir int32, name string, err error) {
	clean, err := muster.CleanPath(path)
	if err != nil {
		return 0, "", err
	}
	parent, name := muster.SplitPath(clean)
	f, err := tx.walk.resolve(parent, true)
	if missing != nil && errors.Is(err, muster.ErrNotFound) {
		if err := tx.makeAncestor(parent, missing); err != nil {
			return 0, "", err
		}
		f, err = tx.walk.resolve(parent, true)
	}
	switch {
	case err == muster.ErrNotFound:
		return 0, "", fmt.Errorf("%w: %s", muster.ErrNotFound, parent)
	case err != nil:
		return 0, "", err
	case f.node < 0:
		return 0, "", fmt.Errorf("%w: %s", muster.ErrNotDirectory, parent)
	}
	if name == "" {
		return f.node, "", nil
	}
	return f.node, name, tx.walk.mayPass(f.node)
}

// makeAncestor makes a directory that is missing above a new entry.
func (tx *txn) makeAncestor(path string, missing *ancestry) error {
	dir, name, err := tx.place(path, missing)
	if err != nil {
		return err
	}
	if err := tx.vacant(dir, name); err != nil {
		return fmt.Errorf("%w: %s", err, path)
	}
	if _, err = tx.makeDirectory(dir, name, &muster.Mkdir{Mode: missing.mode, Owner: missing.user, Group: missing.group}); err != nil {
		err = fmt.Errorf("%w: %s", err, path)
	}
	return err
}

// lookup decodes what is at a place into r.
func (tx *txn) lookup(dir int32, name string, r *muster.Row) (b blockList, ok bool, err error) {
	if name == "" {
		b, err = decodeRow(tx.walk.nodes[dir].row, r)
		return b, true, err
	}
	v, err := tx.child(tx.walk.nodes[dir].id, name)
	if err != nil || v == nil {
		return b, false, err
	}
	b, err = decodeRow(v, r)
	return b, true, err
}

// vacant checks that there is nothing at a place yet.
func (tx *txn) vacant(dir int32, name string) error {
	_, ok, err := tx.lookup(dir, name, &tx.row)
	if err == nil && ok {
		err = muster.ErrExists
	}
	return err
}

// mayChange checks that the caller may add and remove entries of a directory.
func (tx *txn) mayChange(dir int32) error {
	if tx.walk.nodes[dir].access&(mayWrite|mayExecute) == mayWrite|mayExecute {
		return nil
	}
	return tx.walk.denied("write and execute", dir)
}

// owners are who a new entry belongs to.
type owners struct{ user, group string }

// setOwners checks who a new entry in a directory shall belong to, and enters it in its row; "" is
// the caller, or the directory's group.
func (tx *txn) setOwners(dir int32, o owners, r *muster.Row) error {
	var parent muster.Row
	if _, err := decodeRow(tx.walk.nodes[dir].row, &parent); err != nil {
		return err
	}
	if o.user == "" {
		o.user = tx.who.User
	} else if err := tx.mayGive(o.user); err != nil {
		return err
	}
	tx.names = append(append(tx.names[:0], o.user...), o.group...)
	r.Owner, r.Group = tx.names[:len(o.user):len(o.user)], tx.names[len(o.user):]
	if o.group == "" || o.group == string(parent.Group) {
		r.Group = parent.Group
		return nil
	}
	return tx.mayGroup(o.group)
}

// mayGive checks that the caller may make user the owner of an entry of the caller's.
func (tx *txn) mayGive(user string) error {
	if err := checkOwner("owner", user); err != nil {
		return err
	}
	if user != tx.who.User && !tx.who.super {
		return fmt.Errorf("%w: only the superuser may make %q an owner, not user %q", muster.ErrPermission, user, tx.who.User)
	}
	return nil
}

// mayGroup checks that the caller may give an entry of the caller's to group.
func (tx *txn) mayGroup(group string) error {
	if err := checkOwner("group", group); err != nil {
		return err
	}
	if !tx.who.super && !tx.who.In(group) {
		return fmt.Errorf("%w: user %q is not in group %q", muster.ErrPermission, tx.who.User, group)
	}
	return nil
}

// insert adds a new inode to a directory. It fills in the row's id and owners.
func (tx *txn) insert(dir int32, name string, o owners, r *muster.Row, b blockList, mtime int64) (uint64, error) {
	if err := tx.mayChange(dir); err != nil {
		return 0, err
	}
	if err := tx.setOwners(dir, o, r); err != nil {
		return 0, err
	}
	r.ID = tx.meta.nextID
	rec := record{kind: r.Kind, parent: tx.walk.nodes[dir].id, name: tx.arena.text(name)}
	entries := entryDelta{entries: 1}
	if r.Kind == muster.Directory {
		rec.mtime, rec.changedAt, rec.recordAt = mtime, tx.meta.txid, tx.meta.txid
		entries.dirs = 1
	} else {
		r.MTime = mtime
	}
	if err := tx.touch(rec.parent, entries); err != nil {
		return 0, err
	}
	tx.meta.nextID++
	tx.meta.inodes++
	tx.setRow(rec.parent, name, r, b)
	tx.setRecord(r.ID, &rec)
	return r.ID, nil
}

// entryDelta is by how much a directory's counts change.
type entryDelta struct{ entries, dirs int }

// touch enters a change to a directory's children in its record: they were added, removed
// or renamed, which is a new mtime too.
func (tx *txn) touch(dir uint64, d entryDelta) error {
	rec, err := tx.record(dir)
	if err != nil {
		return err
	}
	rec.mtime = tx.meta.stamp
	return tx.change(dir, &rec, d)
}

// change writes a directory's record after its children's rows changed.
func (tx *txn) change(dir uint64, rec *record, d entryDelta) error {
	entries, dirs := int64(rec.entries)+int64(d.entries), int64(rec.dirs)+int64(d.dirs)
	if rec.kind != muster.Directory || entries < 0 || dirs < 0 || dirs > entries {
		return corrupt("record of directory %d: %d entries, %d directories", dir, entries, dirs)
	}
	rec.entries, rec.dirs = uint64(entries), uint64(dirs)
	rec.changedAt, rec.recordAt = tx.meta.txid, tx.meta.txid
	tx.setRecord(dir, rec)
	return nil
}

func checkMode(mode uint16) error {
	if mode&^muster.ModeMask != 0 {
		return fmt.Errorf("%w: mode %#o; at most %#o", muster.ErrInvalid, mode, muster.ModeMask)
	}
	return nil
}

// stampOr is a given time, or else that of the command.
func (tx *txn) stampOr(t *int64) int64 {
	if t != nil {
		return *t
	}
	return tx.meta.stamp
}

// mkdir makes a directory. With Parents, missing ones are made with the same mode but for
// u+wx and no sticky bit, and a directory that exists is fine, reached through a link too.
func (tx *txn) mkdir(c *muster.Mkdir) (uint64, error) {
	if err := checkMode(c.Mode); err != nil {
		return 0, err
	}
	var missing *ancestry
	if c.Parents {
		missing = &ancestry{c.Mode&^muster.ModeSticky | 0o300, owners{c.Owner, c.Group}}
	}
	dir, name, err := tx.place(c.Path, missing)
	if err != nil {
		return 0, err
	}
	_, ok, err := tx.lookup(dir, name, &tx.row)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return tx.makeDirectory(dir, name, c)
	case !c.Parents || tx.row.Kind == muster.File:
		return 0, muster.ErrExists
	case tx.row.Kind == muster.Directory:
		return tx.row.ID, nil
	}
	f, err := tx.walk.resolve(c.Path, true)
	switch {
	case err == nil && f.node >= 0:
		return tx.walk.nodes[f.node].id, nil
	case err == nil || errors.Is(err, muster.ErrNotFound):
		return 0, muster.ErrExists
	}
	return 0, err
}

// makeDirectory makes a directory at a place where there is nothing yet.
func (tx *txn) makeDirectory(dir int32, name string, c *muster.Mkdir) (uint64, error) {
	r := muster.Row{Kind: muster.Directory, Mode: c.Mode, ATime: tx.meta.stamp}
	return tx.insert(dir, name, owners{c.Owner, c.Group}, &r, blockList{}, tx.stampOr(c.MTime))
}

// create makes a file. Overwrite replaces an existing file, or link (itself, not what it
// names), by a new inode.
func (tx *txn) create(c *muster.Create) (uint64, error) {
	if err := checkCreate(c); err != nil {
		return 0, err
	}
	if len(c.Blocks) > 0 && !tx.who.super {
		return 0, fmt.Errorf("%w: only the superuser may say which blocks a file has, not user %q: they could be another file's", muster.ErrPermission, tx.who.User)
	}
	f := newFile{path: c.Path, owners: owners{c.Owner, c.Group}, mtime: c.MTime, parents: c.Parents, overwrite: c.Overwrite}
	r := muster.Row{
		Kind: muster.File, Mode: c.Mode, ATime: tx.stampOr(c.ATime),
		Length: c.Length, Replication: c.Replication, BlockSize: c.BlockSize,
	}
	tx.blocks = appendBlocks(tx.blocks[:0], c.Blocks[:min(len(c.Blocks), inlineBlocks)])
	b := blockList{len(c.Blocks), tx.blocks}
	id, err := tx.makeFile(&f, &r, b)
	if err == nil {
		tx.setChunks(id, b, c.Blocks)
	}
	return id, err
}

// newFile is where a file is to be made, and how.
type newFile struct {
	path      string
	owners    owners
	mtime     *int64
	parents   bool
	overwrite bool
	started   bool // it is to be written: then nobody may be writing what it replaces
}

func (tx *txn) makeFile(f *newFile, r *muster.Row, b blockList) (uint64, error) {
	var missing *ancestry
	if f.parents {
		missing = &ancestry{0o755, f.owners}
	}
	dir, name, err := tx.place(f.path, missing)
	if err != nil {
		return 0, err
	}
	var old muster.Row
	blocks, ok, err := tx.lookup(dir, name, &old)
	if err != nil {
		return 0, err
	}
	if ok {
		if err := tx.mayReplace(f, &old); err != nil {
			return 0, err
		}
		if err := tx.remove(dir, name, &old, blocks); err != nil {
			return 0, err
		}
	}
	return tx.insert(dir, name, f.owners, r, b, tx.stampOr(f.mtime))
}

// mayReplace says whether what is at the path of a new file may be replaced by it.
func (tx *txn) mayReplace(f *newFile, old *muster.Row) error {
	switch {
	case f.started && old.Flags&muster.FlagWriting != 0:
		w, err := tx.writing(old.ID)
		if err == nil {
			err = fmt.Errorf("%w: it is being written by user %q since %s", muster.ErrExists, w.User, sinceText(w.Since))
		}
		return err
	case !f.overwrite:
		return muster.ErrExists
	case old.Kind == muster.Directory:
		return muster.ErrIsDirectory
	}
	return nil
}

// setChunks writes the blocks past those in the row.
func (tx *txn) setChunks(file uint64, b blockList, blocks []muster.Block) {
	for chunk := range b.chunks() {
		from := inlineBlocks + chunk*chunkBlocks
		tx.key = appendChunkKey(tx.key[:0], file, chunk)
		tx.value = appendChunk(tx.value[:0], blocks[from:from+b.chunkLen(chunk)])
		tx.set(tx.key, tx.value)
	}
}

// checkCreate checks what does not depend on the tree.
func checkCreate(c *muster.Create) error {
	if err := checkMode(c.Mode); err != nil {
		return err
	}
	switch {
	case c.Length < 0:
		return fmt.Errorf("%w: length %d", muster.ErrInvalid, c.Length)
	case c.BlockSize < 0:
		return fmt.Errorf("%w: block size %d", muster.ErrInvalid, c.BlockSize)
	case !c.Replication.Valid():
		return fmt.Errorf("%w: replication %#04x", muster.ErrInvalid, uint16(c.Replication))
	case len(c.Blocks) > muster.MaxBlocks:
		return fmt.Errorf("%w: %d blocks, at most %d", muster.ErrLimit, len(c.Blocks), muster.MaxBlocks)
	case len(c.Blocks) > 0 && c.Replication == 0:
		return fmt.Errorf("%w: blocks without a replication", muster.ErrInvalid)
	}
	left := c.Length
	for i, b := range c.Blocks {
		if b.Length < 0 || b.Length > left {
			return fmt.Errorf("%w: block %d of length %d passes the file's length %d", muster.ErrInvalid, i, b.Length, c.Length)
		}
		left -= b.Length
	}
	return nil
}

// symlink makes a link.
func (tx *txn) symlink(c *muster.Symlink) (uint64, error) {
	if err := muster.CheckTarget(c.Target); err != nil {
		return 0, err
	}
	dir, name, err := tx.place(c.Path, nil)
	if err != nil {
		return 0, err
	}
	if err := tx.vacant(dir, name); err != nil {
		return 0, err
	}
	r := muster.Row{Kind: muster.Link, Mode: 0o777, ATime: tx.meta.stamp, Target: []byte(c.Target)}
	return tx.insert(dir, name, owners{c.Owner, c.Group}, &r, blockList{}, tx.stampOr(c.MTime))
}

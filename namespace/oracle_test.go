package namespace_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
)

// oracle is the specification of the tree as a naive map, written from the text of
// the specification and not from the code: every rule is one plain statement, nothing
// is fast. It is what the random, crash and concurrency tests compare the tree with.
type oracle struct {
	superuser string
	nodes     map[uint64]*node
	lastID    uint64
	now       int64            // the stamp of the commands being applied, ms
	txid      uint64           // theirs
	last      uint64           // inode of the command before in the batch
	dropped   []muster.BlockID // blocks that files had; only ever appended to
}

// node is one inode of the oracle.
type node struct {
	muster.Entry
	parent    uint64
	children  map[string]uint64 // of a directory
	changedAt uint64            // of a directory: txid of the last change to its children's rows
	writer    *writer           // of a file being written; never changed
}

const rootID = 1

func newOracle(superuser string, created int64) *oracle {
	root := &node{parent: rootID, children: map[string]uint64{}}
	root.Entry = muster.Entry{
		ID: rootID, Kind: muster.Directory, Mode: 0o755, Owner: superuser, Group: muster.Supergroup,
		MTime: created, ATime: created,
	}
	return &oracle{superuser: superuser, nodes: map[uint64]*node{rootID: root}, lastID: rootID}
}

// clone returns a copy that shares nothing which is ever changed.
func (o *oracle) clone() *oracle {
	c := *o
	c.dropped = slices.Clip(o.dropped)
	c.nodes = make(map[uint64]*node, len(o.nodes))
	for id, n := range o.nodes {
		m := *n
		m.children = maps.Clone(n.children)
		c.nodes[id] = &m
	}
	return &c
}

func (o *oracle) root() *node { return o.nodes[rootID] }

// apply applies a batch, all or nothing, and returns the inode id that each command
// made or changed, or the index and the code of the refused command.
func (o *oracle) apply(who muster.Identity, now int64, txid uint64, commands ...muster.Command) (ids []uint64, refused int, code muster.Code) {
	o.last = 0
	return o.more(who, now, txid, commands...)
}

// more goes on with the batch before.
func (o *oracle) more(who muster.Identity, now int64, txid uint64, commands ...muster.Command) (ids []uint64, refused int, code muster.Code) {
	before := o.clone()
	o.now, o.txid = now, txid
	for i, c := range commands {
		id, code := o.one(&who, c)
		if code != muster.OK {
			*o = *before
			return nil, i, code
		}
		ids, o.last = append(ids, id), id
	}
	return ids, 0, muster.OK
}

func (o *oracle) one(who *muster.Identity, c muster.Command) (uint64, muster.Code) {
	switch c := c.(type) {
	case muster.Mkdir:
		return o.mkdir(who, c)
	case muster.Create:
		return o.create(who, c)
	case muster.Symlink:
		return o.symlink(who, c)
	case muster.Rename:
		return o.rename(who, c)
	case muster.Delete:
		return o.delete(who, c)
	case muster.SetAttr:
		return o.setattr(who, c)
	case muster.StartFile:
		return o.startFile(who, c)
	case muster.AddBlock:
		return o.addBlock(who, c)
	case muster.FinishFile:
		return o.finishFile(who, c)
	case muster.TakeLease:
		return o.takeLease(who, c)
	}
	return 0, muster.ErrInvalid
}

// The rights of a mode's three bits.
const (
	read    = 4
	write   = 2
	execute = 1
)

func (o *oracle) super(who *muster.Identity) bool {
	return who.User == o.superuser || who.In(muster.Supergroup)
}

// may says whether the caller has all of the rights on n: by the owner's bits if the
// caller is the owner, else by the group's if a member, else by the others'.
func (o *oracle) may(who *muster.Identity, n *node, rights uint16) bool {
	bits := n.Mode
	switch {
	case o.super(who):
		return true
	case who.User == n.Owner:
		bits >>= 6
	case who.In(n.Group):
		bits >>= 3
	}
	return bits&rights == rights
}

// mayRemove says whether the caller may take n out of dir: write and execute on dir,
// and in a sticky directory n or dir must be the caller's.
func (o *oracle) mayRemove(who *muster.Identity, dir, n *node) bool {
	sticky := dir.Mode&muster.ModeSticky != 0
	return o.may(who, dir, write|execute) &&
		(!sticky || o.super(who) || who.User == dir.Owner || who.User == n.Owner)
}

// walk resolves path as POSIX does: execute on every directory that a name is looked up
// in, also on the way through links and for "." and ".."; a slash at the end of a link's
// target wants a directory. A link in last place is followed if follow is set.
func (o *oracle) walk(who *muster.Identity, from *node, path string, follow bool, hops *int) (*node, muster.Code) {
	at := from
	if strings.HasPrefix(path, "/") {
		at = o.root()
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i, name := range names {
		if at.Kind != muster.Directory {
			return nil, muster.ErrNotDirectory
		}
		if !o.may(who, at, execute) {
			return nil, muster.ErrPermission
		}
		switch name {
		case ".":
			continue
		case "..":
			at = o.nodes[at.parent]
			continue
		}
		child := o.nodes[at.children[name]]
		if child == nil {
			return nil, muster.ErrNotFound
		}
		if child.Kind == muster.Link && (follow || i+1 < len(names)) {
			if *hops++; *hops > muster.MaxLinkHops {
				return nil, muster.ErrLinkLoop
			}
			var code muster.Code
			if child, code = o.walk(who, at, child.Target, true, hops); code != muster.OK {
				return nil, code
			}
		}
		at = child
	}
	if strings.HasSuffix(path, "/") && at.Kind != muster.Directory {
		return nil, muster.ErrNotDirectory
	}
	return at, muster.OK
}

// resolve walks the path of a request.
func (o *oracle) resolve(who *muster.Identity, path string, follow bool) (*node, muster.Code) {
	path, err := muster.CleanPath(path)
	if err != nil {
		return nil, muster.ErrInvalid
	}
	return o.walk(who, o.root(), path, follow, new(int))
}

// place resolves all but the last name of a path, which may or may not exist. The root
// has no place.
func (o *oracle) place(who *muster.Identity, path string) (dir *node, name string, existing *node, code muster.Code) {
	path, err := muster.CleanPath(path)
	if err != nil {
		return nil, "", nil, muster.ErrInvalid
	}
	parent, name := muster.SplitPath(path)
	dir, code = o.walk(who, o.root(), parent, true, new(int))
	switch {
	case code != muster.OK:
		return nil, "", nil, code
	case name == "":
		return dir, "", dir, muster.OK
	case dir.Kind != muster.Directory:
		return nil, "", nil, muster.ErrNotDirectory
	case !o.may(who, dir, execute):
		return nil, "", nil, muster.ErrPermission
	}
	return dir, name, o.nodes[dir.children[name]], muster.OK
}

// list returns the children's names in order, if the caller may list n.
func (o *oracle) list(who *muster.Identity, n *node) ([]string, muster.Code) {
	switch {
	case n.Kind != muster.Directory:
		return nil, muster.ErrNotDirectory
	case !o.may(who, n, read|execute):
		return nil, muster.ErrPermission
	}
	return o.names(n.ID), muster.OK
}

func (o *oracle) names(dir uint64) []string { return slices.Sorted(maps.Keys(o.nodes[dir].children)) }

func (o *oracle) mkdir(who *muster.Identity, c muster.Mkdir) (uint64, muster.Code) {
	if c.Mode&^muster.ModeMask != 0 {
		return 0, muster.ErrInvalid
	}
	if c.Parents {
		n, code := o.resolve(who, c.Path, true)
		switch {
		case code == muster.OK && n.Kind == muster.Directory:
			return n.ID, muster.OK
		case code == muster.OK:
			return 0, muster.ErrExists
		case code != muster.ErrNotFound:
			return 0, code
		}
		// Parents are as HDFS makes them: the mode of what was asked for, passable to their owner.
		if code := o.mkparents(who, c.Path, c.Mode&^muster.ModeSticky|0o300, c.Owner, c.Group); code != muster.OK {
			return 0, code
		}
	}
	e := muster.Entry{Kind: muster.Directory, Mode: c.Mode, MTime: o.at(c.MTime), ATime: o.now}
	return o.add(who, c.Path, e, c.Owner, c.Group)
}

// mkparents makes the missing ancestors of path.
func (o *oracle) mkparents(who *muster.Identity, path string, mode uint16, owner, group string) muster.Code {
	path, err := muster.CleanPath(path)
	if err != nil {
		return muster.ErrInvalid
	}
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if _, code := o.resolve(who, path[:i], true); code == muster.ErrNotFound {
			e := muster.Entry{Kind: muster.Directory, Mode: mode, MTime: o.now, ATime: o.now}
			if _, code := o.add(who, path[:i], e, owner, group); code != muster.OK {
				return code
			}
		} else if code != muster.OK {
			return code
		}
	}
	return muster.OK
}

func (o *oracle) create(who *muster.Identity, c muster.Create) (uint64, muster.Code) {
	if code := valid(c); code != muster.OK {
		return 0, code
	}
	if len(c.Blocks) > 0 && !o.super(who) {
		return 0, muster.ErrPermission
	}
	if c.Parents {
		if code := o.mkparents(who, c.Path, 0o755, c.Owner, c.Group); code != muster.OK {
			return 0, code
		}
	}
	e := muster.Entry{
		Kind: muster.File, Mode: c.Mode, Length: c.Length, Replication: c.Replication, BlockSize: c.BlockSize,
		Blocks: slices.Clone(c.Blocks), MTime: o.at(c.MTime), ATime: o.at(c.ATime),
	}
	dir, name, old, code := o.place(who, c.Path)
	if code == muster.OK && old != nil && c.Overwrite {
		switch {
		case old.Kind == muster.Directory:
			return 0, muster.ErrIsDirectory
		case !o.mayRemove(who, dir, old):
			return 0, muster.ErrPermission
		}
		o.remove(dir, old)
		return o.addAt(who, dir, name, e, c.Owner, c.Group)
	}
	return o.add(who, c.Path, e, c.Owner, c.Group)
}

// valid says whether a file can be like that: its blocks lie within its length, and somewhere.
func valid(c muster.Create) muster.Code {
	sum := int64(0)
	for _, b := range c.Blocks {
		if b.Length < 0 {
			return muster.ErrInvalid
		}
		sum += b.Length
	}
	switch {
	case c.Mode&^muster.ModeMask != 0, c.Length < 0, c.BlockSize < 0, !c.Replication.Valid():
		return muster.ErrInvalid
	case len(c.Blocks) > muster.MaxBlocks:
		return muster.ErrLimit
	case sum > c.Length, len(c.Blocks) > 0 && c.Replication == 0:
		return muster.ErrInvalid
	}
	return muster.OK
}

func (o *oracle) symlink(who *muster.Identity, c muster.Symlink) (uint64, muster.Code) {
	if muster.CheckTarget(c.Target) != nil {
		return 0, muster.ErrInvalid
	}
	e := muster.Entry{Kind: muster.Link, Mode: 0o777, Target: c.Target, MTime: o.at(c.MTime), ATime: o.now}
	return o.add(who, c.Path, e, c.Owner, c.Group)
}

// add makes a new entry where there is none.
func (o *oracle) add(who *muster.Identity, path string, e muster.Entry, owner, group string) (uint64, muster.Code) {
	dir, name, existing, code := o.place(who, path)
	switch {
	case code != muster.OK:
		return 0, code
	case existing != nil:
		return 0, muster.ErrExists
	}
	return o.addAt(who, dir, name, e, owner, group)
}

// addAt makes a new entry: the caller's and of its parent's group, unless told otherwise.
func (o *oracle) addAt(who *muster.Identity, dir *node, name string, e muster.Entry, owner, group string) (uint64, muster.Code) {
	if !o.may(who, dir, write|execute) {
		return 0, muster.ErrPermission
	}
	if group == dir.Group {
		group = "" // what it would be anyway
	}
	e.Name, e.Owner, e.Group = name, who.User, dir.Group
	n := &node{Entry: e, parent: dir.ID}
	if e.Kind == muster.Directory {
		n.children, n.changedAt = map[string]uint64{}, o.txid
	}
	if code := o.chown(who, n, given(owner), given(group)); code != muster.OK {
		return 0, code
	}
	o.lastID++
	n.ID = o.lastID
	o.nodes[n.ID] = n
	dir.children[name] = n.ID
	o.touch(dir)
	return n.ID, muster.OK
}

// given is nil for the empty text.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// chown: only a superuser gives a file away; an owner may give it to a group of theirs.
func (o *oracle) chown(who *muster.Identity, n *node, owner, group *string) muster.Code {
	mine := who.User == n.Owner
	if !o.super(who) && (owner != nil && !(mine && *owner == n.Owner) || group != nil && !(mine && who.In(*group))) {
		return muster.ErrPermission
	}
	if owner != nil {
		n.Owner = *owner
	}
	if group != nil {
		n.Group = *group
	}
	return muster.OK
}

// remove takes n and all below it out of the tree.
func (o *oracle) remove(dir, n *node) {
	delete(dir.children, n.Name)
	o.forget(n)
	o.touch(dir)
}

func (o *oracle) forget(n *node) {
	for _, id := range n.children {
		o.forget(o.nodes[id])
	}
	o.drop(n.Blocks)
	delete(o.nodes, n.ID)
}

// touch notes that dir's entries changed.
func (o *oracle) touch(dir *node) {
	dir.MTime, dir.changedAt = o.now, o.txid
}

func (o *oracle) at(ms *int64) int64 {
	if ms == nil {
		return o.now
	}
	return *ms
}

func (o *oracle) delete(who *muster.Identity, c muster.Delete) (uint64, muster.Code) {
	if c.File != 0 {
		n := o.nodes[c.File]
		if n == nil {
			return 0, muster.ErrNotFound
		}
		c.Path = o.path(n)
	}
	dir, name, n, code := o.place(who, c.Path)
	switch {
	case code != muster.OK:
		return 0, code
	case name == "":
		return 0, muster.ErrInvalid // the root stays
	case n == nil:
		return 0, muster.ErrNotFound
	case !o.mayRemove(who, dir, n):
		return 0, muster.ErrPermission
	case len(n.children) > 0 && !c.Recursive:
		return 0, muster.ErrNotEmpty
	}
	o.remove(dir, n)
	return n.ID, muster.OK
}

func (o *oracle) rename(who *muster.Identity, c muster.Rename) (uint64, muster.Code) {
	if c.File != 0 {
		n := o.nodes[c.File]
		if n == nil {
			return 0, muster.ErrNotFound
		}
		c.From = o.path(n)
	}
	from, name, n, code := o.place(who, c.From)
	switch {
	case code != muster.OK:
		return 0, code
	case name == "":
		return 0, muster.ErrInvalid // the root can't move
	case n == nil:
		return 0, muster.ErrNotFound
	case !o.mayRemove(who, from, n):
		return 0, muster.ErrPermission
	}
	to, name, old, code := o.place(who, c.To)
	switch {
	case code != muster.OK:
		return 0, code
	case o.below(to, n):
		return 0, muster.ErrInvalid
	case old != nil && !c.Overwrite:
		return 0, muster.ErrExists
	case name == "":
		return 0, muster.ErrInvalid // nothing replaces the root
	case old == n:
		return n.ID, muster.OK // as POSIX has it: nothing happens
	case !o.may(who, to, write|execute):
		return 0, muster.ErrPermission
	}
	if old != nil {
		switch {
		case !o.mayRemove(who, to, old):
			return 0, muster.ErrPermission
		case n.Kind != muster.Directory && old.Kind == muster.Directory:
			return 0, muster.ErrIsDirectory
		case n.Kind == muster.Directory && old.Kind != muster.Directory:
			return 0, muster.ErrNotDirectory
		case len(old.children) > 0:
			return 0, muster.ErrNotEmpty
		}
		o.remove(to, old)
	}
	delete(from.children, n.Name)
	n.Name, n.parent = name, to.ID
	to.children[name] = n.ID
	o.touch(from)
	o.touch(to)
	return n.ID, muster.OK
}

// below says whether dir is n or lies somewhere below it.
func (o *oracle) below(dir, n *node) bool {
	for ; dir.ID != rootID; dir = o.nodes[dir.parent] {
		if dir == n {
			return true
		}
	}
	return false
}

func (o *oracle) setattr(who *muster.Identity, c muster.SetAttr) (uint64, muster.Code) {
	if c.Mode != nil && *c.Mode&^muster.ModeMask != 0 {
		return 0, muster.ErrInvalid
	}
	n, code := o.resolve(who, c.Path, true)
	if code != muster.OK {
		return 0, code
	}
	mine := o.super(who) || who.User == n.Owner
	mayTouch := mine || n.Kind == muster.File && o.may(who, n, write)
	if c.Mode != nil && !mine || (c.MTime != nil || c.ATime != nil) && !mayTouch {
		return 0, muster.ErrPermission
	}
	if code := o.chown(who, n, c.Owner, c.Group); code != muster.OK {
		return 0, code
	}
	if c.Mode != nil {
		n.Mode = *c.Mode
	}
	if c.MTime != nil {
		n.MTime = *c.MTime
	}
	if c.ATime != nil {
		n.ATime = *c.ATime
	}
	// A directory's mtime lies in its own record, everything else in its row.
	row := c.Mode != nil || c.Owner != nil || c.Group != nil || c.ATime != nil || c.MTime != nil && n.Kind != muster.Directory
	if row && n.ID != rootID {
		o.nodes[n.parent].changedAt = o.txid
	}
	return n.ID, muster.OK
}

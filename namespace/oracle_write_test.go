package namespace_test

import (
	"slices"

	"github.com/muster-fs/muster"
)

// This file is the oracle's part of writing files: who may, what the lists of blocks become, and
// which blocks no file has any more.

// writer is who writes a file, of the oracle.
type writer struct {
	holder muster.Holder
	user   string
	since  int64 // ms

	temporary bool
}

func (o *oracle) startFile(who *muster.Identity, c muster.StartFile) (uint64, muster.Code) {
	switch {
	case c.Mode&^muster.ModeMask != 0, !c.Replication.Valid(), c.Replication == 0, c.Holder == muster.Holder{},
		c.BlockSize < muster.MinBlockSize, c.BlockSize > muster.MaxBlockSize:
		return 0, muster.ErrInvalid
	}
	if c.Parents {
		if code := o.mkparents(who, c.Path, 0o755, c.Owner, c.Group); code != muster.OK {
			return 0, code
		}
	}
	dir, name, old, code := o.place(who, c.Path)
	switch {
	case code != muster.OK:
		return 0, code
	case old != nil && (old.writer != nil || !c.Overwrite || c.Target != ""):
		return 0, muster.ErrExists // nobody takes a file from its writer
	case old != nil && old.Kind == muster.Directory:
		return 0, muster.ErrIsDirectory
	case old != nil && !o.mayRemove(who, dir, old):
		return 0, muster.ErrPermission
	case old != nil:
		o.remove(dir, old)
	}
	e := muster.Entry{
		Kind: muster.File, Mode: c.Mode, Replication: c.Replication, BlockSize: c.BlockSize,
		Flags: muster.FlagWriting, MTime: o.at(c.MTime), ATime: o.now,
	}
	id, code := o.addAt(who, dir, name, e, c.Owner, c.Group)
	if code == muster.OK && c.Target != "" {
		code = o.mayBecome(who, c.Target, c.Overwrite)
	}
	if code == muster.OK {
		o.nodes[id].writer = &writer{c.Holder, who.User, o.now, c.Target != ""}
	}
	return id, code
}

func (o *oracle) mayBecome(who *muster.Identity, path string, overwrite bool) muster.Code {
	dir, _, old, code := o.place(who, path)
	switch {
	case code != muster.OK:
		return code
	case old == nil && !o.may(who, dir, write|execute):
		return muster.ErrPermission
	case old == nil:
		return muster.OK
	case !overwrite:
		return muster.ErrExists
	case old.Kind == muster.Directory:
		return muster.ErrIsDirectory
	case !o.mayRemove(who, dir, old):
		return muster.ErrPermission
	}
	return muster.OK
}

// written is the file of a command of its writer's.
func (o *oracle) written(who *muster.Identity, file uint64, holder muster.Holder) (*node, muster.Code) {
	if file == 0 {
		file = o.last
	}
	n := o.nodes[file]
	switch {
	case file == 0:
		return nil, muster.ErrInvalid
	case n == nil || n.writer == nil:
		return nil, muster.ErrNotFound
	case n.writer.holder != holder:
		return nil, muster.ErrExists
	case n.writer.user != who.User && !o.super(who):
		return nil, muster.ErrPermission
	}
	return n, muster.OK
}

// endBlock gives the last block its length, or drops it.
func (o *oracle) endBlock(n *node, id muster.BlockID, length int64) muster.Code {
	switch {
	case length < 0, length > n.BlockSize, length > 0 && len(n.Blocks) == 0:
		return muster.ErrInvalid
	case id != (muster.BlockID{}) && id != lastOf(n):
		return muster.ErrChanged
	case len(n.Blocks) == 0:
		return muster.OK
	}
	last := len(n.Blocks) - 1
	if length == 0 {
		o.drop(n.Blocks[last:])
		n.Blocks = slices.Clone(n.Blocks[:last])
		return muster.OK
	}
	n.Blocks = slices.Clone(n.Blocks)
	n.Blocks[last].Length = length
	n.Length += length
	return muster.OK
}

func (o *oracle) addBlock(who *muster.Identity, c muster.AddBlock) (uint64, muster.Code) {
	if c.Block.Container == 0 || c.Block.LocalID == 0 || c.Block.Length != 0 {
		return 0, muster.ErrInvalid
	}
	n, code := o.written(who, c.File, c.Holder)
	if code == muster.OK {
		code = o.endBlock(n, c.Ends, c.Previous)
	}
	if code == muster.OK && len(n.Blocks) == muster.MaxBlocks {
		code = muster.ErrLimit
	}
	if code != muster.OK {
		return 0, code
	}
	n.Blocks = append(slices.Clone(n.Blocks), c.Block)
	o.nodes[n.parent].changedAt = o.txid
	return n.ID, muster.OK
}

func (o *oracle) finishFile(who *muster.Identity, c muster.FinishFile) (uint64, muster.Code) {
	n, code := o.written(who, c.File, c.Holder)
	if code == muster.OK {
		code = o.endBlock(n, c.Ends, c.Last)
	}
	if code != muster.OK {
		return 0, code
	}
	n.Flags, n.writer, n.MTime = 0, nil, o.at(c.MTime)
	o.nodes[n.parent].changedAt = o.txid
	return n.ID, muster.OK
}

func (o *oracle) takeLease(who *muster.Identity, c muster.TakeLease) (uint64, muster.Code) {
	if c.Holder == (muster.Holder{}) {
		return 0, muster.ErrInvalid
	}
	n, code := o.written(who, c.File, c.From)
	if code != muster.OK {
		return 0, code
	}
	n.writer = &writer{c.Holder, n.writer.user, n.writer.since, n.writer.temporary}
	return n.ID, muster.OK
}

// drop notes blocks that no file has any more.
func (o *oracle) drop(blocks []muster.Block) {
	for _, b := range blocks {
		if b.Container != 0 && b.LocalID != 0 { // else it is no datanode's
			o.dropped = append(o.dropped, muster.BlockID{Container: b.Container, LocalID: b.LocalID})
		}
	}
}

// The holders of the random tests.
var holders = []muster.Holder{{1}, {2}, {3}}

// writeCommand makes a command that writes a file.
func (g *generator) writeCommand(o *oracle) muster.Command {
	file, holder := g.writtenFile(o)
	length := oneOf[int64](g, 0, 0, 1, 1, 1, muster.MinBlockSize, muster.MinBlockSize, muster.MinBlockSize+1, -1)
	if n := o.nodes[file]; n != nil && len(n.Blocks) == 0 && g.pick(10) > 0 {
		length = 0
	}
	n := 11
	if g.paths {
		n--
	}
	switch g.pick(n) {
	case 0, 1, 2:
		return muster.StartFile{
			Path: g.newPath(o), Mode: g.mode(), Replication: oneOf(g, muster.Replicated(3), muster.Replicated(1), muster.Replicated(2), 0),
			BlockSize: oneOf[int64](g, muster.MinBlockSize, muster.MinBlockSize, muster.MinBlockSize, muster.MaxBlockSize, 1),
			Owner:     g.owner(), Group: g.group(), MTime: g.time(), Parents: g.pick(4) == 3, Overwrite: g.pick(2) == 1,
			Holder: oneOf(g, append(holders, holders[0], holders[1], muster.Holder{})...),
			Target: oneOf(g, "", "", g.path(o), g.newPath(o)),
		}
	case 3, 4, 5, 6:
		return muster.AddBlock{File: file, Holder: holder, Previous: length, Ends: g.ends(o, file), Block: g.block()}
	case 7, 8:
		return muster.FinishFile{File: file, Holder: holder, Last: length, Ends: g.ends(o, file), MTime: g.time()}
	case 9:
		return muster.TakeLease{File: file, From: holder, Holder: oneOf(g, append(holders, muster.Holder{})...)}
	}
	return muster.Rename{File: max(file, 1), From: "/ignored", To: oneOf(g, g.path(o), g.newPath(o)), Overwrite: g.pick(2) == 1}
}

// ends is what a writer says of the last block: mostly nothing, or the truth.
func (g *generator) ends(o *oracle, file uint64) muster.BlockID {
	if file == 0 {
		file = o.last
	}
	switch n := o.nodes[file]; g.pick(8) {
	case 0:
		return muster.BlockID{Container: 1 + uint64(g.pick(9)), LocalID: 1}
	case 1, 2, 3:
		if n != nil {
			return lastOf(n)
		}
	}
	return muster.BlockID{}
}

// lastOf is the last block of a file, zero if it has none.
func lastOf(n *node) muster.BlockID {
	if len(n.Blocks) == 0 {
		return muster.BlockID{}
	}
	b := n.Blocks[len(n.Blocks)-1]
	return muster.BlockID{Container: b.Container, LocalID: b.LocalID}
}

// block is a new one, mostly.
func (g *generator) block() muster.Block {
	if g.pick(30) == 0 {
		return oneOf(g, muster.Block{LocalID: 1}, muster.Block{Container: 1}, muster.Block{Container: 1, LocalID: 1, Length: 1})
	}
	return muster.Block{Container: 1 + uint64(g.pick(9)), LocalID: 1 + uint64(g.pick(1<<40))}
}

// writtenFile is mostly a file that is being written, and who holds it.
func (g *generator) writtenFile(o *oracle) (file uint64, holder muster.Holder) {
	if g.paths {
		if n := o.nodes[o.last]; n != nil && n.writer != nil {
			return 0, n.writer.holder
		}
		return 0, holders[0]
	}
	switch g.pick(12) {
	case 0:
		return uint64(g.pick(int(o.lastID) + 3)), oneOf(g, holders...)
	case 1, 2:
		if n := o.nodes[o.last]; n != nil && n.writer != nil {
			return 0, n.writer.holder
		}
	}
	var ids []uint64
	for id, n := range o.nodes {
		if n.writer != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, holders[0]
	}
	slices.Sort(ids)
	file = oneOf(g, ids...)
	if g.pick(12) == 0 {
		return file, oneOf(g, holders...)
	}
	return file, o.nodes[file].writer.holder
}

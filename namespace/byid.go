package namespace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fs/muster"
)

// This file finds inodes by their ids.

// climb returns the path of an inode, links resolved, and of its record what says where its row is.
// find returns a record; most is how many inodes there are.
func climb(id, most uint64, find func(id uint64) (rec record, ok bool, err error)) (path string, parent uint64, name string, err error) {
	var names []string
	for at := id; at != rootID; {
		rec, ok, err := find(at)
		switch {
		case err != nil:
			return "", 0, "", err
		case !ok && at != id || uint64(len(names)) > most:
			return "", 0, "", corrupt("inode %d does not lead to the root", id)
		case !ok || rec.parent == 0:
			return "", 0, "", fmt.Errorf("%w: inode %d is not in the tree, or not any more", muster.ErrNotFound, id)
		case at == id:
			parent, name = rec.parent, string(rec.name)
		}
		names = append(names, string(rec.name))
		at = rec.parent
	}
	slices.Reverse(names)
	return "/" + strings.Join(names, "/"), parent, name, nil
}

// pathOf returns the path of an inode.
func (tx *txn) pathOf(id uint64) (string, error) {
	path, _, _, err := climb(id, tx.meta.inodes, tx.findRecord)
	return path, err
}

// ResolveID finds an inode by its id, wherever it is: for a server's own work, as it checks no
// permission, and the answer has them all. ErrNotFound if there is none, or none any more.
func (r *Reader) ResolveID(id uint64) (Resolved, error) {
	path, parent, name, err := climb(id, r.view.meta.inodes, r.findRecord)
	if err != nil {
		return Resolved{}, err
	}
	var row []byte
	if id == rootID {
		row, err = r.lookRoot(&r.row)
	} else {
		row, err = r.readChild(parent, name, &r.row)
	}
	switch {
	case err != nil:
		return Resolved{}, err
	case row == nil || r.row.ID != id:
		return Resolved{}, corrupt("inode %d has no row", id)
	}
	return Resolved{path: path, row: row, id: id, kind: r.row.Kind, access: mayRead | mayWrite | mayExecute}, nil
}

func (r *Reader) findRecord(id uint64) (rec record, ok bool, err error) {
	r.snap.key = appendIDKey(r.snap.key[:0], tagRecord, id)
	v, err := r.snap.get(r.snap.key)
	if err != nil || v == nil {
		return rec, false, err
	}
	err = decodeRecord(v, &rec)
	return rec, err == nil, err
}

// LastBlock returns the last block of what was resolved, and how many blocks it has. It reads no
// other part of the list.
func (r *Reader) LastBlock(res *Resolved) (last muster.Block, count int, err error) {
	b, err := decodeRow(res.row, &r.row)
	if err != nil || b.count == 0 {
		return last, 0, err
	}
	part := b.inline
	if chunk := b.chunks() - 1; chunk >= 0 {
		r.snap.key = appendChunkKey(r.snap.key[:0], res.id, chunk)
		v, err := r.snap.get(r.snap.key)
		if err == nil {
			err = checkChunk(v, b.chunkLen(chunk))
		}
		if err != nil {
			return last, 0, err
		}
		part = v[1:]
	}
	list, err := decodeBlocks(r.list[:0], part[len(part)-blockSize:])
	if err != nil {
		return last, 0, err
	}
	return list[0], b.count, nil
}

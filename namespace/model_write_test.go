package namespace_test

import (
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// This file compares what a tree says of files being written and of blocks to be deleted with the
// oracle.

// compareWriting compares the files being written. Of trees that were deleted some may be among
// them until they are reclaimed.
func (m *model) compareWriting(reclaimed bool) error {
	got := map[uint64]namespace.Writing{}
	for after, page := uint64(0), 1+len(m.history)%3; ; {
		list, err := m.tree.Writings(after, page)
		if err != nil {
			return fmt.Errorf("writings after %d: %w", after, err)
		}
		if len(list) == 0 {
			break
		}
		for _, w := range list {
			if w.File <= after {
				return fmt.Errorf("writings after %d: %+v", after, w)
			}
			got[w.File], after = w, w.File
		}
	}
	for id, n := range m.oracle.nodes {
		w, ok := got[id]
		delete(got, id)
		switch {
		case n.writer == nil && ok:
			return fmt.Errorf("%+v is not being written", w)
		case n.writer != nil && w != namespace.Writing{File: id, Holder: n.writer.holder, User: n.writer.user, Since: n.writer.since, Temporary: n.writer.temporary}:
			return fmt.Errorf("inode %d is written by %+v, want %+v", id, w, n.writer)
		}
	}
	if reclaimed && len(got) > 0 {
		return fmt.Errorf("files that are gone are being written: %v", got)
	}
	return nil
}

// deletions returns the blocks to be deleted.
func (m *model) deletions() (map[muster.BlockID]bool, error) {
	got := map[muster.BlockID]bool{}
	for after := (muster.BlockID{}); ; {
		list, err := m.tree.Deletions(after, 1+len(got))
		if err != nil {
			return nil, fmt.Errorf("deletions after %v: %w", after, err)
		}
		if len(list) == 0 {
			return got, nil
		}
		for _, b := range list {
			if b.Container < after.Container || b.Container == after.Container && b.LocalID <= after.LocalID {
				return nil, fmt.Errorf("deletions after %v: %v", after, b)
			}
			got[b], after = true, b
		}
	}
}

// compareDeletions compares the blocks to be deleted. Those of trees that were deleted, and of long
// lists, come when they are reclaimed.
func (m *model) compareDeletions(reclaimed bool) error {
	got, err := m.deletions()
	if err != nil {
		return err
	}
	missing := 0
	for _, b := range m.oracle.dropped {
		switch {
		case m.confirmed[b]:
		case got[b]:
			delete(got, b)
		default:
			missing++
		}
	}
	for b := range got {
		return fmt.Errorf("block %v is to be deleted again, or is a file's", b)
	}
	if reclaimed && missing > 0 {
		return fmt.Errorf("%d blocks are in no file and not to be deleted", missing)
	}
	return nil
}

// confirm says of some blocks to be deleted that they were.
func (m *model) confirm(g generator) {
	m.t.Helper()
	got, err := m.deletions()
	if err != nil {
		m.t.Fatal(err)
	}
	blocks := []muster.BlockID{{Container: 1 << 60, LocalID: 1}} // which is not in the queue
	for b := range got {
		if g.pick(2) == 0 {
			blocks = append(blocks, b)
		}
	}
	if err := m.tree.Deleted(m.t.Context(), blocks); err != nil {
		m.t.Fatalf("deleted: %v", err)
	}
	for _, b := range blocks {
		m.confirmed[b] = true
	}
}

// readByID compares what is found by ids with the oracle.
func (m *model) readByID() error {
	view, err := m.tree.View()
	if err != nil {
		return err
	}
	defer view.Release()
	r := view.NewReader(&people[5]) // whose permissions do not matter
	defer r.Close()
	for id := range m.oracle.lastID + 2 {
		res, err := r.ResolveID(id)
		n := m.oracle.nodes[id]
		if n == nil {
			if muster.CodeOf(err) != muster.ErrNotFound {
				return fmt.Errorf("inode %d: %v, want NOT_FOUND", id, err)
			}
			continue
		}
		if err != nil || res.Path() != m.oracle.path(n) || res.Kind() != n.Kind || res.ID() != id {
			return fmt.Errorf("inode %d: %+v, %v, want %q", id, res, err, m.oracle.path(n))
		}
		var row muster.Row
		if err := r.Row(&res, &row, true); err != nil {
			return fmt.Errorf("row of inode %d: %w", id, err)
		}
		want := n.Entry
		want.Name = ""
		if err := same(row.Entry(), want); err != nil {
			return fmt.Errorf("inode %d: %w", id, err)
		}
		last, count, err := r.LastBlock(&res)
		if err != nil || count != len(n.Blocks) || count > 0 && last != n.Blocks[count-1] {
			return fmt.Errorf("inode %d: the last of %d blocks is %v, %v", id, count, last, err)
		}
	}
	return nil
}

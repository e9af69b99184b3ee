package namespace

import (
	"encoding/binary"

	"github.com/muster-fs/muster"
)

// touched is what a commit changes of the directories that are older than it.
type touched struct {
	rows  []rowKey // of children, ascending
	heads []uint64 // directories whose records change, ascending
	gone  []uint64 // directories that lose all rows at once
}

// collect notes what a transaction changes, once its batch was made, which sorts its writes.
// Inodes that are new in it are nothing to anybody yet.
func (c *touched) collect(tx *txn) {
	clear(c.rows)
	c.rows, c.heads, c.gone = c.rows[:0], c.heads[:0], c.gone[:0]
	for _, i := range tx.rows.order {
		if key := tx.rows.entries[i].key; key.dir != 0 && key.dir < tx.fresh {
			c.rows = append(c.rows, key)
		}
	}
	for _, i := range tx.records.order {
		e := &tx.records.entries[i]
		if e.key < tx.fresh && (e.value.kind == muster.Directory || e.value.kind == 0) {
			c.heads = append(c.heads, e.key)
		}
	}
	for _, r := range tx.ranges {
		if r.start[0] == tagRow {
			c.gone = append(c.gone, binary.BigEndian.Uint64(r.start[1:]))
		}
	}
}

// newRoot returns the root's row after a transaction, if it is known: that of the view before
// unless it changes.
func newRoot(tx *txn, before *View) *[]byte {
	if v, ok := tx.rows.get(rowKey{}); ok {
		return &v
	}
	return before.root.Load()
}

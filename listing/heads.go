package listing

import (
	"errors"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// ownHead marks the head of a listed directory itself, which has no row.
const ownHead = -1

// heads gathers the directories whose records a page needs: those that it listed, for
// their outcome's changed_at, and those among the rows, for their mtime. Records are read
// once at the end of the page, in one ordered pass.
type heads struct {
	ids   []uint64
	uses  []headUse
	found []namespace.Head
}

// headUse says what a record is for.
type headUse struct {
	row     int // whose mtime it has, or ownHead
	outcome int // of the path; the number of outcomes if the path was cut
}

func (h *heads) reset() { h.ids, h.uses = h.ids[:0], h.uses[:0] }

func (h *heads) want(id uint64, row, outcome int) {
	h.ids = append(h.ids, id)
	h.uses = append(h.uses, headUse{row, outcome})
}

// readHeads completes the page's rows and outcomes from the records. It takes the paths
// and how many of them are finished, and returns that number: one more if the path that
// was cut turned out to be corrupt.
func (c *collector) readHeads(r *namespace.Reader, paths []string, done int) (int, error) {
	h := &c.heads
	if len(h.ids) == 0 {
		return done, nil
	}
	if cap(h.found) < len(h.ids) {
		h.found = make([]namespace.Head, cap(h.ids))
	}
	h.found = h.found[:len(h.ids)]
	err := r.Heads(h.ids, h.found)
	if errors.Is(err, muster.ErrCorrupt) {
		return c.readEachHead(r, paths, done)
	}
	if err != nil {
		return done, err
	}
	for i, use := range h.uses {
		c.useHead(use, h.found[i])
	}
	return done, nil
}

func (c *collector) useHead(use headUse, head namespace.Head) {
	if use.row == ownHead {
		c.outcomes[use.outcome].ChangedAt = head.ChangedAt
	} else {
		c.rows.SetMTime(use.row, head.MTime)
	}
}

// readEachHead is readHeads for a store with a damaged record: only the paths that need
// that record are corrupt.
func (c *collector) readEachHead(r *namespace.Reader, paths []string, done int) (int, error) {
	h := &c.heads
	first := c.position.next() - uint64(done) // index of paths[0]
	for i, use := range h.uses {
		err := r.Heads(h.ids[i:i+1], h.found[i:i+1])
		switch {
		case err == nil:
			c.useHead(use, h.found[i])
		case !errors.Is(err, muster.ErrCorrupt):
			return done, err
		case use.outcome == len(c.outcomes):
			c.end(c.position.id, 0, muster.ErrCorrupt, describe(paths[done], err))
			done++
		case c.outcomes[use.outcome].Code == muster.OK:
			o := &c.outcomes[use.outcome]
			o.Code, o.Message = muster.ErrCorrupt, describe(paths[o.Index-first], err)
			c.outcomeSize += len(o.Message)
		}
	}
	return done, nil
}

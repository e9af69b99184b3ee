package listing

import (
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// emit lists the paths of the stage as long as the page has room. It returns how many it
// finished, and whether it left the position inside the one after them.
func (c *collector) emit(r *namespace.Reader, paths []string) (done int, cut bool, err error) {
	before := c.left
	for done < len(paths) && !cut && c.open() {
		if c.position.state != inside {
			c.position.enter()
		}
		if c.position.index > maxIndex {
			return done, false, fmt.Errorf("%w: path number %d; a call lists at most %d paths", muster.ErrLimit, c.position.index, maxIndex+1)
		}
		cut, err = c.path(r, paths[done], done)
		if err != nil {
			return done, false, fmt.Errorf("list %s: %w", quote(paths[done]), err)
		}
		if !cut {
			done++
		}
	}
	took := bounds{examined: before.examined - c.left.examined, locations: before.locations - c.left.locations}
	if cut {
		c.expect(took, done+1)
	} else if done > 0 {
		c.expect(took, done)
	}
	return done, cut, nil
}

// path lists what is left of the i-th path of the stage. It either finishes it, with an
// outcome, or leaves the position inside it and says that it was cut.
func (c *collector) path(r *namespace.Reader, path string, i int) (cut bool, err error) {
	if err := c.stage.failed[i]; err != nil {
		return false, c.fail(path, 0, err)
	}
	res := &c.stage.resolved[i]
	if c.position.id != 0 && c.position.id != res.ID() {
		return false, c.fail(path, res.ID(), muster.ErrChanged)
	}
	if c.options.Own || res.Kind() != muster.Directory {
		return c.own(r, path, res)
	}
	return c.children(r, path, res)
}

// own lists the entry of the path itself.
func (c *collector) own(r *namespace.Reader, path string, res *namespace.Resolved) (cut bool, err error) {
	if err := r.Row(res, &c.row, c.blocks()); err != nil {
		return false, c.fail(path, res.ID(), err)
	}
	if c.options.reading() && c.row.Kind == muster.File {
		if err := r.CheckRead(res); err != nil {
			return false, c.fail(path, res.ID(), err)
		}
	}
	c.left.examined--
	if !c.fits() {
		return true, nil
	}
	c.add()
	c.succeed(r, res)
	return false, nil
}

// children lists the children of a directory, after the position's name.
func (c *collector) children(r *namespace.Reader, path string, res *namespace.Resolved) (cut bool, err error) {
	after := ""
	if len(c.position.name) > 0 {
		after = string(c.position.name)
	}
	if err := r.Scan(res, after, c.blocks()); err != nil {
		return false, c.fail(path, res.ID(), err)
	}
	hides, first := c.options.Hidden != muster.HiddenNone, c.rows.Len()
	hidden := false // the last name taken
	for r.Next(&c.row) {
		hide := hides && c.options.Hidden.Hides(c.row.Name)
		if c.left.examined <= 0 || !hide && !c.fits() {
			if !hidden && c.rows.Len() > first {
				c.position.name = append(c.position.name[:0], c.rows.LastName()...)
			}
			return true, nil
		}
		c.left.examined--
		c.position.id = res.ID() // pinned by the first name taken from it, not before
		if hidden = hide; hide {
			c.position.name = append(c.position.name[:0], c.row.Name...)
		} else {
			c.add()
		}
	}
	if err := r.Err(); err != nil {
		return false, c.fail(path, res.ID(), err)
	}
	c.succeed(r, res)
	return false, nil
}

func (c *collector) blocks() bool { return c.options.Columns.Has(rows.ColBlocks) }

// fits says whether the current row may join the page. The first always may, unless what
// was gathered before it has to be sent first.
func (c *collector) fits() bool {
	r := &c.row
	size := rowBytes + len(r.Name) + len(r.Owner) + len(r.Group) + len(r.Target) + blockBytes*len(r.Blocks)
	c.expected = 0
	if c.located() {
		size += placeBytes * len(r.Blocks)
		c.expected = len(r.Blocks) * r.Replication.Nodes()
	}
	if c.fresh {
		c.full = c.gathered() && c.size()+size > rows.MaxFrame
		return !c.full
	}
	return c.left.entries > 0 && c.expected <= c.left.locations && c.size()+size <= c.left.bytes
}

// add appends the current row, which fits.
func (c *collector) add() {
	if c.row.Kind == muster.Directory && len(c.row.Name) > 0 && c.options.Columns.Has(rows.ColMTime) {
		c.heads.want(c.row.ID, c.rows.Len(), len(c.outcomes))
	}
	if c.located() && c.row.Kind == muster.File {
		markNoData(&c.row)
	}
	c.rows.Append(uint32(c.position.index), &c.row)
	c.position.rows++
	c.left.entries--
	c.left.locations -= c.expected
	c.fresh = false
}

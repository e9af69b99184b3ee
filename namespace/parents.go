package namespace

import (
	"sync/atomic"

	"github.com/muster-fs/muster"
)

// parent is what a reader keeps of a directory in which it looks names up.
type parent struct {
	id   uint64
	run  run // that the last name was in
	rows image
	hint int // where the next name is, if paths come in order
}

// parents is how many of them a reader keeps.
const parents = 16

// look implements source: from the directory's image if it can be had, else by a point read.
// In an image a name that is missing is an answer too.
func (r *Reader) look(dir uint64, name string, row *muster.Row) ([]byte, error) {
	switch {
	case dir == 0:
		return r.lookRoot(row)
	case !r.images:
		return r.readChild(dir, name, row)
	}
	p := &r.parents[dir%parents]
	if p.id != dir {
		*p = parent{id: dir}
	}
	if !p.run.has(name) {
		r.enter(p, name)
	}
	if p.run.as != whole {
		return r.readChild(dir, name, row)
	}
	at, ok := p.rows.find(name, p.hint)
	if p.hint = at; !ok {
		return nil, nil
	}
	p.hint++
	_, v := p.rows.row(at)
	unpackRow(v, row)
	return v, nil
}

// lookRoot returns the root's row, which views read once and hand on.
func (r *Reader) lookRoot(row *muster.Row) ([]byte, error) {
	if v := r.view.root.Load(); v != nil {
		_, err := decodeRow(*v, row)
		return *v, err
	}
	v, err := r.readChild(0, "", row)
	if err == nil && v != nil {
		r.view.root.Store(&v)
	}
	return v, err
}

func (r *Reader) readChild(dir uint64, name string, row *muster.Row) ([]byte, error) {
	v, err := r.lookups.child(&r.snap, dir, name)
	if err == nil && v != nil {
		_, err = decodeRow(v, row)
	}
	return v, err
}

// enter finds the run that a name is in. It loads it if names are looked up in the directory
// again and again.
func (r *Reader) enter(p *parent, name string) {
	before := p.run
	p.run = r.runAt(p.id, name, func(low []byte) (rows int, ok bool) {
		n := r.tree.loads.door.miss(p.id)
		inOrder := before.as == whole && before.high != nil && string(before.high) == string(low)
		if !inOrder && (n < 2 || n > 4 && n%patience != 4) {
			return 0, false
		}
		rows = firstRows(r.load.most)
		switch n {
		case 2:
			rows /= 12
		case 3:
			rows /= 3
		}
		return max(rows, 1), true
	})
	if p.rows, p.hint = (image{}), 0; p.run.as == whole {
		p.rows.open(p.run.item)
		if p.hint = p.rows.n; p.rows.n > 0 && string(p.rows.name(0)) == name { // as where paths are in order
			p.hint = 0
		}
	}
}

// doorkeeper counts the look-ups of names that found no image, by directory, so that what is
// looked at once is not loaded. A directory forgets its count when another one comes to its
// place. After the first few, and in a directory that was written since, a load takes as many
// look-ups as cost what it does. So who looks up names in no order in a directory that is too large to
// stay in memory, or makes a file and looks at it, again and again, pays twice at most what reading
// just them costs.
type doorkeeper struct {
	seen [doors]atomic.Uint64 // id << 8 | count; counts from 0x80 on are of directories that were written
}

const (
	doors       = 1024
	doorWritten = 0x80
	patience    = 32
)

// miss counts one more and returns how many there were, modulo patience once there were many.
func (d *doorkeeper) miss(id uint64) int {
	at := &d.seen[id%doors]
	n := uint64(1)
	if v := at.Load(); v>>8 == id {
		if n = v&0xff + 1; n%doorWritten == 0 {
			n -= patience
		}
	}
	at.Store(id<<8 | n)
	if n >= doorWritten {
		return int(n) - doorWritten - patience
	}
	return int(n)
}

// written tells that a commit changed a directory, or that it cannot be loaded.
func (d *doorkeeper) written(id uint64) {
	if at := &d.seen[id%doors]; at.Load()>>8 == id {
		at.Store(id<<8 | doorWritten)
	}
}

package namespace

import "github.com/muster-fs/muster"

// This file resolves siblings of the path before from an image of their directory: what a
// page of partitions does most.

// ResolveAll is Resolve for many paths, one after the other, and faster where they are siblings
// in the order of names. res and failed have a place for each.
func (r *Reader) ResolveAll(paths []string, follow bool, res []Resolved, failed []error) {
	clear(failed[:len(paths)])
	for i := 0; i < len(paths); i++ {
		if i += r.resolveNext(paths[i:], res[i:]); i < len(paths) {
			res[i], failed[i] = r.Resolve(paths[i], follow)
		}
	}
}

// resolveNext resolves the first of the paths, as many as lead, one by one, to what comes next in
// the image of the directory of the path before. It returns their number.
//
// They need no check of their own: a path is good that has the beginning of a good one and then
// a name that is in use.
func (r *Reader) resolveNext(paths []string, res []Resolved) (n int) {
	w := &r.walk
	if w.last == 0 || w.stale || len(w.nodes) > maxNodes {
		return 0
	}
	dir := &w.nodes[w.dir.node]
	p := &r.parents[dir.id%parents]
	if p.id != dir.id || p.run.as != whole || dir.access&mayExecute == 0 {
		return 0
	}
	above := w.path[:w.last]
	for n < len(paths) && p.hint < p.rows.n {
		path := paths[n]
		if len(path) > shortPath || len(path) <= len(above) || path[:len(above)] != above {
			break
		}
		name, v := p.rows.row(p.hint)
		if string(name) != path[len(above):] || rowKind(v) == muster.Link {
			break
		}
		r.resolved(&res[n], path, v)
		p.hint++
		n++
	}
	if n > 0 {
		w.path = paths[n-1]
		w.back(w.above, w.dir)
	}
	return n
}

// resolveSibling resolves a sibling of the path before, if that takes no more than a look into
// an image of their directory.
func (r *Reader) resolveSibling(path string, res *Resolved) bool {
	w := &r.walk
	if !w.sibling(path) {
		return false
	}
	dir := &w.nodes[w.dir.node]
	p := &r.parents[dir.id%parents]
	if p.id != dir.id || p.run.as != whole || dir.access&mayExecute == 0 {
		return false
	}
	name := path[w.last:]
	if !p.run.has(name) {
		if r.enter(p, name); p.run.as != whole {
			return false
		}
	}
	at, ok := p.rows.find(name, p.hint)
	if !ok {
		return false
	}
	_, v := p.rows.row(at)
	if rowKind(v) == muster.Link {
		return false
	}
	p.hint = at + 1
	w.path = path
	w.back(w.above, w.dir)
	r.resolved(res, path, v)
	return true
}

// resolved makes res what a row in an image says, which is no link's.
func (r *Reader) resolved(res *Resolved, path string, v []byte) {
	mode, owner, group := rowRights(v)
	res.path, res.row, res.id, res.kind = path, v, rowID(v), rowKind(v)
	res.access = r.walk.who.accessTo(mode, owner, group)
	res.held = held{}
}

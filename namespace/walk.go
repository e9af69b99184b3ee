package namespace

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/muster-fs/muster"
)

// source is where a walk finds rows.
type source interface {
	// look returns the row of a child, which stays valid, and decodes it; nil if the directory
	// has no such child.
	look(dir uint64, name string, row *muster.Row) ([]byte, error)
}

// look implements source.
func (tx *txn) look(dir uint64, name string, row *muster.Row) ([]byte, error) {
	v, err := tx.child(dir, name)
	if err == nil && v != nil {
		_, err = decodeRow(v, row)
	}
	return v, err
}

// walker resolves paths for one caller over one state of the tree. It keeps the walk of
// the path before, so that siblings share the walk of their common parent, and remembers
// directories passed, so that paths in any order share some.
//
// It is for one goroutine. What it found stays good until the next walk.
type walker struct {
	src source
	who principal

	nodes []node // directories passed; nodes[0] is the root
	kept  []step // of the path before, some of its components
	path  string // the path before, clean
	last  int    // bytes of it before its last name; 0: its directory was not reached
	dir   step   // then what these lead to
	above int    // and how many steps in kept do
	stale bool   // the walk kept may pass what has changed
	memo  memo
	cur   muster.Row
	fault string // physical path of what the last failed step looked for
}

// node is a directory on the way.
type node struct {
	id     uint64
	row    []byte
	name   string
	up     int32 // node of its parent; the root is its own
	access uint8
}

// step is a component of a path and the directory that the path up to it names.
type step struct {
	end   int   // bytes of the path up to the component
	node  int32 // what it names, links followed
	nodes int   // nodes known by then
	hops  int   // links followed up to then
	link  bool  // the component is a link
}

// found is what a walk arrived at.
type found struct {
	row  []byte
	name string
	dir  int32 // node of the directory that holds it; the root holds itself
	node int32 // its own node if it is a directory, else -1
}

// maxNodes bounds the memory of a walk that goes through ever new directories.
const maxNodes = 4096

// init makes w a fresh walker.
func (w *walker) init(src source, who principal) {
	clear(w.nodes)
	w.memo.forget()
	*w = walker{src: src, who: who, nodes: w.nodes[:0], kept: w.kept[:0], memo: w.memo}
}

// resolve walks a path of a request. Errors carry the code; they name the inode at fault
// unless it is the path's own last component.
func (w *walker) resolve(path string, follow bool) (found, error) {
	if w.sibling(path) {
		w.path = path
		w.back(w.above, w.dir)
		return w.finish(follow)
	}
	clean, err := muster.CleanPath(path)
	if err != nil {
		return found{}, err
	}
	if w.stale || len(w.nodes) == 0 || len(w.nodes) > maxNodes {
		if err := w.loadRoot(); err != nil {
			return found{}, err
		}
	}
	at := w.share(clean, follow)
	if at.end == len(clean) || clean == "/" {
		return w.directory(at.node), nil
	}
	for at.end < strings.LastIndexByte(clean, '/') {
		if at, err = w.pass(at); err != nil {
			return found{}, err
		}
	}
	w.last, w.dir, w.above = at.end+1, at, len(w.kept)
	return w.finish(follow)
}

// sibling says whether a path is clean and has the directory of the path before, but is
// another one.
func (w *walker) sibling(path string) bool {
	n := w.last
	if n == 0 || w.stale || len(path) <= n || len(path) > shortPath || path[:n] != w.path[:n] || path[n] == '.' {
		return false
	}
	name := path[n:]
	if len(name) > muster.MaxNameBytes || name == w.path[n:] {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c == '/' || c == 0 || c >= utf8.RuneSelf {
			return false
		}
	}
	return len(w.nodes) <= maxNodes
}

// shortPath is a length up to which no path is too deep.
const shortPath = 2 * muster.MaxPathDepth

// pass goes from a directory of the path to the next one.
func (w *walker) pass(at step) (step, error) {
	name, rest := muster.NextComponent(w.path[at.end:])
	hops := at.hops
	f, err := w.step(at.node, name, true, &at.hops)
	end := len(w.path) - len(rest)
	switch {
	case err == muster.ErrNotFound:
		return at, fmt.Errorf("%w: %s", muster.ErrNotFound, w.fault)
	case err != nil:
		return at, err
	case f.node < 0:
		return at, fmt.Errorf("%w: %s", muster.ErrNotDirectory, w.path[:end])
	}
	at = step{end, f.node, len(w.nodes), at.hops, at.hops > hops}
	w.kept = append(w.kept, at)
	w.memo.note(w.path[:end], at)
	return at, nil
}

// finish goes on from the path's directory to its last name.
func (w *walker) finish(follow bool) (found, error) {
	hops := w.dir.hops
	f, err := w.step(w.dir.node, w.path[w.last:], follow, &hops)
	switch {
	case err == muster.ErrNotFound && hops != w.dir.hops:
		return found{}, fmt.Errorf("%w: %s", muster.ErrNotFound, w.fault)
	case err != nil:
		return found{}, err
	}
	if f.node >= 0 {
		w.kept = append(w.kept, step{len(w.path), f.node, len(w.nodes), hops, hops > w.dir.hops})
	}
	return f, nil
}

func (w *walker) loadRoot() error {
	clear(w.nodes)
	w.nodes, w.kept, w.last, w.stale = w.nodes[:0], w.kept[:0], 0, false
	w.memo.forget()
	row, err := w.src.look(0, "", &w.cur)
	if err != nil {
		return err
	}
	if row == nil {
		return corrupt("the root has no row")
	}
	if w.cur.ID != rootID || w.cur.Kind != muster.Directory {
		return corrupt("the root is %v %d", w.cur.Kind, w.cur.ID)
	}
	w.nodes = append(w.nodes, node{id: rootID, row: row, access: w.who.access(&w.cur)})
	return nil
}

// share drops what the path before does not share with this one and returns where to go on
// from.
func (w *walker) share(clean string, follow bool) step {
	shared := sharedPrefix(w.path, clean)
	n := len(w.kept)
	for n > 0 && !w.kept[n-1].leadsTo(clean, shared, follow) {
		n--
	}
	at := step{nodes: 1}
	if n > 0 {
		at = w.kept[n-1]
	}
	w.path, w.last = clean, 0
	w.back(n, at)
	if known, ok := w.memo.deepest(clean, at.end); ok {
		known.nodes = max(known.nodes, at.nodes) // what is kept refers to those
		at = known
		w.kept = append(w.kept, at)
	}
	return at
}

// back goes back to a step; n steps lead to it.
func (w *walker) back(n int, at step) {
	w.kept = w.kept[:n]
	known := max(at.nodes, w.memo.nodes)
	clear(w.nodes[known:]) // a reader that waits for its next caller must not hold on to rows
	w.nodes = w.nodes[:known]
}

// leadsTo says whether the walk to a path goes through the step, given how many bytes the path shares
// with the one that the step was made for.
func (s *step) leadsTo(clean string, shared int, follow bool) bool {
	switch {
	case s.end > shared:
		return false
	case s.end == len(clean):
		return follow || !s.link
	}
	return clean[s.end] == '/'
}

func sharedPrefix(a, b string) int {
	const stride = 16
	i, n := 0, min(len(a), len(b))
	for i+stride <= n && a[i:i+stride] == b[i:i+stride] {
		i += stride
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// step goes from a directory to its child. The error for a child that does not exist is
// muster.ErrNotFound itself, and w.fault is then its path.
func (w *walker) step(at int32, name string, follow bool, hops *int) (found, error) {
	if err := w.mayPass(at); err != nil {
		return found{}, err
	}
	row, err := w.src.look(w.nodes[at].id, name, &w.cur)
	if err != nil {
		return found{}, err
	}
	if row == nil {
		w.fault = muster.JoinPath(w.nodePath(at), name)
		return found{}, muster.ErrNotFound
	}
	switch {
	case w.cur.Kind == muster.Directory:
		w.nodes = append(w.nodes, node{w.cur.ID, row, name, at, w.who.access(&w.cur)})
		return found{row, name, at, int32(len(w.nodes) - 1)}, nil
	case w.cur.Kind == muster.Link && follow:
		if *hops++; *hops > muster.MaxLinkHops {
			return found{}, fmt.Errorf("%w: more than %d at %s", muster.ErrLinkLoop, muster.MaxLinkHops, muster.JoinPath(w.nodePath(at), name))
		}
		return w.follow(at, string(w.cur.Target), hops)
	}
	return found{row, name, at, -1}, nil
}

// follow walks a link's target from the directory that holds the link.
func (w *walker) follow(at int32, target string, hops *int) (found, error) {
	if target[0] == '/' {
		at = 0
	}
	f := w.directory(at)
	for name := range strings.SplitSeq(target, "/") {
		if f.node < 0 {
			return found{}, fmt.Errorf("%w: %s", muster.ErrNotDirectory, muster.JoinPath(w.nodePath(f.dir), f.name))
		}
		var err error
		switch name {
		case "":
		case ".":
			err = w.mayPass(f.node) // a look-up like any other, as POSIX has it
		case "..":
			if err = w.mayPass(f.node); err == nil {
				f = w.directory(w.nodes[f.node].up)
			}
		default:
			f, err = w.step(f.node, name, true, hops)
		}
		if err != nil {
			return found{}, err
		}
	}
	return f, nil
}

func (w *walker) mayPass(at int32) error {
	if w.nodes[at].access&mayExecute != 0 {
		return nil
	}
	return w.denied("execute", at)
}

// denied is the error for a right that the caller lacks on a directory.
func (w *walker) denied(right string, at int32) error {
	var r muster.Row
	if _, err := decodeRow(w.nodes[at].row, &r); err != nil {
		return err
	}
	return w.who.deny(right, w.nodePath(at), &r)
}

func (w *walker) directory(at int32) found {
	n := &w.nodes[at]
	return found{n.row, n.name, n.up, at}
}

// nodePath returns the path of a directory, links resolved.
func (w *walker) nodePath(at int32) string {
	if at == 0 {
		return "/"
	}
	return muster.JoinPath(w.nodePath(w.nodes[at].up), w.nodes[at].name)
}

// parentID is the id under which f's row lies.
func (w *walker) parentID(f found) uint64 {
	if f.node == 0 {
		return 0
	}
	return w.nodes[f.dir].id
}

// within says whether a directory is in the directory of an id, or is it.
func (w *walker) within(at int32, id uint64) bool {
	for w.nodes[at].id != id {
		if at == 0 {
			return false
		}
		at = w.nodes[at].up
	}
	return true
}

// changed tells the walker that a row was replaced or taken away. The next walk begins anew
// if one may lead through it.
func (w *walker) changed(r *muster.Row) { w.stale = w.stale || r.Kind != muster.File }

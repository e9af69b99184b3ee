package namespace

import (
	"fmt"
	"strings"

	"github.com/muster-fs/muster"
)

// source is where a walk finds rows.
type source interface {
	// child returns a row that stays valid, or nil if the directory has no such child.
	child(dir uint64, name string) ([]byte, error)
}

// walker resolves paths for one caller over one state of the tree. It keeps the walk of
// the path before, so that siblings share the walk of their common parent.
//
// It is for one goroutine. What it found stays good until the next walk.
type walker struct {
	src source
	who principal

	nodes []node // directories passed; nodes[0] is the root
	kept  []step // of the path before, from its first component on
	path  string // the path before, clean
	stale bool   // the walk kept may pass what has changed
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
	*w = walker{src: src, who: who, nodes: w.nodes[:0], kept: w.kept[:0]}
}

// resolve walks a path of a request. Errors carry the code; they name the inode at fault
// unless it is the path's own last component.
func (w *walker) resolve(path string, follow bool) (found, error) {
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
	for rest := clean[at.end:]; ; {
		var name string
		name, rest = muster.NextComponent(rest)
		last, hops := rest == "", at.hops
		f, err := w.step(at.node, name, !last || follow, &at.hops)
		switch {
		case err == muster.ErrNotFound && (!last || hops != at.hops):
			return found{}, fmt.Errorf("%w: %s", muster.ErrNotFound, w.fault)
		case err != nil:
			return found{}, err
		case !last && f.node < 0:
			return found{}, fmt.Errorf("%w: %s", muster.ErrNotDirectory, clean[:len(clean)-len(rest)])
		}
		if f.node >= 0 {
			at = step{len(clean) - len(rest), f.node, len(w.nodes), at.hops, at.hops > hops}
			w.kept = append(w.kept, at)
		}
		if last {
			return f, nil
		}
	}
}

func (w *walker) loadRoot() error {
	w.nodes, w.kept, w.stale = w.nodes[:0], w.kept[:0], false
	row, err := w.src.child(0, "")
	if err != nil {
		return err
	}
	if row == nil {
		return corrupt("the root has no row")
	}
	if _, err := decodeRow(row, &w.cur); err != nil {
		return err
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
	w.kept, w.path = w.kept[:n], clean
	if n == 0 {
		w.nodes = w.nodes[:1]
		return step{}
	}
	w.nodes = w.nodes[:w.kept[n-1].nodes]
	return w.kept[n-1]
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
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// step goes from a directory to its child. The error for a child that does not exist is
// muster.ErrNotFound itself, and w.fault is then its path.
func (w *walker) step(at int32, name string, follow bool, hops *int) (found, error) {
	if err := w.mayPass(at); err != nil {
		return found{}, err
	}
	row, err := w.src.child(w.nodes[at].id, name)
	if err != nil {
		return found{}, err
	}
	if row == nil {
		w.fault = muster.JoinPath(w.nodePath(at), name)
		return found{}, muster.ErrNotFound
	}
	if _, err := decodeRow(row, &w.cur); err != nil {
		return found{}, err
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

package client

import (
	"context"
	"io/fs"
	"slices"

	"github.com/muster-fs/muster"
)

// The bounds of what WalkDir lists ahead.
const (
	maxAheadDirs    = 256     // in one call
	maxAheadRows    = 1 << 14 // in one call
	maxAheadEntries = 1 << 16 // held and not yet visited
	maxAheadSearch  = 1 << 12 // entries looked at to find directories
)

// WalkDir walks a tree in lexical order and calls fn as filepath.WalkDir does, with
// fs.SkipDir and fs.SkipAll; each entry is an *Info, whose Info costs no call.
// Directories are listed ahead, many in a call. Errors of the whole call, such as a
// server that is gone, end the walk and are returned; fn sees those of paths.
func (c *Client) WalkDir(ctx context.Context, root string, fn fs.WalkDirFunc) error {
	w := &walker{ctx: ctx, client: c, fn: fn, ahead: 1}
	info, err := c.Lstat(ctx, root)
	if err != nil {
		err = fn(root, nil, err)
	} else {
		err = w.visit(&node{info: info})
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

// walker is one WalkDir.
type walker struct {
	ctx    context.Context // of the one call that the walker lives for
	client *Client
	fn     fs.WalkDirFunc
	ahead  int      // directories to list in the next call
	held   int      // entries of listed directories
	stack  []*place // from the root to the directory being visited
}

// node is an entry of the tree, as far as it is known.
type node struct {
	info     Info
	listed   bool
	children []*node
	err      error // of listing it
}

// place is a directory being visited and the index of the child that comes next.
type place struct {
	dir  *node
	next int
}

// visit calls fn for an entry and all below it. An fs.SkipDir that it returns is about
// the directory that the entry is in.
func (w *walker) visit(n *node) error {
	err := w.fn(n.info.Path, &n.info, nil)
	if err != nil || !n.info.IsDir() {
		return skipped(n, err)
	}
	if !n.listed {
		if err := w.list(n); err != nil {
			return err
		}
	}
	defer w.release(n)
	if n.err != nil {
		if err := w.fn(n.info.Path, &n.info, n.err); err != nil {
			return skipped(n, err)
		}
	}
	at := &place{dir: n}
	w.stack = append(w.stack, at)
	defer func() { w.stack = w.stack[:len(w.stack)-1] }()
	for _, child := range n.children {
		at.next++
		if err := w.visit(child); err == fs.SkipDir {
			break
		} else if err != nil {
			return err
		}
	}
	return nil
}

// skipped takes in the fs.SkipDir of a directory itself.
func skipped(n *node, err error) error {
	if err == fs.SkipDir && n.info.IsDir() {
		return nil
	}
	return err
}

// release forgets what is below n.
func (w *walker) release(n *node) {
	w.held -= len(n.children)
	for _, child := range n.children {
		w.release(child)
	}
	n.children = nil
}

// list lists n, and with it directories that the walk will come to next.
func (w *walker) list(n *node) error {
	dirs := w.upcoming(n)
	w.ahead = min(4*w.ahead, maxAheadDirs)
	done, found := 0, 0
	paths := func(yield func(string) bool) {
		for _, dir := range dirs {
			if !yield(dir.info.Path) {
				return
			}
		}
	}
	for b, err := range w.client.List(w.ctx, paths, ListOptions{}) {
		if err != nil {
			return err
		}
		found += b.Len()
		for i := range b.Len() {
			if b.Name(i) != "" { // else it is no directory any more
				dir := dirs[b.PathIndex(i)]
				dir.children = append(dir.children, &node{info: b.Info(i)})
			}
		}
		for _, o := range b.Outcomes {
			dirs[o.Index].listed, dirs[o.Index].err = true, o.err("readdir")
			w.held += len(dirs[o.Index].children)
		}
		done += len(b.Outcomes)
		if b.Release(); done > 0 && found > maxAheadRows {
			break
		}
	}
	if done < len(dirs) {
		dirs[done].children = nil // cut off: it is listed when the walk comes to it
	}
	return nil
}

// upcoming returns n and the directories after it in the walk's order that are known
// and not listed, as far as the bounds let it look.
func (w *walker) upcoming(n *node) []*node {
	dirs := []*node{n}
	if w.held > maxAheadEntries {
		return dirs
	}
	search := maxAheadSearch
	for _, at := range slices.Backward(w.stack) {
		dirs = collect(dirs, at.dir.children[at.next:], w.ahead, &search)
	}
	return dirs
}

// collect adds unlisted directories among nodes and below them, in the walk's order.
func collect(dirs, nodes []*node, most int, search *int) []*node {
	for _, n := range nodes {
		if *search--; len(dirs) >= most || *search < 0 {
			break
		}
		if n.info.Entry.Kind != muster.Directory {
			continue
		}
		if n.listed {
			dirs = collect(dirs, n.children, most, search)
		} else {
			dirs = append(dirs, n)
		}
	}
	return dirs
}

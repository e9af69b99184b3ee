package namespace

import (
	"fmt"
	"math"

	"github.com/muster-fs/muster"
)

// root walks up from an inode to the root or to a detached directory. Directories on the way
// are remembered, so each is walked once. ok is false if the walk leads nowhere.
func (c *checker) root(id uint64, rec *record) (root int, ok bool, err error) {
	var way []uint64
	for at, r := id, *rec; ; {
		switch {
		case at == rootID:
			root = attached
		case r.parent == 0:
			root = detached
		case c.roots[attached].has(at):
			root = attached
		case c.roots[detached].has(at):
			root = detached
		default:
			if r.kind == muster.Directory {
				way = append(way, at)
			}
			at = r.parent
			if ok, err := c.record(at, &r); err != nil || !ok || r.kind != muster.Directory || uint64(len(way)) > c.view.meta.inodes {
				return attached, false, err
			}
			continue
		}
		for _, dir := range way {
			c.roots[root].add(dir)
		}
		return root, true, nil
	}
}

// path returns the path of an inode as far as records tell.
func (c *checker) path(id uint64) string {
	var names []string
	for range muster.MaxPathDepth {
		if id == rootID || id == 0 {
			break
		}
		var rec record
		ok, err := c.record(id, &rec)
		if err != nil || !ok || rec.parent == 0 {
			names = append(names, fmt.Sprintf("<%d>", id))
			break
		}
		names = append(names, string(rec.name))
		id = rec.parent
	}
	path := "/"
	for i := len(names) - 1; i >= 0; i-- {
		path = muster.JoinPath(path, names[i])
	}
	return path
}

// bitset is a set of inode ids.
type bitset []uint64

func newBitset(bound uint64) bitset { return make(bitset, min(bound, math.MaxInt32)/64+1) }

// has says whether id is in the set; ids past the bound never are.
func (b bitset) has(id uint64) bool { return id/64 < uint64(len(b)) && b[id/64]>>(id%64)&1 != 0 }

func (b bitset) add(id uint64) {
	if id/64 < uint64(len(b)) {
		b[id/64] |= 1 << (id % 64)
	}
}

package namespace

import (
	"fmt"

	"github.com/muster-fs/muster"
)

// What a caller may do with an inode, as the bits of a mode have it.
const (
	mayRead    = 4
	mayWrite   = 2
	mayExecute = 1
)

// principal is who reads or changes the tree.
type principal struct {
	*muster.Identity
	super bool
}

// Superuser says whether the identity passes every permission check: the user that the
// tree was opened for, and the members of muster.Supergroup.
func (t *Tree) Superuser(id *muster.Identity) bool {
	return id.User == t.opts.Superuser || id.In(muster.Supergroup)
}

// access returns the read, write and execute bits that p has on an inode: the owner's if
// p owns it, else the group's if p is a member, else those of all others.
func (p *principal) access(r *muster.Row) uint8 { return p.accessTo(r.Mode, r.Owner, r.Group) }

// accessTo is access for the attributes that decide.
func (p *principal) accessTo(mode uint16, owner, group []byte) uint8 {
	if p.super {
		return mayRead | mayWrite | mayExecute
	}
	shift := 0
	switch {
	case string(owner) == p.User:
		shift = 6
	case p.member(group):
		shift = 3
	}
	return uint8(mode>>shift) & 7
}

func (p *principal) owns(r *muster.Row) bool { return string(r.Owner) == p.User }

func (p *principal) member(group []byte) bool {
	for _, g := range p.Groups {
		if g == string(group) {
			return true
		}
	}
	return false
}

// sticky says whether the sticky bit of a directory forbids p to remove or rename a child.
func (p *principal) sticky(dir, child *muster.Row) bool {
	return dir.Mode&muster.ModeSticky != 0 && !p.super && !p.owns(dir) && !p.owns(child)
}

// deny is the error for a caller who lacks a right on the inode at path.
func (p *principal) deny(right string, path string, r *muster.Row) error {
	e := muster.Entry{Mode: r.Mode, Kind: r.Kind}
	return fmt.Errorf("%w: user %q needs %s on %s (%s:%s %v)",
		muster.ErrPermission, p.User, right, path, r.Owner, r.Group, e.FileMode())
}

// checkCaller checks an identity that came with a call.
func checkCaller(id *muster.Identity) error {
	if id.User == "" {
		return fmt.Errorf("%w: no user", muster.ErrUnauthenticated)
	}
	return checkOwner("user", id.User)
}

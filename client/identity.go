package client

import (
	"fmt"
	"os/user"
	"slices"

	"github.com/muster-fs/muster"
)

// identityOf returns the identity that the options ask for.
func identityOf(o Options) (muster.Identity, error) {
	if o.User != "" {
		return muster.Identity{User: o.User, Groups: slices.Clone(o.Groups)}, nil
	}
	u, err := user.Current()
	if err != nil {
		return muster.Identity{}, fmt.Errorf("%w: the operating system's user is unknown: %w; set Options.User", muster.ErrUnauthenticated, err)
	}
	id := muster.Identity{User: u.Username, Groups: slices.Clone(o.Groups)}
	if len(o.Groups) > 0 {
		return id, nil
	}
	gids, err := u.GroupIds()
	if err != nil {
		return muster.Identity{}, fmt.Errorf("%w: the groups of user %s are unknown: %w; set Options.Groups", muster.ErrUnauthenticated, u.Username, err)
	}
	for _, gid := range gids {
		id.Groups = append(id.Groups, groupName(gid))
	}
	return id, nil
}

// groupName returns a group's name; one without a name goes by its number, as in ls.
func groupName(gid string) string {
	g, err := user.LookupGroupId(gid)
	if err != nil {
		return gid
	}
	return g.Name
}

package main

import (
	"io/fs"
	"os/user"
	"strconv"
)

// ownerNames finds the names of owners and groups, each once. It is used by one
// goroutine.
type ownerNames struct {
	users  map[uint32]string
	groups map[uint32]string
}

func newOwnerNames() *ownerNames {
	return &ownerNames{users: map[uint32]string{}, groups: map[uint32]string{}}
}

// of returns owner and group of a file of this machine; empty if it has none.
func (n *ownerNames) of(info fs.FileInfo) (owner, group string) {
	uid, gid, ok := fileOwner(info)
	if !ok {
		return "", ""
	}
	return remember(n.users, uid, userName), remember(n.groups, gid, groupName)
}

func remember(known map[uint32]string, id uint32, find func(id string) string) string {
	name, ok := known[id]
	if !ok {
		name = find(strconv.FormatUint(uint64(id), 10))
		known[id] = name
	}
	return name
}

// userName returns a user's name; one without a name goes by its number, as in ls.
func userName(uid string) string {
	u, err := user.LookupId(uid)
	if err != nil {
		return uid
	}
	return u.Username
}

func groupName(gid string) string {
	g, err := user.LookupGroupId(gid)
	if err != nil {
		return gid
	}
	return g.Name
}

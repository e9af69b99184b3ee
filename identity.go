package muster

import "slices"

// Supergroup is the group whose members are superusers, beside the user that the
// server runs as.
const Supergroup = "supergroup"

// Identity is who makes a call: a user and the groups the user belongs to. Who the
// caller is comes from authentication, never from the call's own arguments.
type Identity struct {
	User   string
	Groups []string
}

// In says whether the identity belongs to group.
func (id *Identity) In(group string) bool { return slices.Contains(id.Groups, group) }

package token

import (
	"fmt"
	"time"

	"github.com/muster-fs/muster"
)

// ClockSkew is by how much the clocks of servers may differ: keys and tokens are taken for so long after they
// have expired.
const ClockSkew = time.Minute

// ErrUnknownKey is the error of a token whose key is not in the ring: the ring may be too old. It is a
// muster.ErrUnauthenticated.
var ErrUnknownKey = fmt.Errorf("%w: cannot find the signing key of the block token", muster.ErrUnauthenticated)

// Verify checks that a token lets owner use a block in a mode (one, or several at once), and returns
// what it says. Each check comes after those that the ones after it depend on: that there is a token
// and that it is one, that its key is known ([ErrUnknownKey]) and has not expired, the MAC in
// constant time, which shows that the token is for this block, that it has not expired, and whose it is; all
// of these are muster.ErrUnauthenticated. A token that does not allow the mode is muster.ErrPermission.
// Verify allocates nothing unless it fails.
func Verify(ring *Ring, token []byte, now time.Time, block muster.BlockID, mode Modes, owner string) (Token, error) {
	if len(token) == 0 {
		return Token{}, refuse("block %v: a block token is needed, and there is none", block)
	}
	p, ok := parse(token)
	if !ok {
		return Token{}, refuse("block %v: %d bytes that are no block token", block, len(token))
	}
	key := ring.find(p.keyID)
	if key == nil {
		return Token{}, fmt.Errorf("%w: key %d, and there are %v", ErrUnknownKey, p.keyID, ring)
	}
	if late(now, key.Expires) {
		return Token{}, refuse("block %v: the block token's signing key %d expired at %s", block, p.keyID, stamp(key.Expires))
	}
	if !key.isMAC(p.mac, p.grant, block, p.maxLength, p.file) {
		return Token{}, refuse("block %v: the block token has a wrong signature, or is for another block", block)
	}
	expires := time.UnixMilli(p.expires)
	switch {
	case late(now, expires):
		return Token{}, refuse("block %v: the block token expired at %s", block, stamp(expires))
	case string(p.owner) != owner:
		return Token{}, refuse("block %v: the block token is for user %.64q, not %.64q", block, p.owner, owner)
	case mode == 0 || p.modes&mode != mode:
		return Token{}, fmt.Errorf("%w: block %v: the block token is to %v, not to %v", muster.ErrPermission, block, p.modes, mode)
	}
	return Token{Grant{p.keyID, owner, p.modes, expires}, int64(p.maxLength), p.file}, nil
}

func late(now, expires time.Time) bool { return now.After(expires.Add(ClockSkew)) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{muster.ErrUnauthenticated}, args...)...)
}

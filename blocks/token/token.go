package token

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/muster-fs/muster"
)

// Modes are the kinds of calls that a token is good for, as bits.
type Modes uint8

// The modes. Reading includes to ask for a block's length and chunks, and of a container's token to
// list its blocks; writing includes to commit.
const (
	Read Modes = 1 << iota
	Write
	Delete

	allModes = Read | Write | Delete
)

// String names the modes: read+write.
func (m Modes) String() string {
	var names []string
	for i, name := range [...]string{"read", "write", "delete"} {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if m == 0 || m&^allModes != 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(m&^allModes)))
	}
	return strings.Join(names, "+")
}

// Grant is what all tokens of an answer share.
type Grant struct {
	KeyID   uint32
	Owner   string // the user that it was given to; empty: a server
	Modes   Modes
	Expires time.Time // exact to the millisecond
}

// Token is what a token says beside its block.
type Token struct {
	Grant
	MaxLength int64  // bytes of the block that it is good for
	File      uint64 // inode id of the file that the block is of
}

// The sizes of tokens and what they are made of, in bytes.
const (
	MaxOwnerBytes = math.MaxUint8
	MACBytes      = 32
	MaxGrantBytes = grantHead + MaxOwnerBytes
	MaxBytes      = MaxGrantBytes + tokenTail

	version   = 1
	grantHead = 15            // up to the owner
	tokenTail = 16 + MACBytes // after the grant
)

func appendGrant(dst []byte, g *Grant) []byte {
	dst = append(dst, version, byte(g.Modes))
	dst = binary.LittleEndian.AppendUint32(dst, g.KeyID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(g.Expires.UnixMilli()))
	return append(append(dst, byte(len(g.Owner))), g.Owner...)
}

// Compose joins the parts of a token, as answers that name many blocks have them: the grant, which all
// of the answer share, and the MAC of this block, which is of these maxLength and file.
func Compose(grant []byte, maxLength int64, file uint64, mac []byte) []byte {
	return append(begin(grant, maxLength, file), mac...)
}

// begin returns a token without its MAC, and room for that.
func begin(grant []byte, maxLength int64, file uint64) []byte {
	t := append(make([]byte, 0, len(grant)+tokenTail), grant...)
	t = binary.LittleEndian.AppendUint64(t, uint64(maxLength))
	return binary.LittleEndian.AppendUint64(t, file)
}

// parts are the fields of a token, not checked. The slices are the token's.
type parts struct {
	grant           []byte
	modes           Modes
	keyID           uint32
	expires         int64 // ms since the epoch
	owner           []byte
	maxLength, file uint64
	mac             []byte
}

// parse takes a token apart. Each has one way to write it.
func parse(t []byte) (p parts, ok bool) {
	if len(t) < grantHead || t[0] != version {
		return p, false
	}
	end := grantHead + int(t[grantHead-1])
	if len(t) != end+tokenTail {
		return p, false
	}
	p = parts{
		grant: t[:end], modes: Modes(t[1]), keyID: binary.LittleEndian.Uint32(t[2:]),
		expires: int64(binary.LittleEndian.Uint64(t[6:])), owner: t[grantHead:end],
		maxLength: binary.LittleEndian.Uint64(t[end:]), file: binary.LittleEndian.Uint64(t[end+8:]), mac: t[end+16:],
	}
	return p, p.modes != 0 && p.modes&^allModes == 0 && p.maxLength <= math.MaxInt64
}

// Signer signs blocks for one owner. It is safe for concurrent use.
type Signer struct {
	key     *signingKey
	grant   []byte
	expires time.Time
}

// DefaultLife is how long a token is valid unless its key expires before.
const DefaultLife = 24 * time.Hour

// Signer returns what signs for an owner from now on: with the ring's first key that has not
// expired, for a lifetime (0: DefaultLife) that ends with the key's. It fails with muster.ErrUnavailable if there
// is no such key, and with muster.ErrInvalid if the owner's name is longer than MaxOwnerBytes or modes are none.
func (r *Ring) Signer(owner string, modes Modes, now time.Time, life time.Duration) (*Signer, error) {
	if len(owner) > MaxOwnerBytes || modes == 0 || modes&^allModes != 0 || life < 0 {
		return nil, fmt.Errorf("%w: a block token to %v for %v, for user %.64q, whose name has %d bytes; at most %d",
			muster.ErrInvalid, modes, life, owner, len(owner), MaxOwnerBytes)
	}
	key := r.signs(now)
	if key == nil {
		return nil, fmt.Errorf("%w: there is no key to sign block tokens with: %v", muster.ErrUnavailable, r)
	}
	if life == 0 {
		life = DefaultLife
	}
	expires := now.Add(life)
	if key.Expires.Before(expires) {
		expires = key.Expires
	}
	s := &Signer{key: key, expires: expires.Truncate(time.Millisecond)}
	s.grant = appendGrant(nil, &Grant{KeyID: key.ID, Owner: owner, Modes: modes, Expires: s.expires})
	return s, nil
}

// Grant returns what all tokens share. It must not be changed.
func (s *Signer) Grant() []byte { return s.grant }

// Expires is until when the tokens are valid.
func (s *Signer) Expires() time.Time { return s.expires }

// AppendMAC appends the MAC, MACBytes, of a block of a file, of which maxLength bytes may be used.
func (s *Signer) AppendMAC(dst []byte, block muster.BlockID, maxLength int64, file uint64) []byte {
	return s.key.appendMAC(dst, s.grant, block, uint64(maxLength), file)
}

// Token returns a token for a block of a file, of which maxLength bytes may be used.
func (s *Signer) Token(block muster.BlockID, maxLength int64, file uint64) []byte {
	return s.AppendMAC(begin(s.grant, maxLength, file), block, maxLength, file)
}

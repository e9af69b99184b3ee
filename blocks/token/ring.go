package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// MaxKeys bounds the keys of a ring.
const MaxKeys = 256

// Ring is the keys that are in use at a time. It is immutable; nil is a ring without keys.
type Ring struct {
	keys []*signingKey // the first that has not expired signs
}

// NewRing makes a ring of keys, in the order in which the location service tells them: the first signs.
// It fails with muster.ErrCorrupt if a key has no id or secret, if two have the same id, or if there are more than MaxKeys.
func NewRing(keys []Key) (*Ring, error) {
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("%w: %d block keys; at most %d", muster.ErrCorrupt, len(keys), MaxKeys)
	}
	r := &Ring{keys: make([]*signingKey, 0, len(keys))}
	for i := range keys {
		if err := keys[i].check(); err != nil {
			return nil, err
		}
		if r.find(keys[i].ID) != nil {
			return nil, fmt.Errorf("%w: two block keys %d", muster.ErrCorrupt, keys[i].ID)
		}
		r.keys = append(r.keys, newSigningKey(keys[i]))
	}
	return r, nil
}

// find returns the key of an id; nil: there is none.
func (r *Ring) find(id uint32) *signingKey {
	if r == nil {
		return nil
	}
	for _, k := range r.keys {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// signs returns the key that signs at a time; nil: there is none.
func (r *Ring) signs(now time.Time) *signingKey {
	if r == nil {
		return nil
	}
	for _, k := range r.keys {
		if now.Before(k.Expires) {
			return k
		}
	}
	return nil
}

// String names the keys by their ids.
func (r *Ring) String() string {
	if r == nil || len(r.keys) == 0 {
		return "no block keys"
	}
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = fmt.Sprint(k.ID)
	}
	return "block keys " + strings.Join(ids, ", ")
}

// signingKey is a key with what makes its MACs, which is set up once and used by one at a time.
type signingKey struct {
	Key
	macs sync.Pool // of *mac
}

// mac computes MACs, one after another.
type mac struct {
	hash       hash.Hash
	input, sum []byte
}

func newSigningKey(k Key) *signingKey {
	s := &signingKey{Key: k}
	s.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, s.Secret.box.bytes[:])} }
	return s
}

// appendMAC appends the MAC of a block.
func (k *signingKey) appendMAC(dst, grant []byte, block muster.BlockID, maxLength, file uint64) []byte {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	return m.append(dst, grant, block, maxLength, file)
}

// isMAC says in constant time whether got is the MAC of a block.
func (k *signingKey) isMAC(got, grant []byte, block muster.BlockID, maxLength, file uint64) bool {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	m.sum = m.append(m.sum[:0], grant, block, maxLength, file)
	return hmac.Equal(m.sum, got)
}

func (m *mac) append(dst, grant []byte, block muster.BlockID, maxLength, file uint64) []byte {
	m.input = append(m.input[:0], grant...)
	for _, n := range [...]uint64{block.Container, block.LocalID, maxLength, file} {
		m.input = binary.LittleEndian.AppendUint64(m.input, n)
	}
	m.hash.Reset()
	_, _ = m.hash.Write(m.input) // it never fails
	return m.hash.Sum(dst)
}

package registry

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/store"
)

// Keys of block tokens are made when somebody asks for keys and the newest is KeyEvery old, so nobody
// waits for a timer, and a registry that is asked by nobody makes none. A new key is told at once and
// signs a little later, when all who check tokens have heard of it. Then it signs until the next
// does, and is good for what it signed until it expires.
//
// The clock may be wrong. A key that is dated more than KeyEvery ahead does not keep the next from
// being made; an expired one stays on the disk for another KeyLife, in case the clock is set back.

const (
	maxBlockKeys = 64          // on the disk; a clock that jumps may make many
	keyRefresh   = time.Minute // between two questions of those who follow the keys, at most
	keyRefreshes = 512         // in KeyEvery, at least
	keyWarmUp    = 4           // refreshes until a new key signs
)

// blockKey is a key and what is durable with it.
type blockKey struct {
	token.Key
	made time.Time
}

func blockKeyKey(id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{tagBlockKey}, id) }

// A block key's record:
//
//	version u8 | made i64 | expires i64, both ms since the epoch | secret, 32 bytes
const (
	blockKeyVersion = 1
	blockKeyLen     = 17 + token.SecretBytes
)

func appendBlockKey(dst []byte, k *blockKey) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, blockKeyVersion), uint64(k.made.UnixMilli()))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(k.Expires.UnixMilli()))
	return append(dst, k.Secret.Reveal()...)
}

func decodeBlockKey(v []byte) (k blockKey, err error) {
	if len(v) != blockKeyLen || v[0] != blockKeyVersion {
		return blockKey{}, corrupt("block key of %d bytes: unknown version", len(v))
	}
	made, expires := int64(binary.LittleEndian.Uint64(v[1:])), int64(binary.LittleEndian.Uint64(v[9:]))
	if made >= expires {
		return blockKey{}, corrupt("block key: it expired before it was made")
	}
	k.made, k.Expires = time.UnixMilli(made), time.UnixMilli(expires)
	k.Secret, err = token.ParseSecret(v[17:])
	return k, err
}

func (r *Registry) loadBlockKey(id uint32, value []byte) error {
	k, err := decodeBlockKey(value)
	if err == nil && (id == 0 || id == math.MaxUint32) {
		err = corrupt("no key has this id")
	}
	if err != nil {
		return fmt.Errorf("block key %d: %w", id, err)
	}
	k.ID = id
	r.keys = append(r.keys, k)
	return nil
}

// BlockKeys are the keys that block tokens are signed and checked with.
type BlockKeys struct {
	Keys    []token.Key   // the first signs; then the newest first
	Refresh time.Duration // when to ask again
}

// BlockKeys returns the keys that tokens may be valid by. If it is time for a new one it makes it.
func (r *Registry) BlockKeys(ctx context.Context) (BlockKeys, error) {
	if err := r.alive(); err != nil {
		return BlockKeys{}, err
	}
	now := r.opts.Now()
	r.mu.Lock()
	due := r.keyDue(now)
	r.mu.Unlock()
	if due {
		if err := r.writer.do(ctx, r.planBlockKey); err != nil {
			return BlockKeys{}, fmt.Errorf("make a block key: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	refresh := r.opts.keyRefresh()
	return BlockKeys{keysAt(r.keys, r.opts.Now(), keyWarmUp*refresh), refresh}, nil
}

func (o *Options) keyRefresh() time.Duration { return min(keyRefresh, o.KeyEvery/keyRefreshes) }

// keyDue says whether it is time for a new key. The caller holds mu, or is the writer.
func (r *Registry) keyDue(now time.Time) bool {
	if len(r.keys) == 0 {
		return true
	}
	newest := &r.keys[len(r.keys)-1]
	age := now.Sub(newest.made)
	return age >= r.opts.KeyEvery || -age > r.opts.KeyEvery || !now.Before(newest.Expires)
}

// planBlockKey makes a key, unless somebody else has.
func (r *Registry) planBlockKey(b *batch) (show func(), err error) {
	now := r.opts.Now().Truncate(time.Millisecond)
	if !r.keyDue(now) {
		return nil, nil
	}
	k := blockKey{token.Key{ID: 1, Secret: token.NewSecret(), Expires: now.Add(r.opts.KeyLife)}, now}
	if n := len(r.keys); n > 0 {
		k.ID = r.keys[n-1].ID + 1
	}
	if k.ID == math.MaxUint32 {
		return nil, fmt.Errorf("%w: no ids are left for block keys", muster.ErrLimit)
	}
	b.set(blockKeyKey(k.ID), appendBlockKey(nil, &k))
	var kept []blockKey
	for i, old := range r.keys {
		if len(r.keys)-i < maxBlockKeys && now.Before(old.Expires.Add(r.opts.KeyLife)) {
			kept = append(kept, old)
		} else {
			b.remove(blockKeyKey(old.ID))
		}
	}
	return func() {
		r.keys = append(kept, k)
		r.opts.Logger.Info("a new key for block tokens", "id", k.ID, "expires", k.Expires)
	}, nil
}

// keysAt returns the keys that are good at a time: the one that signs, then the others, the newest first.
// The newest that is past its warm-up signs; if there is none, the newest.
func keysAt(all []blockKey, now time.Time, warmUp time.Duration) []token.Key {
	var good []blockKey // the newest first
	for _, k := range slices.Backward(all) {
		if !now.After(k.Expires.Add(token.ClockSkew)) {
			good = append(good, k)
		}
	}
	signs := slices.IndexFunc(good, func(k blockKey) bool {
		return !now.Before(k.made.Add(warmUp)) && now.Before(k.Expires)
	})
	keys := make([]token.Key, 0, len(good))
	if signs >= 0 {
		keys = append(keys, good[signs].Key)
	}
	for i, k := range good {
		if i != signs {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

func (b *batch) remove(key []byte) {
	if b.err == nil {
		b.err = store.Error(b.b.Delete(key, nil))
	}
}

// validateKeys checks how long keys are used. Zeros are filled in.
func (o *Options) validateKeys() error {
	switch {
	case o.KeyEvery < time.Second:
		return fmt.Errorf("%w: a new block key every %v; at least 1 s", muster.ErrInvalid, o.KeyEvery)
	case o.KeyLife <= o.KeyEvery:
		return fmt.Errorf("%w: block keys live %v, which must be more than the %v after which there is a new one", muster.ErrInvalid, o.KeyLife, o.KeyEvery)
	}
	return nil
}

// keyDefaults fills in what is zero.
func (o *Options) keyDefaults() {
	o.KeyEvery = cmp.Or(o.KeyEvery, defaultKeyEvery)
	o.KeyLife = cmp.Or(o.KeyLife, defaultKeyLife)
	if o.Now == nil {
		o.Now = time.Now
	}
}

// upgrade marks a folder of the version before, which had no block keys, as one of this version before the
// first is written.
func (r *Registry) upgrade() error {
	if len(r.keys) > 0 {
		return nil
	}
	return r.store.Complete()
}

package namespace

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// The result of a request lies under its id, written with what the request did:
//
//	version u8 | stamp i64 | txid u64 | hash 16 bytes | user length u8 | user | ids u32 | id u64 each
//
// and under its txid lies an entry by which results expire in order:
//
//	version u8 | client 16 bytes | sequence u64 | stamp i64
//
// Each result has one such entry and the other way round.
const (
	resultVersion = 1
	resultHead    = 34
	expiryVersion = 1
	expiryLen     = 33
)

type result struct {
	stamp int64 // ms
	txid  uint64
	hash  [16]byte
	user  []byte
	ids   []uint64
}

func appendResult(dst []byte, r *result) []byte {
	dst = append(dst, resultVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.stamp))
	dst = binary.LittleEndian.AppendUint64(dst, r.txid)
	dst = append(append(dst, r.hash[:]...), byte(len(r.user)))
	dst = append(dst, r.user...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.ids)))
	for _, id := range r.ids {
		dst = binary.LittleEndian.AppendUint64(dst, id)
	}
	return dst
}

// decodeResult decodes v into r, whose user then aliases v.
func decodeResult(v []byte, r *result) error {
	if len(v) < resultHead || v[0] != resultVersion {
		return corrupt("result of a request: unknown version or length %d", len(v))
	}
	*r = result{stamp: int64(binary.LittleEndian.Uint64(v[1:])), txid: binary.LittleEndian.Uint64(v[9:]), hash: [16]byte(v[17:33])}
	user := int(v[33])
	v = v[resultHead:]
	if user == 0 || len(v) < user+4 {
		return corrupt("result of request at txid %d: bad user", r.txid)
	}
	r.user, v = v[:user:user], v[user:]
	n := binary.LittleEndian.Uint32(v)
	v = v[4:]
	if n > muster.MaxBatchCommands || len(v) != int(n)*8 {
		return corrupt("result of request at txid %d: %d bytes for %d ids", r.txid, len(v), n)
	}
	r.ids = make([]uint64, n)
	for i := range r.ids {
		r.ids[i] = binary.LittleEndian.Uint64(v[8*i:])
	}
	return nil
}

func appendExpiry(dst []byte, id *muster.RequestID, stamp int64) []byte {
	dst = append(append(dst, expiryVersion), id.Client[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, id.Sequence)
	return binary.LittleEndian.AppendUint64(dst, uint64(stamp))
}

func decodeExpiry(v []byte) (id muster.RequestID, stamp int64, err error) {
	if len(v) != expiryLen || v[0] != expiryVersion {
		return id, 0, corrupt("expiry entry: unknown version or length %d", len(v))
	}
	id = muster.RequestID{Client: [16]byte(v[1:17]), Sequence: binary.LittleEndian.Uint64(v[17:])}
	return id, int64(binary.LittleEndian.Uint64(v[25:])), nil
}

// recall answers a request whose id was seen before. One that is being applied needs no
// care: the repeat waits in the same queue, and its answer in the same group.
func (tx *txn) recall(c *call) (applied muster.Applied, known bool, err error) {
	id := &c.request.ID
	tx.key = appendRequestKey(tx.key[:0], &id.Client, id.Sequence)
	v, err := tx.get(tx.key)
	if err != nil || v == nil {
		return applied, false, err
	}
	var r result
	if err := decodeResult(v, &r); err != nil {
		return applied, false, err
	}
	if tx.now-r.stamp > tx.tree.opts.RequestAge.Milliseconds() {
		tx.forget(id, r.txid)
		return applied, false, nil
	}
	if string(r.user) != c.request.Caller.User || r.hash != c.hash {
		return applied, true, fmt.Errorf("%w: request id %x/%d was used for another command or by another user", muster.ErrInvalid, id.Client, id.Sequence)
	}
	return muster.Applied{Txid: r.txid, IDs: r.ids, Repeat: true}, true, nil
}

// remember keeps a result.
func (tx *txn) remember(c *call, applied *muster.Applied) {
	id := &c.request.ID
	r := result{stamp: tx.meta.stamp, txid: applied.Txid, hash: c.hash, user: []byte(c.request.Caller.User), ids: applied.IDs}
	tx.key = appendRequestKey(tx.key[:0], &id.Client, id.Sequence)
	tx.value = appendResult(tx.value[:0], &r)
	tx.set(tx.key, tx.value)
	tx.key = appendIDKey(tx.key[:0], tagExpiry, applied.Txid)
	tx.value = appendExpiry(tx.value[:0], id, tx.meta.stamp)
	tx.set(tx.key, tx.value)
	tx.meta.requests++
}

// forget deletes a result.
func (tx *txn) forget(id *muster.RequestID, txid uint64) {
	tx.key = appendRequestKey(tx.key[:0], &id.Client, id.Sequence)
	tx.set(tx.key, nil)
	tx.key = appendIDKey(tx.key[:0], tagExpiry, txid)
	tx.set(tx.key, nil)
	tx.meta.requests--
}

// expiry finds results to forget: those too old, and the oldest past the bound.
type expiry struct {
	tree *Tree
	from uint64       // txid before which no entry is left
	next atomic.Int64 // ms; when the oldest result left expires
}

// expiryStep is how many results one step forgets at most.
const expiryStep = 512

// due says whether there is something to forget in a state.
func (e *expiry) due(m *meta) bool {
	return m.requests > 0 && (m.requests > uint64(e.tree.opts.RequestMax) || m.stamp > e.next.Load())
}

// step returns the txids of results to forget, at most expiryStep. The entries are walked
// from where the last step ended, so that deleted ones are never walked again.
func (e *expiry) step(v *View) ([]uint64, error) {
	iter, err := v.snap.NewIter(&pebble.IterOptions{
		LowerBound: appendIDKey(nil, tagExpiry, e.from), UpperBound: appendTagEnd(nil, tagExpiry),
	})
	if err != nil {
		return nil, store.Error(err)
	}
	defer iter.Close()
	excess := int64(v.meta.requests) - int64(e.tree.opts.RequestMax)
	age := e.tree.opts.RequestAge.Milliseconds()
	var txids []uint64
	for ok := iter.First(); ok && len(txids) < expiryStep; ok = iter.Next() {
		txid, _, ok := splitIDKey(iter.Key(), 0)
		if !ok {
			return nil, corrupt("expiry entry: bad key")
		}
		_, stamp, err := decodeExpiry(iter.Value())
		if err != nil {
			return nil, err
		}
		if int64(len(txids)) >= excess && v.meta.stamp-stamp <= age {
			e.next.Store(stamp + age)
			break
		}
		txids = append(txids, txid)
	}
	return txids, store.Error(iter.Error())
}

// expire forgets the results of these txids that are still kept.
func (tx *txn) expire(txids []uint64) error {
	for _, txid := range txids {
		tx.key = appendIDKey(tx.key[:0], tagExpiry, txid)
		v, err := tx.get(tx.key)
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		id, _, err := decodeExpiry(v)
		if err != nil {
			return err
		}
		tx.forget(&id, txid)
	}
	return nil
}

package namespace

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// txn is a group of requests on their way into the store: their writes lie over what was
// applied before, so that later requests see earlier ones. What a request writes depends
// on nothing but its commands, its stamp and what it reads here.
type txn struct {
	tree *Tree
	meta meta  // as of the request being applied
	now  int64 // ms; stamp of the request being applied
	who  principal
	walk walker
	gets uint64

	pending map[string]write
	ranges  []keyRange
	arena   arena
	key     []byte
	value   []byte
	row     muster.Row // scratch

	// To take back the request being applied.
	undo []undo
	mark mark
}

// write is a pending write; a nil value deletes.
type write struct{ value []byte }

type undo struct {
	key string
	old write
	had bool
}

type mark struct {
	meta   meta
	ranges int
}

// keyRange is a range of keys to delete, start included and end not.
type keyRange struct{ start, end []byte }

func (t *Tree) newTxn(m meta) *txn {
	return &txn{tree: t, meta: m, pending: map[string]write{}}
}

// begin starts a request of a caller.
func (tx *txn) begin(caller *muster.Identity) {
	tx.undo = tx.undo[:0]
	tx.mark = mark{tx.meta, len(tx.ranges)}
	tx.meta.stamp = tx.now
	tx.who = principal{caller, tx.tree.Superuser(caller)}
	tx.walk.init(tx, tx.who)
}

// rollback takes back all since begin.
func (tx *txn) rollback() {
	for _, u := range slices.Backward(tx.undo) {
		if u.had {
			tx.pending[u.key] = u.old
		} else {
			delete(tx.pending, u.key)
		}
	}
	tx.undo = tx.undo[:0]
	tx.meta = tx.mark.meta
	tx.ranges = tx.ranges[:tx.mark.ranges]
}

// changed says whether there is anything to write: a command that finds all done as it wants
// takes its txid still.
func (tx *txn) changed(since *meta) bool {
	return len(tx.pending) > 0 || len(tx.ranges) > 0 || tx.meta != *since
}

// get returns the value of key, nil if there is none. It stays valid.
func (tx *txn) get(key []byte) ([]byte, error) {
	if w, ok := tx.pending[string(key)]; ok {
		return w.value, nil
	}
	tx.gets++
	v, closer, err := tx.tree.db.Get(key)
	if err != nil {
		return nil, missingOK(err)
	}
	return tx.arena.copy(v), closer.Close()
}

// child implements source.
func (tx *txn) child(dir uint64, name string) ([]byte, error) {
	tx.key = appendRowKey(tx.key[:0], dir, name)
	return tx.get(tx.key)
}

// set writes a value, which is copied; nil deletes the key.
func (tx *txn) set(key, value []byte) {
	old, had := tx.pending[string(key)]
	k := string(key)
	tx.undo = append(tx.undo, undo{k, old, had})
	w := write{}
	if value != nil {
		w.value = tx.arena.copy(value)
	}
	tx.pending[k] = w
}

func (tx *txn) setRow(parent uint64, name string, r *muster.Row, b blockList) {
	tx.key = appendRowKey(tx.key[:0], parent, name)
	tx.value = appendRow(tx.value[:0], r, b)
	tx.set(tx.key, tx.value)
}

func (tx *txn) deleteRow(parent uint64, name string) {
	tx.key = appendRowKey(tx.key[:0], parent, name)
	tx.set(tx.key, nil)
}

func (tx *txn) record(id uint64) (record, error) {
	var rec record
	tx.key = appendIDKey(tx.key[:0], tagRecord, id)
	v, err := tx.get(tx.key)
	if err != nil {
		return rec, err
	}
	if v == nil {
		return rec, corrupt("inode %d has no record", id)
	}
	return rec, decodeRecord(v, &rec)
}

func (tx *txn) setRecord(id uint64, rec *record) {
	tx.key = appendIDKey(tx.key[:0], tagRecord, id)
	tx.value = appendRecord(tx.value[:0], rec)
	tx.set(tx.key, tx.value)
}

func (tx *txn) deleteRecord(id uint64) {
	tx.key = appendIDKey(tx.key[:0], tagRecord, id)
	tx.set(tx.key, nil)
}

// deleteChunks deletes the block list of a file past its row.
func (tx *txn) deleteChunks(file uint64) {
	tx.ranges = append(tx.ranges, keyRange{appendIDKey(nil, tagChunk, file), appendIDKey(nil, tagChunk, file+1)})
}

// batch returns all of the group as one batch of the store, counters included.
func (tx *txn) batch() (*pebble.Batch, error) {
	size := metaLen + 64
	for k, w := range tx.pending {
		size += len(k) + len(w.value) + 8
	}
	b := tx.tree.db.NewBatchWithSize(size)
	for k, w := range tx.pending {
		var err error
		if w.value == nil {
			err = b.Delete([]byte(k), nil)
		} else {
			err = b.Set([]byte(k), w.value, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	// After the writes: what was made and deleted in one group is then gone.
	for _, r := range tx.ranges {
		if err := b.DeleteRange(r.start, r.end, nil); err != nil {
			return nil, err
		}
	}
	tx.value = appendMeta(tx.value[:0], &tx.meta)
	return b, b.Set(metaKey(), tx.value, nil)
}

// run applies a request: all of its commands, or none.
func (tx *txn) run(c *call) (muster.Applied, error) {
	tx.now = max(tx.meta.stamp, tx.tree.opts.Now().UnixMilli())
	if c.request.ID != (muster.RequestID{}) {
		if applied, known, err := tx.recall(c); known || err != nil {
			return applied, err
		}
	}
	tx.begin(&c.request.Caller)
	tx.meta.txid++
	applied := muster.Applied{Txid: tx.meta.txid, IDs: make([]uint64, 0, len(c.request.Commands))}
	for i, cmd := range c.request.Commands {
		id, err := tx.apply(cmd)
		if err != nil {
			tx.rollback()
			return muster.Applied{}, &muster.CommandError{Index: i, Verb: cmd.Verb(), Path: cmd.Subject(), Err: err}
		}
		applied.IDs = append(applied.IDs, id)
	}
	if c.request.ID != (muster.RequestID{}) {
		tx.remember(c, &applied)
	}
	return applied, nil
}

// runInternal applies a step of the tree's own work. It takes no txid, as it changes nothing
// that a reader can see.
func (tx *txn) runInternal(step func(*txn) error) error {
	tx.now = tx.meta.stamp
	tx.begin(&internalCaller)
	err := step(tx)
	if err != nil {
		tx.rollback()
	}
	return err
}

// internalCaller makes the tree's own steps.
var internalCaller = muster.Identity{User: "muster"}

// apply applies one command and returns the id of the inode that it made or changed.
func (tx *txn) apply(c muster.Command) (uint64, error) {
	switch c := c.(type) {
	case muster.Mkdir:
		return tx.mkdir(&c)
	case muster.Create:
		return tx.create(&c)
	case muster.Symlink:
		return tx.symlink(&c)
	case muster.Rename:
		return tx.rename(&c)
	case muster.Delete:
		return tx.delete(&c)
	case muster.SetAttr:
		return tx.setAttr(&c)
	}
	return 0, fmt.Errorf("%w: unknown command %T", muster.ErrInvalid, c)
}

package namespace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// txn is a group of requests on their way into the store: their writes lie over what was
// applied before, so that later requests see earlier ones. What a request writes depends
// on nothing but its commands, its stamp and what it reads here.
type txn struct {
	tree  *Tree
	meta  meta   // as of the request being applied
	fresh uint64 // the first id that the store knows nothing of
	now   int64  // ms; stamp of the request being applied
	who   principal
	walk  walker
	gets  uint64

	rows    overlay[rowKey, []byte]       // nil: deleted
	records overlay[uint64, record]       // kind 0: deleted
	others  overlay[string, []byte]       // keys of all other kinds; nil: deleted
	deletes overlay[muster.BlockID, bool] // the queue of blocks; false: taken from it
	ranges  []keyRange

	made  uint64 // inode of the command before in the batch
	reach uint64 // a directory known to lead to the root; 0: none

	mark  mark // to take back the request being applied
	arena arena

	// Scratch.
	key    []byte
	value  []byte
	names  []byte
	blocks []byte
	row    muster.Row
}

// rowKey is where a row lies.
type rowKey struct {
	dir  uint64
	name string
}

func compareRowKeys(a, b *rowKey) int {
	if c := cmp.Compare(a.dir, b.dir); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

func compareIDs(a, b *uint64) int { return cmp.Compare(*a, *b) }

func compareBlocks(a, b *muster.BlockID) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.LocalID, b.LocalID))
}

type mark struct {
	meta   meta
	ranges int
}

// keyRange is a range of keys to delete, start included and end not.
type keyRange struct{ start, end []byte }

func (t *Tree) newTxn(m meta) *txn {
	tx := &txn{tree: t}
	tx.reset(m)
	return tx
}

// reset starts a new group over what has been applied.
func (tx *txn) reset(m meta) {
	tx.meta, tx.fresh, tx.gets = m, m.nextID, 0
	tx.rows.reset()
	tx.records.reset()
	tx.others.reset()
	tx.deletes.reset()
	tx.ranges, tx.arena, tx.row = nil, arena{}, muster.Row{}
	tx.who, tx.reach = principal{}, 0
}

// begin starts a request of a caller. Requests of one caller in a group share their walks.
func (tx *txn) begin(caller *muster.Identity) {
	tx.rows.begin()
	tx.records.begin()
	tx.others.begin()
	tx.deletes.begin()
	tx.mark = mark{tx.meta, len(tx.ranges)}
	tx.made = 0
	tx.meta.stamp = tx.now
	if tx.who.Identity == nil || tx.who.User != caller.User || !slices.Equal(tx.who.Groups, caller.Groups) {
		tx.who = principal{caller, tx.tree.Superuser(caller)}
		tx.walk.init(tx, tx.who)
	}
}

// rollback takes back all since begin.
func (tx *txn) rollback() {
	tx.rows.rollback()
	tx.records.rollback()
	tx.others.rollback()
	tx.deletes.rollback()
	tx.meta = tx.mark.meta
	tx.ranges = tx.ranges[:tx.mark.ranges]
	tx.walk.stale = true
	tx.reach = 0
}

// changed says whether there is anything to write: a command that finds all done as it wants
// takes its txid still.
func (tx *txn) changed(since *meta) bool {
	return len(tx.rows.entries)+len(tx.records.entries)+len(tx.others.entries)+len(tx.deletes.entries)+len(tx.ranges) > 0 || tx.meta != *since
}

// stored returns the value that a key has in the store, nil if there is none. It stays valid.
func (tx *txn) stored(key []byte) ([]byte, error) {
	tx.gets++
	v, closer, err := tx.tree.db.Get(key)
	if err != nil {
		return nil, missingOK(err)
	}
	return tx.arena.copy(v), closer.Close()
}

// get returns the value of a key of another kind than rows and records, nil if there is none.
// It stays valid.
func (tx *txn) get(key []byte) ([]byte, error) {
	if v, ok := tx.others.get(string(key)); ok {
		return v, nil
	}
	return tx.stored(key)
}

// set writes the value of such a key, which is copied; nil deletes the key.
func (tx *txn) set(key, value []byte) {
	if value != nil {
		value = tx.arena.copy(value)
	}
	tx.others.set(string(key), value)
}

// child implements source.
func (tx *txn) child(dir uint64, name string) ([]byte, error) {
	if v, ok := tx.rows.get(rowKey{dir, name}); ok || dir >= tx.fresh {
		return v, nil
	}
	tx.key = appendRowKey(tx.key[:0], dir, name)
	return tx.stored(tx.key)
}

func (tx *txn) setRow(parent uint64, name string, r *muster.Row, b blockList) {
	tx.value = appendRow(tx.value[:0], r, b)
	tx.rows.set(rowKey{parent, name}, tx.arena.copy(tx.value))
}

func (tx *txn) deleteRow(parent uint64, name string) { tx.rows.set(rowKey{parent, name}, nil) }

// record returns the record of an inode that must have one.
func (tx *txn) record(id uint64) (record, error) {
	rec, ok, err := tx.findRecord(id)
	if err == nil && !ok {
		err = corrupt("inode %d has no record", id)
	}
	return rec, err
}

// findRecord returns the record of an inode; ok is false if there is none.
func (tx *txn) findRecord(id uint64) (rec record, ok bool, err error) {
	if rec, ok = tx.records.get(id); ok || id >= tx.fresh {
		return rec, rec.kind != 0, nil
	}
	tx.key = appendIDKey(tx.key[:0], tagRecord, id)
	v, err := tx.stored(tx.key)
	if err != nil || v == nil {
		return rec, false, err
	}
	err = decodeRecord(v, &rec)
	return rec, err == nil, err
}

// setRecord writes a record, whose name must stay as it is.
func (tx *txn) setRecord(id uint64, rec *record) { tx.records.set(id, *rec) }

func (tx *txn) deleteRecord(id uint64) { tx.records.set(id, record{}) }

// deleteChunks deletes the block list of a file past its row.
func (tx *txn) deleteChunks(file uint64) {
	tx.ranges = append(tx.ranges, keyRange{appendIDKey(nil, tagChunk, file), appendIDKey(nil, tagChunk, file+1)})
}

// batch returns all of the group as one batch of the store, counters included. Keys of a kind
// ascend, which makes the store's own work less.
func (tx *txn) batch() (*pebble.Batch, error) {
	w := batchWriter{b: tx.tree.db.NewBatchWithSize(tx.size())}
	for e := range tx.records.sorted(compareIDs) {
		tx.key = appendIDKey(tx.key[:0], tagRecord, e.key)
		if tx.value = tx.value[:0]; e.value.kind != 0 {
			tx.value = appendRecord(tx.value, &e.value)
		}
		w.write(tx.key, tx.value)
	}
	for e := range tx.rows.sorted(compareRowKeys) {
		tx.key = appendRowKey(tx.key[:0], e.key.dir, e.key.name)
		w.write(tx.key, e.value)
	}
	for i := range tx.others.entries {
		e := &tx.others.entries[i]
		tx.key = append(tx.key[:0], e.key...)
		w.write(tx.key, e.value)
	}
	for e := range tx.deletes.sorted(compareBlocks) {
		tx.key = appendDeleteKey(tx.key[:0], e.key)
		if tx.value = tx.value[:0]; e.value {
			tx.value = append(tx.value, deleteVersion)
		}
		w.write(tx.key, tx.value)
	}
	// After the writes: what was made and deleted in one group is then gone.
	for _, r := range tx.ranges {
		w.deleteRange(r)
	}
	tx.value = appendMeta(tx.value[:0], &tx.meta)
	w.write(metaKey(), tx.value)
	return w.b, w.err
}

// size is about how many bytes the batch takes.
func (tx *txn) size() int {
	const overhead = 16 // of a write: its kind, and lengths
	n := metaLen + overhead
	for i := range tx.rows.entries {
		e := &tx.rows.entries[i]
		n += idKeyLen + len(e.key.name) + len(e.value) + overhead
	}
	for i := range tx.records.entries {
		e := &tx.records.entries[i]
		n += idKeyLen + recordHead + len(e.value.name) + overhead
		if e.value.kind == muster.Directory {
			n += recordTail
		}
	}
	for i := range tx.others.entries {
		e := &tx.others.entries[i]
		n += len(e.key) + len(e.value) + overhead
	}
	return n + len(tx.deletes.entries)*(deleteKeyLen+1+overhead)
}

// batchWriter writes into a batch and keeps the first error.
type batchWriter struct {
	b   *pebble.Batch
	err error
}

// write sets a value; one of no bytes deletes the key: nothing that is stored is empty.
func (w *batchWriter) write(key, value []byte) {
	switch {
	case w.err != nil:
	case len(value) == 0:
		w.err = w.b.Delete(key, nil)
	default:
		w.err = w.b.Set(key, value, nil)
	}
}

func (w *batchWriter) deleteRange(r keyRange) {
	if w.err == nil {
		w.err = w.b.DeleteRange(r.start, r.end, nil)
	}
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
		tx.made = id
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
	case muster.StartFile:
		return tx.startFile(&c)
	case muster.AddBlock:
		return tx.addBlock(&c)
	case muster.FinishFile:
		return tx.finishFile(&c)
	case muster.TakeLease:
		return tx.takeLease(&c)
	}
	return 0, fmt.Errorf("%w: unknown command %T", muster.ErrInvalid, c)
}

package namespace

import (
	"cmp"
	"slices"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
)

// Resolved is what a walk found at a path: all that later steps need, so that nothing is
// walked or read twice. It is a value, immutable, and good for every Reader of its view.
type Resolved struct {
	path   string
	row    []byte
	id     uint64
	kind   muster.Kind
	access uint8
}

// ID returns the inode id.
func (r *Resolved) ID() uint64 { return r.id }

// Kind returns the kind; muster.Link if the path's last component is a link that was not
// followed.
func (r *Resolved) Kind() muster.Kind { return r.kind }

// Path returns the path that was resolved, as [muster.CleanPath] gives it.
func (r *Resolved) Path() string { return r.path }

// Head is what a directory's record says of it.
type Head struct {
	MTime     int64  // ms since the epoch, UTC
	ChangedAt uint64 // txid of the last change to the children's rows
}

// Reader reads many paths of one view for one caller. It is for one goroutine. It keeps the
// walk of the path before, so resolving the sibling of a path costs one point read; one
// store iterator serves all its scans.
type Reader struct {
	view   *View
	snap   snapshot
	walk   walker
	scan   scan
	heads  *pebble.Iterator
	blocks bool // the scan wants block lists
	err    error
	list   []muster.Block
	order  []int32
	row    muster.Row
}

// NewReader returns a reader that sees what the caller may see. Close it before the view is
// released. Neither the caller nor a path given to the reader may change meanwhile. Readers
// are used again: a new one costs no allocation, and a closed one must not be touched.
func (v *View) NewReader(caller *muster.Identity) *Reader {
	r := v.tree.readers.Get().(*Reader)
	r.view, r.snap.snap = v, v.snap
	r.walk.init(&r.snap, principal{caller, v.tree.Superuser(caller)})
	return r
}

// Close ends the reader and gives it back.
func (r *Reader) Close() {
	err := r.scan.close()
	if r.heads != nil {
		err = cmp.Or(err, r.heads.Close())
		r.heads = nil
	}
	if err != nil {
		r.view.tree.opts.Logger.Warn("closing a reader failed", "error", err)
	}
	r.view.tree.counters.gets.Add(r.snap.gets)
	r.view.tree.counters.seeks.Add(r.snap.seeks)
	t := r.view.tree
	r.snap.gets, r.snap.seeks = 0, 0
	r.walk.init(nil, principal{})
	r.view, r.snap.snap, r.err, r.row = nil, nil, nil, muster.Row{}
	t.readers.Put(r)
}

// Load finds or reads all directories among res at once, in one ordered pass over the store,
// and notes in res what it found, so that Scan need not look for it. It skips what is no
// directory and what the caller may not list; it is never needed, only faster.
func (r *Reader) Load(res []Resolved) error { return nil }

// ChangedAt returns the txid of the last change to the rows of a directory's children, if it
// is known without reading the store; else see Heads.
func (r *Reader) ChangedAt(res *Resolved) (txid uint64, known bool) { return 0, false }

// Resolve walks a path as it came with a request, following a link in last place only if
// asked to. It checks that the caller may execute every directory passed, also on the way
// through links.
//
// Errors: ErrInvalid if muster.CleanPath refuses the path, ErrNotFound, ErrNotDirectory if an
// ancestor is none, ErrPermission, ErrLinkLoop, ErrCorrupt. They name the inode at fault,
// unless it is the path's own last component.
func (r *Reader) Resolve(path string, follow bool) (Resolved, error) {
	f, err := r.walk.resolve(path, follow)
	if err != nil {
		return Resolved{}, err
	}
	res := Resolved{path: r.walk.path, row: f.row}
	if f.node >= 0 {
		n := &r.walk.nodes[f.node]
		res.id, res.kind, res.access = n.id, muster.Directory, n.access
		return res, nil
	}
	res.id, res.kind, res.access = r.walk.cur.ID, r.walk.cur.Kind, r.walk.who.access(&r.walk.cur)
	return res, nil
}

// Row fills in the own entry of what was resolved, with an empty name. A directory's mtime
// comes from its record. With blocks, row.Blocks is a file's whole block list, not nil, and
// valid until the next call.
func (r *Reader) Row(res *Resolved, row *muster.Row, blocks bool) error {
	b, err := decodeRow(res.row, row)
	if err != nil {
		return err
	}
	row.Name = nil
	if row.Kind == muster.Directory {
		h, err := r.head(row.ID)
		row.MTime = h.MTime
		return err
	}
	if blocks && row.Kind == muster.File {
		return r.readBlocks(row, b)
	}
	return nil
}

func (r *Reader) head(id uint64) (Head, error) {
	var rec record
	r.snap.key = appendIDKey(r.snap.key[:0], tagRecord, id)
	v, err := r.snap.get(r.snap.key)
	if err == nil {
		err = decodeHead(v, id, &rec)
	}
	return Head{rec.mtime, rec.changedAt}, err
}

// decodeHead decodes the record of what its row says is a directory; v is nil if there is none.
func decodeHead(v []byte, id uint64, rec *record) error {
	if v == nil {
		return corrupt("directory %d has no record", id)
	}
	if err := decodeRecord(v, rec); err != nil {
		return err
	}
	if rec.kind != muster.Directory {
		return corrupt("directory %d has the record of a %v", id, rec.kind)
	}
	return nil
}

// readBlocks reads the whole block list of a file into row.Blocks.
func (r *Reader) readBlocks(row *muster.Row, b blockList) (err error) {
	if r.list == nil {
		r.list = make([]muster.Block, 0, inlineBlocks)
	}
	if r.list, err = decodeBlocks(r.list[:0], b.inline); err != nil {
		return err
	}
	for chunk := range b.chunks() {
		r.snap.key = appendChunkKey(r.snap.key[:0], row.ID, chunk)
		v, err := r.snap.get(r.snap.key)
		if err != nil {
			return err
		}
		if r.list, err = decodeChunk(r.list, v, b.chunkLen(chunk)); err != nil {
			return err
		}
	}
	row.Blocks = r.list
	return nil
}

// Scan starts reading the children of a directory whose names are after a given one; "" is
// before all names. The caller needs to read and execute it: ErrPermission else.
// ErrNotDirectory if it is none.
func (r *Reader) Scan(res *Resolved, after string, blocks bool) error {
	r.blocks = blocks
	r.err = r.startScan(res, after)
	return r.err
}

func (r *Reader) startScan(res *Resolved, after string) error {
	if res.kind != muster.Directory {
		return muster.ErrNotDirectory
	}
	if res.access&(mayRead|mayExecute) != mayRead|mayExecute {
		if _, err := decodeRow(res.row, &r.row); err != nil {
			return err
		}
		return r.walk.who.deny("read and execute", res.path, &r.row)
	}
	return r.scan.start(&r.snap, res.id, after)
}

// Next reads the next child, in the order of bytes of names; false at the end and at an
// error, which Err tells apart. What row refers to is valid until the next call. A
// directory's mtime is 0: see Heads.
func (r *Reader) Next(row *muster.Row) bool {
	if r.err != nil {
		return false
	}
	name, v, ok, err := r.scan.next()
	if ok {
		var b blockList
		if b, err = decodeRow(v, row); err == nil && r.blocks && row.Kind == muster.File {
			err = r.readBlocks(row, b)
		}
	}
	row.Name = name
	r.err = err
	return ok && err == nil
}

// Err returns the error that ended the scan, nil if it was read to its end. A damaged row
// is ErrCorrupt.
func (r *Reader) Err() error { return r.err }

// Heads reads the records of directories into heads, which has the length of ids, in one
// ordered pass over the store. An id of no directory is ErrCorrupt.
func (r *Reader) Heads(ids []uint64, heads []Head) error {
	if len(ids) == 0 {
		return nil
	}
	if r.heads == nil {
		iter, err := r.view.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{tagRecord}, UpperBound: []byte{tagRecord + 1}})
		if err != nil {
			return storeError(err)
		}
		r.heads = iter
	}
	r.order = r.order[:0]
	for i := range ids {
		r.order = append(r.order, int32(i))
	}
	if !slices.IsSorted(ids) {
		slices.SortFunc(r.order, func(a, b int32) int { return cmp.Compare(ids[a], ids[b]) })
	}
	for i, at := range r.order {
		if i > 0 && ids[at] == ids[r.order[i-1]] {
			heads[at] = heads[r.order[i-1]]
			continue
		}
		if err := r.seekHead(ids[at], &heads[at]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) seekHead(id uint64, h *Head) error {
	r.snap.seeks++
	r.snap.key = appendIDKey(r.snap.key[:0], tagRecord, id)
	var v []byte
	if r.heads.SeekGE(r.snap.key) {
		if at, _, ok := splitIDKey(r.heads.Key(), 0); ok && at == id {
			v = r.heads.Value()
		}
	}
	if err := r.heads.Error(); err != nil {
		return storeError(err)
	}
	var rec record
	err := decodeHead(v, id, &rec)
	*h = Head{rec.mtime, rec.changedAt}
	return err
}

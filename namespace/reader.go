package namespace

import (
	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace/images"
)

// Resolved is what a walk found at a path: all that later steps need, so that nothing is
// walked or read twice. It is a value and good for every Reader of its view; Load and Scan note in
// it how they have the directory, so a copy is for one goroutine.
type Resolved struct {
	path   string
	row    []byte
	id     uint64
	kind   muster.Kind
	access uint8
	held   held // what Load or Scan found out
}

// ID returns the inode id.
func (r *Resolved) ID() uint64 { return r.id }

// Kind returns the kind; muster.Link if the path's last component is a link that was not
// followed.
func (r *Resolved) Kind() muster.Kind { return r.kind }

// Path returns the path that was resolved, as [muster.CleanPath] gives it.
func (r *Resolved) Path() string { return r.path }

// Reader reads many paths of one view for one caller. It is for one goroutine. It keeps the
// walk of the path before, so that resolving the sibling of a path costs one look-up. What it
// reads of directories comes from images in memory, or becomes images; the rest comes from the
// view's snapshot, where one store iterator serves all scans.
type Reader struct {
	tree     *Tree
	cache    *images.Cache
	images   bool // the cache keeps something
	view     *View
	snap     snapshot
	lookups  lookups
	walk     walker
	parents  [parents]parent
	load     loading
	children children
	heads    records
	blocks   bool // the scan wants block lists
	err      error
	list     []muster.Block // room for those of a row
	order    []int32
	keys     []uint64 // scratch of Load
	items    []images.Item
	row      muster.Row
	hits     uint64 // look-ups of images
	misses   uint64
}

func newReader(t *Tree) *Reader {
	return &Reader{
		tree: t, cache: t.loads.cache, images: t.loads.cache.Stats().Budget > 0, load: loading{most: t.opts.imageRows},
		list: make([]muster.Block, 0, inlineBlocks),
	}
}

// NewReader returns a reader that sees what the caller may see. Close it before the view is
// released. Neither the caller nor a path given to the reader may change meanwhile. Readers
// are used again: a new one costs no allocation, and a closed one must not be touched.
func (v *View) NewReader(caller *muster.Identity) *Reader {
	r := v.tree.readers.Get().(*Reader)
	r.view, r.snap.snap = v, v.snap
	r.walk.init(r, principal{caller, v.tree.Superuser(caller)})
	return r
}

// Close ends the reader and gives it back.
func (r *Reader) Close() {
	r.noteClosed(r.children.scan.close())
	r.noteClosed(r.lookups.close())
	r.noteClosed(r.heads.close())
	r.noteClosed(r.load.close())
	c := &r.tree.counters
	c.gets.Add(r.snap.gets)
	c.seeks.Add(r.seeks())
	if r.hits+r.misses > 0 {
		r.cache.AddLookups(r.hits, r.misses)
	}
	r.snap.gets, r.snap.seeks, r.heads.seeks, r.load.seeks, r.load.records.seeks, r.hits, r.misses = 0, 0, 0, 0, 0, 0, 0
	r.forget()
	r.tree.readers.Put(r)
}

// seeks is how often an iterator was positioned.
func (r *Reader) seeks() uint64 {
	return r.snap.seeks + r.heads.seeks + r.load.seeks + r.load.records.seeks
}

// forget lets go of all that is not the reader's own.
func (r *Reader) forget() {
	r.walk.init(nil, principal{})
	r.walk.cur = muster.Row{}
	r.view, r.snap.snap, r.err, r.row = nil, nil, nil, muster.Row{}
	r.parents = [parents]parent{}
	r.children.image = image{}
	clear(r.items[:cap(r.items)])
	r.load.row, r.load.rec = muster.Row{}, record{}
}

func (r *Reader) noteClosed(err error) {
	if err != nil {
		r.tree.opts.Logger.Warn("closing a store iterator failed", "error", err)
	}
}

// Resolve walks a path as it came with a request, following a link in last place only if
// asked to. It checks that the caller may execute every directory passed, also on the way
// through links.
//
// Errors: ErrInvalid if muster.CleanPath refuses the path, ErrNotFound, ErrNotDirectory if an
// ancestor is none, ErrPermission, ErrLinkLoop, ErrCorrupt. They name the inode at fault,
// unless it is the path's own last component.
func (r *Reader) Resolve(path string, follow bool) (res Resolved, err error) {
	if r.images && r.resolveSibling(path, &res) {
		return res, nil
	}
	f, err := r.walk.resolve(path, follow)
	if err != nil {
		return Resolved{}, err
	}
	res.path, res.row = r.walk.path, f.row
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

// CheckRead says whether the caller may read the content of what was resolved: ErrPermission
// if not.
func (r *Reader) CheckRead(res *Resolved) error {
	if res.access&mayRead != 0 {
		return nil
	}
	if _, err := decodeRow(res.row, &r.row); err != nil {
		return err
	}
	return r.walk.who.deny("read", res.path, &r.row)
}

// head gives one directory's head.
func (r *Reader) head(id uint64) (Head, error) {
	if r.images {
		ids, heads := [1]uint64{id}, [1]Head{}
		err := r.Heads(ids[:], heads[:])
		return heads[0], err
	}
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
	row.Blocks, err = decodeBlocks(r.list[:0], b.inline)
	if err == nil && b.count > inlineBlocks {
		r.list, err = r.readChunks(row, b)
		row.Blocks = r.list
	}
	return err
}

// readChunks appends the blocks that are not in the row to those that are.
func (r *Reader) readChunks(row *muster.Row, b blockList) (list []muster.Block, err error) {
	list = row.Blocks
	for chunk := range b.chunks() {
		r.snap.key = appendChunkKey(r.snap.key[:0], row.ID, chunk)
		v, err := r.snap.get(r.snap.key)
		if err != nil {
			return list, err
		}
		if list, err = decodeChunk(list, v, b.chunkLen(chunk)); err != nil {
			return list, err
		}
	}
	return list, nil
}

// Scan starts reading the children of a directory whose names are after a given one; "" is
// before all names. The caller needs to read and execute it: ErrPermission else.
// ErrNotDirectory if it is none.
func (r *Reader) Scan(res *Resolved, after string, blocks bool) error {
	r.blocks = blocks
	r.err = r.startScan(res, after)
	return r.err
}

// Err returns the error that ended the scan, nil if it was read to its end. A damaged row
// is ErrCorrupt.
func (r *Reader) Err() error { return r.err }

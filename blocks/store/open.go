package store

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	kv "github.com/muster-fs/muster/store"
)

// format is the format of all files in a disk's folder.
var format = kv.Format{Name: "blocks", Version: 1}

// Sizes of the metadata's store: a chunk's record has 1 KiB, and is read when its block is opened.
const (
	metadataCache    = 8 << 20
	metadataMemTable = 4 << 20
)

// open opens the disk, removes what a crash left, and returns the containers.
func (d *disk) open() ([]*container, error) {
	o := &d.store.opts
	if o.Admit != nil {
		if err := o.Admit(d.dir); err != nil {
			return nil, err
		}
	}
	db, err := kv.Open(d.dir, kv.Options{Format: format, FS: o.FS, CacheBytes: metadataCache, MemTableBytes: metadataMemTable, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	d.kv = db
	found, err := d.load()
	if failed := db.Failure(); failed != nil {
		err = failed // the rest followed from it
	}
	if err != nil {
		_ = db.Close() // its failure, if any, is err
		d.kv = nil
		return nil, err
	}
	return found, nil
}

func (d *disk) load() ([]*container, error) {
	if !d.kv.Existed() {
		return nil, d.makeNew()
	}
	found, err := d.readContainers()
	if err != nil {
		return nil, err
	}
	if err := d.sweep(found); err != nil {
		return nil, fmt.Errorf("%w: %v", muster.ErrUnavailable, err)
	}
	return found, d.readScrub()
}

// makeNew makes a new disk of an empty folder. One with blocks or metadata lost its format file.
func (d *disk) makeNew() error {
	it, err := d.kv.DB.NewIter(nil)
	if err != nil {
		return kv.Error(err)
	}
	used := it.First()
	if used && string(it.Key()) == string(scrubKey()) { // of a crash before this was done
		used = it.Next()
	}
	if err := it.Close(); err != nil {
		return kv.Error(err)
	}
	files := d.store.opts.FS
	err = files.MkdirAll(d.path(), 0o700)
	var names []string
	if err == nil {
		names, err = files.List(d.path())
	}
	if err == nil {
		err = d.syncFolder(d.dir)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: make folder %q: %v", muster.ErrUnavailable, d.path(), err)
	case used:
		return d.kv.Incomplete()
	case len(names) > 0:
		return corrupt("it has blocks in %q, but no metadata of them", d.path())
	}
	d.scrubs.last.since = d.store.now()
	b := &batch{b: d.kv.DB.NewBatch()}
	b.set(scrubKey(), appendScrub(nil, d.scrubs.last))
	if b.err != nil {
		return kv.Error(b.err)
	}
	if err := d.kv.Commit(b.b, func() {}); err != nil {
		return err
	}
	return d.kv.Complete()
}

// readContainers reads what is in memory of the containers.
func (d *disk) readContainers() ([]*container, error) {
	it, err := d.kv.DB.NewIter(&pebble.IterOptions{LowerBound: []byte{tagContainer}, UpperBound: []byte{tagContainer + 1}})
	if err != nil {
		return nil, kv.Error(err)
	}
	var found []*container
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var c *container
		if c, err = d.readContainer(it.Key(), it.Value()); err == nil {
			found = append(found, c)
		}
	}
	if closeErr := it.Close(); err == nil {
		err = kv.Error(closeErr)
	}
	return found, err
}

func (d *disk) readContainer(key, value []byte) (*container, error) {
	if len(key) != 9 {
		return nil, corrupt("a container's key of %d bytes", len(key))
	}
	r, err := decodeContainer(value)
	if err != nil {
		return nil, err
	}
	c := newContainer(d, binary.BigEndian.Uint64(key[1:]))
	c.created, c.closed, c.durable = r.created, r.closed, true
	c.make = func() error { return nil } // its folder was durable before its record
	return c, nil
}

// sweep reads the containers' blocks, and removes what a crash left in the folders: files that were
// never counted, or were to be removed, and what unfinished ones have past their length.
func (d *disk) sweep(found []*container) error {
	names, err := d.store.opts.FS.List(d.path())
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, c := range found {
		has[strconv.FormatUint(c.id, 10)] = true
		if err := d.sweepContainer(c); err != nil {
			return err
		}
	}
	for _, name := range names {
		if isID(name) && !has[name] {
			d.removeLeft(d.path(name))
		}
	}
	return nil
}

func (d *disk) sweepContainer(c *container) error {
	has := map[string]bool{}
	err := d.eachBlock(muster.BlockID{Container: c.id}, func(id muster.BlockID, r blockRecord) bool {
		if id.Container != c.id {
			return false
		}
		has[strconv.FormatUint(id.LocalID, 10)] = true
		c.found(id, r)
		return true
	})
	if err != nil {
		return err
	}
	names, err := d.store.opts.FS.List(d.containerPath(c.id))
	if isMissing(err) {
		d.store.opts.Logger.Error("blocks: a container's folder is missing; its blocks cannot be read", "container", c.id, "disk", d.dir)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, repair := strings.CutSuffix(name, repairSuffix); repair || isID(name) && !has[name] {
			d.removeLeft(d.path(strconv.FormatUint(c.id, 10), name))
		}
	}
	for local, u := range c.unfinished {
		d.cutTail(d.blockPath(muster.BlockID{Container: c.id, LocalID: local}), u.length)
	}
	return nil
}

// found counts a block that was found when the disk was opened.
func (c *container) found(id muster.BlockID, r blockRecord) {
	c.disk.used.Add(r.length)
	if !r.committed {
		c.unfinished[id.LocalID] = unfinished{file: r.file, length: r.length, touched: r.touched}
		return
	}
	c.blocks++
	c.bytes += uint64(r.length)
	if r.damaged {
		c.damaged[id.LocalID] = struct{}{}
	}
}

// isID says whether a name is one that the store gives.
func isID(name string) bool {
	n, err := strconv.ParseUint(name, 10, 64)
	return err == nil && strconv.FormatUint(n, 10) == name
}

func (d *disk) removeLeft(path string) {
	if err := d.store.opts.FS.RemoveAll(path); err != nil {
		d.store.opts.Logger.Warn("blocks: what a crash left was not removed", "path", path, "error", err)
	}
}

// cutTail frees what a file has past a length, if that is possible. Nothing depends on it.
func (d *disk) cutTail(path string, length int64) {
	info, err := d.store.opts.FS.Stat(path)
	if err != nil || info.Size() <= length {
		return
	}
	if f, err := d.store.opts.FS.OpenReadWrite(path); err == nil {
		truncate(f, length)
		_ = f.Close() // nothing was written
	}
}

// close ends the committer and closes the metadata.
func (d *disk) close() error {
	if d.kv == nil {
		return nil
	}
	close(d.closing)
	<-d.ended
	d.kv.Flush()
	if err := d.kv.Close(); err != nil && d.alive() == nil {
		return fmt.Errorf("close the disk %s: %w", d.dir, err)
	}
	return nil
}

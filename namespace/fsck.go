package namespace

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// Problem is something wrong in the store.
type Problem struct {
	Kind    string // one of the constants below
	ID      uint64 // inode; 0 if it is not about one
	Path    string // as far as it is known
	Message string
}

// The kinds of problems.
const (
	ProblemDamaged  = "damaged"   // bytes that do not decode
	ProblemNoRecord = "no-record" // a row whose inode has no record, or one of elsewhere
	ProblemNoRow    = "no-row"    // a record whose row is missing, or is another inode's
	ProblemCounts   = "counts"    // a directory's counts differ from its rows
	ProblemLoop     = "loop"      // directories that lead to no root
	ProblemBlocks   = "blocks"    // a block list with missing or superfluous chunks
	ProblemQueue    = "queue"     // a detached directory that is not queued for reclaim, or the other way round
	ProblemWriting  = "writing"   // a file that is being written by nobody known, or the other way round
	ProblemDelete   = "delete"    // a block to be deleted that a file has, or a dropped file that is there
	ProblemRequest  = "request"   // a kept result without its expiry, or the other way round
	ProblemTotals   = "totals"    // the tree's counters differ from what is there
)

// FsckSummary counts what a check saw.
type FsckSummary struct {
	Inodes      uint64 // attached
	Directories uint64
	Files       uint64
	Links       uint64
	Reclaiming  uint64 // inodes in detached trees
	Problems    uint64
}

// Fsck checks one view of the whole store and reports each problem: that every row has its
// record and the other way round, counts, parents, block lists, detached trees, files being
// written, blocks to be deleted, results of requests and the tree's counters. Commands go on meanwhile. Memory is two bits for each
// inode id ever given. An error of report, or of the context, ends it.
func (t *Tree) Fsck(ctx context.Context, report func(Problem) error) (FsckSummary, error) {
	v, err := t.View()
	if err != nil {
		return FsckSummary{}, err
	}
	defer v.Release()
	c := &checker{ctx: ctx, view: v, snap: snapshot{snap: v.snap}, report: report}
	c.roots = [2]bitset{newBitset(v.meta.nextID), newBitset(v.meta.nextID)}
	for _, pass := range []func() error{c.deletes, c.rows, c.records, c.chunks, c.queue, c.writings, c.drops, c.requests, c.expiries, c.strangers, c.totals} {
		if err := pass(); err != nil {
			return c.sum, err
		}
	}
	return c.sum, nil
}

// checker is one run of Fsck.
type checker struct {
	ctx    context.Context
	view   *View
	snap   snapshot
	report func(Problem) error
	sum    FsckSummary
	steps  int
	blocks []muster.Block // scratch

	roots [2]bitset // directories known to lead to the root, and to a detached directory

	seen struct{ records, queue, requests, expiries, writings, drops, deletes uint64 } // keys
}

const (
	attached = 0
	detached = 1
)

// problem reports one. Only it counts problems.
func (c *checker) problem(kind string, id uint64, path, format string, args ...any) error {
	c.sum.Problems++
	return c.report(Problem{kind, id, path, fmt.Sprintf(format, args...)})
}

// each calls visit with all keys of a tag. Errors of decoding that visit returns are
// problems.
func (c *checker) each(tag byte, visit func(key, value []byte) error) error {
	iter, err := c.view.snap.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		return store.Error(err)
	}
	defer iter.Close()
	for ok := iter.First(); ok; ok = iter.Next() {
		if c.steps++; c.steps%1024 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		v, err := iter.ValueAndErr()
		if err != nil {
			return store.Error(err)
		}
		if err = visit(iter.Key(), v); err == nil {
			continue
		}
		var damage damageError
		if !errors.As(err, &damage) {
			return err
		}
		id, _, _ := splitIDKey(iter.Key(), -1)
		if err := c.problem(ProblemDamaged, id, "", "key %q: %v", iter.Key(), damage.error); err != nil {
			return err
		}
	}
	return store.Error(iter.Error())
}

// damageError is a decoder's error about the key being visited.
type damageError struct{ error }

func damaged(err error) error {
	if err == nil {
		return nil
	}
	return damageError{err}
}

// record reads the record of an inode; ok is false if there is none that decodes.
func (c *checker) record(id uint64, rec *record) (ok bool, err error) {
	v, err := c.snap.get(appendIDKey(nil, tagRecord, id))
	return err == nil && v != nil && decodeRecord(v, rec) == nil, err
}

// done returns the progress of a directory's reclaim; queued is false if it is not queued.
func (c *checker) done(id uint64) (done []byte, queued bool, err error) {
	v, err := c.snap.get(appendIDKey(nil, tagQueue, id))
	if err != nil || v == nil {
		return nil, false, err
	}
	done, err = decodeQueue(v)
	return done, err == nil, nil
}

// listing is the directory whose rows are being checked.
type listing struct {
	id            uint64
	rec           record
	known         bool
	queued        bool
	done          string
	entries, dirs uint64
}

// rows checks every row against its record, and each directory's counts against its rows.
func (c *checker) rows() error {
	var dir listing
	err := c.each(tagRow, func(key, value []byte) error {
		parent, name, ok := splitIDKey(key, -1)
		if !ok || parent > 0 && !nameOK(name) || parent == 0 && len(name) > 0 {
			return damaged(corrupt("bad row key"))
		}
		if dir.id != parent {
			if err := c.leave(&dir); err != nil {
				return err
			}
			if err := c.enter(&dir, parent); err != nil {
				return err
			}
		}
		var r muster.Row
		b, err := decodeRow(value, &r)
		dir.entries++
		if r.Kind == muster.Directory {
			dir.dirs++
		}
		if err != nil {
			return damaged(err)
		}
		if dir.queued && string(name) <= dir.done {
			return nil // reclaimed up to here
		}
		return c.row(parent, string(name), &r, b)
	})
	if err != nil {
		return err
	}
	return c.leave(&dir)
}

func (c *checker) enter(dir *listing, id uint64) (err error) {
	*dir = listing{id: id}
	if id == 0 {
		return nil
	}
	if dir.known, err = c.record(id, &dir.rec); err != nil {
		return err
	}
	done, queued, err := c.done(id)
	dir.done, dir.queued = string(done), queued
	if err == nil && !dir.known {
		err = c.problem(ProblemNoRecord, id, "", "there are rows in directory %d, which has no record", id)
	}
	return err
}

func (c *checker) leave(dir *listing) error {
	if dir.id == 0 || !dir.known || dir.queued {
		return nil
	}
	if dir.rec.kind != muster.Directory {
		return c.problem(ProblemNoRecord, dir.id, c.path(dir.id), "there are rows in inode %d, which is a %v", dir.id, dir.rec.kind)
	}
	if dir.rec.entries != dir.entries || dir.rec.dirs != dir.dirs {
		return c.problem(ProblemCounts, dir.id, c.path(dir.id), "the record counts %d entries and %d directories; there are %d and %d",
			dir.rec.entries, dir.rec.dirs, dir.entries, dir.dirs)
	}
	return nil
}

// row checks one row that lies at (parent, name).
func (c *checker) row(parent uint64, name string, r *muster.Row, b blockList) error {
	var rec record
	ok, err := c.record(r.ID, &rec)
	switch {
	case err != nil:
		return err
	case !ok:
		return c.problem(ProblemNoRecord, r.ID, muster.JoinPath(c.path(parent), name), "%v %d has no record", r.Kind, r.ID)
	case rec.parent != parent || string(rec.name) != name || rec.kind != r.Kind:
		return c.problem(ProblemNoRecord, r.ID, muster.JoinPath(c.path(parent), name), "the record of %v %d is that of %v %q in %d",
			r.Kind, r.ID, rec.kind, rec.name, rec.parent)
	}
	if r.Kind != muster.File {
		return nil
	}
	wrong, err := c.blockList(r, b)
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return c.problem(ProblemBlocks, r.ID, muster.JoinPath(c.path(parent), name), "file %d: %v", r.ID, wrong)
	}
	if err := c.notDeleted(parent, name, r.ID); err != nil || r.Flags&muster.FlagWriting == 0 {
		return err
	}
	return c.isWritten(parent, name, r.ID)
}

// blockList reads the block list of a file and says what is wrong with it.
func (c *checker) blockList(r *muster.Row, b blockList) (wrong, err error) {
	if c.blocks, wrong = decodeBlocks(c.blocks[:0], b.inline); wrong != nil {
		return wrong, nil
	}
	for chunk := range b.chunks() {
		v, err := c.snap.get(appendChunkKey(nil, r.ID, chunk))
		if err != nil {
			return nil, err
		}
		if c.blocks, wrong = decodeChunk(c.blocks, v, b.chunkLen(chunk)); wrong != nil {
			return fmt.Errorf("chunk %d: %w", chunk, wrong), nil
		}
	}
	left := r.Length
	for i, block := range c.blocks {
		if left -= block.Length; left < 0 {
			return corrupt("block %d passes the length %d", i, r.Length), nil
		}
	}
	return nil, nil
}

// records checks that every record has its row and leads to a root.
func (c *checker) records() error {
	return c.each(tagRecord, func(key, value []byte) error {
		id, _, ok := splitIDKey(key, 0)
		if !ok || id == 0 || id >= c.view.meta.nextID {
			return damaged(corrupt("bad record key"))
		}
		c.seen.records++
		var rec record
		if err := decodeRecord(value, &rec); err != nil {
			return damaged(err)
		}
		if now := c.view.meta.txid; rec.recordAt > now {
			return damaged(corrupt("changed at txid %d, and the last one was %d", rec.recordAt, now))
		}
		if err := c.place(id, &rec); err != nil {
			return err
		}
		root, ok, err := c.root(id, &rec)
		if err != nil {
			return err
		}
		c.tally(&rec, root)
		if !ok {
			return c.problem(ProblemLoop, id, "", "%v %d, %q in %d, does not lead to the root", rec.kind, id, rec.name, rec.parent)
		}
		if rec.kind == muster.Directory && rec.entries > 0 {
			return c.hasRows(id, &rec)
		}
		return nil
	})
}

func (c *checker) tally(rec *record, root int) {
	if root == detached {
		c.sum.Reclaiming++
		return
	}
	c.sum.Inodes++
	switch rec.kind {
	case muster.Directory:
		c.sum.Directories++
	case muster.File:
		c.sum.Files++
	default:
		c.sum.Links++
	}
}

// place checks that a record's row is where the record says.
func (c *checker) place(id uint64, rec *record) error {
	if rec.parent == 0 && id != rootID {
		_, queued, err := c.done(id)
		if err == nil && !queued {
			err = c.problem(ProblemQueue, id, "", "detached directory %d is not queued for reclaim", id)
		}
		return err
	}
	v, err := c.snap.child(rec.parent, string(rec.name))
	if err != nil {
		return err
	}
	var r muster.Row
	if v == nil {
		return c.problem(ProblemNoRow, id, "", "%v %d, %q in %d, has no row", rec.kind, id, rec.name, rec.parent)
	}
	if _, err := decodeRow(v, &r); err != nil {
		return nil // reported with the rows
	}
	if r.ID != id {
		return c.problem(ProblemNoRow, id, "", "the row of %v %d, %q in %d, is that of %d", rec.kind, id, rec.name, rec.parent, r.ID)
	}
	return nil
}

// hasRows catches a directory that counts entries and has no row at all; the others are
// compared with their rows.
func (c *checker) hasRows(id uint64, rec *record) error {
	if _, queued, err := c.done(id); err != nil || queued {
		return err
	}
	var s scan
	if err := s.start(&c.snap, id, ""); err != nil {
		return err
	}
	any := s.begun
	if err := s.close(); err != nil || any {
		return err
	}
	return c.problem(ProblemCounts, id, c.path(id), "the record counts %d entries and %d directories; there are none", rec.entries, rec.dirs)
}

package namespace

import (
	"encoding/binary"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// chunks checks that each chunk belongs to a file's block list; that none is missing is
// checked with the rows.
func (c *checker) chunks() error {
	var file uint64
	var chunks int
	return c.each(tagChunk, func(key, _ []byte) error {
		id, tail, ok := splitIDKey(key, 4)
		if !ok {
			return damaged(corrupt("bad chunk key"))
		}
		if id != file {
			n, err := c.chunksOf(id)
			if err != nil {
				return err
			}
			file, chunks = id, n
		}
		if n := binary.BigEndian.Uint32(tail); int64(n) >= int64(chunks) {
			return c.problem(ProblemBlocks, id, "", "chunk %d of inode %d, whose block list has %d chunks", n, id, chunks)
		}
		return nil
	})
}

// chunksOf returns how many chunks the row of an inode wants, or how many a file left that was
// dropped; 0 if there is neither.
func (c *checker) chunksOf(id uint64) (int, error) {
	var rec record
	ok, err := c.record(id, &rec)
	if err != nil {
		return 0, err
	}
	if !ok {
		v, err := c.snap.get(appendIDKey(nil, tagDropped, id))
		if err != nil || v == nil {
			return 0, err
		}
		d, err := decodeDropped(v)
		if err != nil {
			return 0, nil // reported with the dropped files
		}
		return d.chunks(), nil
	}
	v, err := c.snap.child(rec.parent, string(rec.name))
	if err != nil || v == nil {
		return 0, err
	}
	var r muster.Row
	b, err := decodeRow(v, &r)
	if err != nil || r.ID != id {
		return 0, nil // reported with the rows
	}
	return b.chunks(), nil
}

// queue checks that what is queued for reclaim is detached.
func (c *checker) queue() error {
	return c.each(tagQueue, func(key, value []byte) error {
		id, _, ok := splitIDKey(key, 0)
		if !ok {
			return damaged(corrupt("bad queue key"))
		}
		c.seen.queue++
		if _, err := decodeQueue(value); err != nil {
			return damaged(err)
		}
		var rec record
		ok, err := c.record(id, &rec)
		if err == nil && (!ok || rec.parent != 0 || rec.kind != muster.Directory || id == rootID) {
			err = c.problem(ProblemQueue, id, "", "inode %d is queued for reclaim and no detached directory", id)
		}
		return err
	})
}

// requests checks that each result has its expiry.
func (c *checker) requests() error {
	return c.each(tagRequest, func(key, value []byte) error {
		c.seen.requests++
		var r result
		if len(key) != requestKeyLen {
			return damaged(corrupt("bad request key"))
		}
		if err := decodeResult(value, &r); err != nil {
			return damaged(err)
		}
		v, err := c.snap.get(appendIDKey(nil, tagExpiry, r.txid))
		if err != nil {
			return err
		}
		id, _, err := decodeExpiry(v)
		if want := string(appendRequestKey(nil, &id.Client, id.Sequence)); err != nil || want != string(key) {
			return c.problem(ProblemRequest, 0, "", "the result of txid %d does not expire", r.txid)
		}
		return nil
	})
}

// expiries checks that each expiry has its result.
func (c *checker) expiries() error {
	return c.each(tagExpiry, func(key, value []byte) error {
		c.seen.expiries++
		txid, _, ok := splitIDKey(key, 0)
		if !ok {
			return damaged(corrupt("bad expiry key"))
		}
		id, _, err := decodeExpiry(value)
		if err != nil {
			return damaged(err)
		}
		v, err := c.snap.get(appendRequestKey(nil, &id.Client, id.Sequence))
		if err != nil {
			return err
		}
		var r result
		if v == nil || decodeResult(v, &r) != nil || r.txid != txid {
			return c.problem(ProblemRequest, 0, "", "no result expires by txid %d", txid)
		}
		return nil
	})
}

// strangers finds keys that are of no known kind.
func (c *checker) strangers() error {
	iter, err := c.view.snap.NewIter(nil)
	if err != nil {
		return store.Error(err)
	}
	defer iter.Close()
	for ok := iter.First(); ok; {
		key := iter.Key()
		if len(key) > 0 {
			switch key[0] {
			case tagChunk, tagDelete, tagExpiry, tagRecord, tagQueue, tagRow, tagRequest, tagWriting, tagDropped: // seen already
				ok = iter.SeekGE([]byte{key[0] + 1})
				continue
			}
		}
		if string(key) != string(metaKey()) {
			if err := c.problem(ProblemDamaged, 0, "", "key %q: unknown kind", key); err != nil {
				return err
			}
		}
		ok = iter.Next()
	}
	return store.Error(iter.Error())
}

// totals compares the tree's counters with what was seen.
func (c *checker) totals() error {
	m := &c.view.meta
	for _, t := range []struct {
		name        string
		count, seen uint64
	}{
		{"inodes", m.inodes, c.seen.records},
		{"directories queued for reclaim", m.detached, c.seen.queue},
		{"files being written", m.writing, c.seen.writings},
		{"files dropped", m.dropped, c.seen.drops},
		{"results of requests", m.requests, c.seen.requests},
		{"expiries of requests", m.requests, c.seen.expiries},
	} {
		if t.count == t.seen {
			continue
		}
		if err := c.problem(ProblemTotals, 0, "", "%d %s are counted; there are %d", t.count, t.name, t.seen); err != nil {
			return err
		}
	}
	return nil
}

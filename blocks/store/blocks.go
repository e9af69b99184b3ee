package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	kv "github.com/muster-fs/muster/store"
)

// Stat returns what is known of a block, committed or not. ErrNotFound: there is no such
// container; ErrNoData: it has no such block.
func (s *Store) Stat(id muster.BlockID) (Info, error) {
	info, err := s.stat(id)
	if err != nil {
		return Info{}, fmt.Errorf("look up block %v: %w", id, err)
	}
	return info, nil
}

func (s *Store) stat(id muster.BlockID) (Info, error) {
	if err := s.gate.enter(); err != nil {
		return Info{}, err
	}
	defer s.gate.leave()
	c, err := s.find(id)
	if err != nil {
		return Info{}, err
	}
	e := s.cache.peek(id)
	if e == nil {
		e = &entry{}
		var sums []byte
		if e.record, sums, err = c.disk.lookup(id); err != nil {
			return Info{}, err
		}
		e.chunks = chunkSums(e.record.length, sums)
	}
	return Info{
		Length: e.record.length, Committed: e.record.committed, Damaged: c.isDamaged(id.LocalID), File: e.record.file,
		Created: fromMillis(e.record.created), Touched: fromMillis(e.record.touched), Chunks: e.chunks,
	}, nil
}

func (c *container) isDamaged(local uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, is := c.damaged[local]
	return is
}

// Delete removes a block for good, and leaves its tombstone also if it is not here: a copy under way
// may be about to make even its container. A Writer that it still has can do no more. What is deleted at
// the same time by several goroutines is made durable at once. ErrUnavailable: the disk is so full
// that not even that can be written.
func (s *Store) Delete(id muster.BlockID) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	if err := s.remove(id); err != nil {
		return fmt.Errorf("delete block %v: %w", id, err)
	}
	return nil
}

func (s *Store) remove(id muster.BlockID) error {
	if id.Container == 0 || id.LocalID == 0 {
		return fmt.Errorf("%w: ids are from 1", muster.ErrInvalid)
	}
	done, err := s.removeHere(id)
	if done || err != nil {
		return err
	}
	if err := s.bury(id); err != nil {
		return err
	}
	// Who made the container before that may have looked for the tombstone too early; who makes it from
	// now on finds it.
	_, err = s.removeHere(id)
	return err
}

// removeHere is not done if the container is not here.
func (s *Store) removeHere(id muster.BlockID) (done bool, err error) {
	c := s.known(id.Container)
	if c == nil {
		return false, nil
	}
	if err := c.disk.change(func(b *batch) (func(), error) { return c.planDelete(b, id) }); err != nil {
		if c.ended() != nil {
			return false, nil
		}
		return false, err
	}
	if err := s.opts.FS.Remove(c.disk.blockPath(id)); err != nil && !isMissing(err) {
		s.opts.Logger.Warn("blocks: the file of a deleted block was not removed; the next start removes it", "block", id, "error", err)
	}
	return true, nil
}

// bury leaves a tombstone on the first disk that takes it, since all are asked for it.
func (s *Store) bury(id muster.BlockID) (err error) {
	for _, d := range s.disks {
		if d.alive() != nil {
			continue
		}
		err = d.change(func(b *batch) (func(), error) {
			b.set(tombstoneKey(id), appendTombstone(nil, s.now()))
			return nil, nil
		})
		if err == nil {
			return nil
		}
	}
	return err
}

func (c *container) planDelete(b *batch, id muster.BlockID) (func(), error) {
	if err := c.ended(); err != nil {
		return nil, err
	}
	v, found, err := b.get(blockKey(id))
	if err != nil {
		return nil, err
	}
	r := blockRecord{}
	if found {
		if r, err = decodeBlock(v); err != nil {
			return nil, err
		}
	}
	c.stopWriter(id.LocalID, fmt.Errorf("%w: it was deleted", muster.ErrNoData))
	b.set(tombstoneKey(id), appendTombstone(nil, c.disk.store.now()))
	if !found {
		return nil, nil
	}
	b.deleteBlock(id, r.length)
	return func() { c.lost(id, r) }, nil
}

// lost shows that a block is no more.
func (c *container) lost(id muster.BlockID, r blockRecord) {
	c.mu.Lock()
	if r.committed {
		c.blocks--
		c.bytes -= uint64(r.length)
	}
	delete(c.unfinished, id.LocalID)
	delete(c.damaged, id.LocalID)
	c.mu.Unlock()
	c.epoch.Add(1)
	c.disk.store.cache.drop(id)
	c.disk.used.Add(-r.length)
	c.disk.store.counts.deleted.Add(1)
	if r.committed {
		c.changed()
	}
}

// Deleted says whether a block was deleted here, within TombstoneLife.
func (s *Store) Deleted(id muster.BlockID) bool {
	if s.gate.enter() != nil {
		return false
	}
	defer s.gate.leave()
	return s.deleted(id)
}

func (s *Store) deleted(id muster.BlockID) bool {
	for _, d := range s.disks {
		if d.alive() != nil {
			continue
		}
		v, found, err := get(d.kv.DB, tombstoneKey(id))
		if err != nil || !found {
			continue
		}
		if at, err := decodeTombstone(v); err == nil && s.now()-at < TombstoneLife.Milliseconds() {
			return true
		}
	}
	return false
}

// List returns up to max blocks of a container after a local id, in the order of their ids.
func (s *Store) List(container, after uint64, max int) ([]Listed, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	c, err := s.container(container)
	if err == nil && max < 1 {
		err = fmt.Errorf("%w: at most %d blocks; from 1", muster.ErrInvalid, max)
	}
	out := []Listed{}
	if err == nil {
		err = c.disk.eachBlock(muster.BlockID{Container: container, LocalID: after}, func(id muster.BlockID, r blockRecord) bool {
			if id.Container != container {
				return false
			}
			out = append(out, Listed{LocalID: id.LocalID, Length: r.length, Committed: r.committed, Damaged: r.damaged, File: r.file})
			return len(out) < max
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list container %d: %w", container, err)
	}
	return out, nil
}

// eachBlock calls do with the blocks after an id, in order, until it returns false.
func (d *disk) eachBlock(after muster.BlockID, do func(muster.BlockID, blockRecord) bool) error {
	it, err := d.kv.DB.NewIter(&pebble.IterOptions{LowerBound: blockKey(after), UpperBound: []byte{tagBlock + 1}})
	if err != nil {
		return d.sound(kv.Error(err))
	}
	more := true
	for ok := it.First(); ok && more && err == nil; ok = it.Next() {
		var id muster.BlockID
		var r blockRecord
		if id, err = idIn(it.Key()); err == nil {
			r, err = decodeBlock(it.Value())
		}
		if err == nil && id != after {
			more = do(id, r)
		}
	}
	if closeErr := it.Close(); err == nil {
		err = kv.Error(closeErr)
	}
	return d.sound(err)
}

// eachCommitted is eachBlock of committed ones.
func (d *disk) eachCommitted(after muster.BlockID, do func(muster.BlockID, blockRecord) bool) error {
	return d.eachBlock(after, func(id muster.BlockID, r blockRecord) bool { return !r.committed || do(id, r) })
}

// Unfinished returns up to max blocks that are not committed and were not touched for olderThan,
// the oldest first.
func (s *Store) Unfinished(olderThan time.Duration, max int) []Unfinished {
	out := []Unfinished{}
	now := s.now()
	for _, c := range s.all() {
		c.mu.Lock()
		for local, u := range c.unfinished {
			if age := time.Duration(now-u.touched) * time.Millisecond; age >= olderThan {
				out = append(out, Unfinished{ID: muster.BlockID{Container: c.id, LocalID: local}, File: u.file, Age: age})
			}
		}
		c.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Unfinished) int {
		return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.ID.Container, b.ID.Container), cmp.Compare(a.ID.LocalID, b.ID.LocalID))
	})
	return out[:min(len(out), max)]
}

// mark notes whether a committed block is damaged.
func (d *disk) mark(c *container, id muster.BlockID, damaged bool) error {
	return d.markAt(c, id, damaged, func() bool { return true })
}

// markAt is mark if it is still so when it is made durable.
func (d *disk) markAt(c *container, id muster.BlockID, damaged bool, still func() bool) error {
	if c.isDamaged(id.LocalID) == damaged {
		return nil
	}
	return d.change(func(b *batch) (func(), error) {
		if err := c.ended(); err != nil {
			return nil, err
		}
		r, err := record(b.b, id)
		if err != nil || !r.committed || r.damaged == damaged || !still() {
			return nil, err
		}
		r.damaged = damaged
		b.set(blockKey(id), appendBlock(nil, r))
		return func() { c.marked(id.LocalID, damaged) }, nil
	})
}

func (c *container) marked(local uint64, damaged bool) {
	c.mu.Lock()
	if damaged {
		c.damaged[local] = struct{}{}
		c.disk.store.counts.damageFound.Add(1)
	} else {
		delete(c.damaged, local)
	}
	c.mu.Unlock()
	c.changed()
}

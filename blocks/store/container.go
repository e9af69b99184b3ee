package store

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
)

// container is a container on a disk.
type container struct {
	id   uint64
	disk *disk
	make func() error // its folder, once; it must not fail when the container is durable

	// epoch counts what takes blocks away, so that an entry of the cache that was begun before
	// is not put there after.
	epoch atomic.Uint64

	// mu guards what follows. What is durable is changed by the disk's committer alone.
	mu         sync.Mutex
	created    int64 // ms
	durable    bool  // it has a record: it exists for others
	closed     bool
	gone       error // why it is no more
	blocks     uint64
	bytes      uint64
	damaged    map[uint64]struct{}   // committed ones, by local id
	unfinished map[uint64]unfinished // durable and not committed
	writers    map[uint64]*Writer    // blocks that are being written
}

// unfinished is what is in memory of a block that is durable and not committed.
type unfinished struct {
	file    uint64
	length  int64
	touched int64 // ms
}

func newContainer(d *disk, id uint64) *container {
	c := &container{
		id: id, disk: d, created: d.store.now(),
		damaged: map[uint64]struct{}{}, unfinished: map[uint64]unfinished{}, writers: map[uint64]*Writer{},
	}
	c.make = sync.OnceValue(func() error {
		err := d.store.opts.FS.MkdirAll(d.containerPath(id), 0o700)
		if err == nil {
			err = d.syncFolder(d.path())
		}
		return err
	})
	return c
}

// now is the time in ms.
func (s *Store) now() int64 { return max(0, s.opts.Now().UnixMilli()) }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms) }

// container returns a container that exists.
func (s *Store) container(id uint64) (*container, error) {
	if id == 0 {
		return nil, fmt.Errorf("%w: container 0", muster.ErrInvalid)
	}
	c := s.known(id)
	if c == nil {
		return nil, noContainer(id)
	}
	return c, c.exists()
}

func noContainer(id uint64) error {
	return fmt.Errorf("%w: there is no container %d here", muster.ErrNotFound, id)
}

// known returns a container, though it may only be about to exist; nil if there is none.
func (s *Store) known(id uint64) *container {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containers[id]
}

func (c *container) exists() error {
	if err := c.disk.alive(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil && !c.durable {
		return noContainer(c.id)
	}
	return c.gone
}

// containerFor returns the container of a new block, which it makes if need be.
func (s *Store) containerFor(id uint64) (*container, error) {
	c := s.known(id)
	if c == nil {
		d := s.emptiest() // asks the system, so not under the lock
		if d == nil {
			return nil, fmt.Errorf("%w: no disk takes blocks", muster.ErrUnavailable)
		}
		s.mu.Lock()
		if c = s.containers[id]; c == nil {
			c = newContainer(d, id)
			s.containers[id] = c
		}
		s.mu.Unlock()
	}
	if err := c.make(); err != nil {
		err = c.disk.ioError("make its folder", err, muster.BlockID{})
		s.forget(c, err)
		return nil, err
	}
	return c, nil
}

// emptiest returns the disk with the most room, or of several, the one with the fewest bytes; nil
// if none takes blocks.
func (s *Store) emptiest() (best *disk) {
	var most, least uint64
	for _, d := range s.disks {
		if st := d.state(); st.State == DiskOK && (best == nil || st.Free > most || st.Free == most && st.Used < least) {
			best, most, least = d, st.Free, st.Used
		}
	}
	return best
}

// forget takes a container out of memory.
func (s *Store) forget(c *container, why error) {
	durable := c.end(why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers[c.id] == c {
		delete(s.containers, c.id)
	}
	if durable {
		s.noteChange(c.id)
	}
}

// end ends all use of a container.
func (c *container) end(why error) (durable bool) {
	c.mu.Lock()
	if c.gone == nil {
		c.gone = why
	}
	for _, w := range c.writers {
		w.stop(why)
	}
	durable = c.durable
	c.mu.Unlock()
	c.epoch.Add(1)
	c.disk.store.cache.dropContainer(c)
	return durable
}

// diskFailed takes the containers of a disk out.
func (s *Store) diskFailed(d *disk) {
	for _, c := range s.all() {
		if c.disk == d {
			s.forget(c, d.alive())
		}
	}
}

// all returns the containers, by id.
func (s *Store) all() []*container {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*container, 0, len(s.containers))
	for _, c := range s.containers {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *container) int { return cmp.Compare(a.id, b.id) })
	return out
}

// report returns what reports say of a container; not ok if it does not exist.
func (c *container) report() (out Container, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out = Container{ID: c.id, Closed: c.closed, Blocks: c.blocks, Bytes: c.bytes, Damaged: uint64(len(c.damaged))}
	return out, c.durable && c.gone == nil
}

// changed tells that the container counts otherwise.
func (c *container) changed() {
	s := c.disk.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteChange(c.id)
}

// noteChange notes a change of a container. The caller holds mu.
func (s *Store) noteChange(id uint64) {
	s.changes[id] = struct{}{}
	select {
	case s.changing <- struct{}{}:
	default:
	}
}

// Containers returns all containers, by id.
func (s *Store) Containers() []Container {
	out := []Container{}
	for _, c := range s.all() {
		if r, ok := c.report(); ok {
			out = append(out, r)
		}
	}
	return out
}

// Changes receives when there may be something to take. It is never closed.
func (s *Store) Changes() <-chan struct{} { return s.changing }

// TakeChanges returns what changed since the call before, by id; at first everything.
func (s *Store) TakeChanges() []Change {
	s.mu.Lock()
	ids := make([]uint64, 0, len(s.changes))
	for id := range s.changes {
		ids = append(ids, id)
	}
	clear(s.changes)
	s.mu.Unlock()
	slices.Sort(ids)
	out := make([]Change, 0, len(ids))
	for _, id := range ids {
		change := Change{Container: Container{ID: id}, Gone: true}
		if c := s.known(id); c != nil {
			if r, ok := c.report(); ok {
				change = Change{Container: r}
			}
		}
		out = append(out, change)
	}
	return out
}

// CloseContainer closes a container: it takes no new blocks and no data any more. Twice is fine.
func (s *Store) CloseContainer(id uint64) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	c, err := s.container(id)
	if err == nil {
		err = c.disk.change(c.planClose)
	}
	if err != nil {
		return fmt.Errorf("close container %d: %w", id, err)
	}
	return nil
}

func (c *container) planClose(b *batch) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return nil, c.gone
	}
	if c.closed {
		return nil, nil
	}
	b.set(containerKey(c.id), appendContainer(nil, containerRecord{closed: true, created: c.created}))
	return func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.changed()
	}, nil
}

// Drop removes a container with all its blocks. Nil if it is not there.
func (s *Store) Drop(id uint64) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	c := s.known(id)
	if c == nil {
		return nil
	}
	if err := c.disk.change(c.planDrop); err != nil {
		if c.disk.alive() != nil {
			return nil // with its disk
		}
		return fmt.Errorf("drop container %d: %w", id, err)
	}
	// Only then may it be made anew, lest files of the new one are removed.
	defer s.forget(c, noContainer(id))
	if err := s.opts.FS.RemoveAll(c.disk.containerPath(id)); err != nil {
		s.opts.Logger.Warn("blocks: files of a dropped container were not removed; the next start removes them", "container", id, "error", err)
	}
	return nil
}

func (c *container) planDrop(b *batch) (func(), error) {
	why := fmt.Errorf("%w: container %d was dropped", muster.ErrNotFound, c.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return nil, nil
	}
	c.gone = why // plans that come after this one see it
	b.delete(containerKey(c.id))
	b.deleteAll(tagBlock, c.id)
	b.deleteAll(tagChunk, c.id)
	return func() {
		c.mu.Lock()
		used := int64(c.bytes)
		for _, u := range c.unfinished {
			used += u.length
		}
		c.blocks, c.bytes = 0, 0
		clear(c.damaged)
		clear(c.unfinished)
		c.mu.Unlock()
		c.disk.used.Add(-used)
		c.end(why)
	}, nil
}

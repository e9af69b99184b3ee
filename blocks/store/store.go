package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/muster-fs/muster"
)

// Store is the blocks on the disks of one datanode. It is safe for concurrent use.
type Store struct {
	opts   Options
	disks  []*disk // in the order of Open
	cache  *cache
	counts counts
	gate   gate // calls are inside; but a Read that finds its block in the cache, which has the file

	// mu guards what follows. It is held for a few steps, or some for each container.
	mu         sync.Mutex
	containers map[uint64]*container
	changes    map[uint64]struct{} // containers that changed since the last take

	changing chan struct{}  // capacity 1: there are changes
	closing  chan struct{}  // closed when what runs for long is to end
	scrubs   sync.WaitGroup // committers are waited for by their disks
	close    sync.Once
	closed   error // of the first Close
}

// Open opens the folders, and makes those that do not exist. A disk that cannot be opened counts
// as failed, and Disks says why. It is an error if that is so of all, if a folder is named twice,
// or if the options are bad.
func Open(dirs []string, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open the store of blocks: %w", err)
	}
	o = o.withDefaults()
	s := &Store{
		opts: o, cache: newCache(o.Handles, o.ChecksumCache),
		containers: map[uint64]*container{}, changes: map[uint64]struct{}{},
		changing: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	if err := s.openDisks(dirs); err != nil {
		return nil, fmt.Errorf("open the store of blocks: %w", err)
	}
	for _, d := range s.disks {
		if d.alive() == nil {
			go d.commitChanges()
			s.scrubs.Go(d.scrub)
		}
	}
	s.deleteAgain()
	return s, nil
}

// openDisks opens the disks, all at the same time.
func (s *Store) openDisks(dirs []string) error {
	seen := map[string]bool{}
	for _, dir := range dirs {
		if seen[dir] {
			return fmt.Errorf("%w: folder %q is named twice", muster.ErrInvalid, dir)
		}
		seen[dir] = true
		s.disks = append(s.disks, newDisk(s, dir))
	}
	var opening sync.WaitGroup
	found := make([][]*container, len(dirs))
	errs := make([]error, len(dirs))
	for i, d := range s.disks {
		opening.Go(func() { found[i], errs[i] = d.open() })
	}
	opening.Wait()
	works := false
	for i, d := range s.disks {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("disk %q: %w", d.dir, errs[i])
			d.fail(errs[i])
			continue
		}
		works = true
		s.adopt(found[i])
	}
	if !works {
		return errors.Join(append(errs, fmt.Errorf("%w: no disk could be opened", muster.ErrUnavailable))...)
	}
	return nil
}

// adopt enters the containers of a disk that was opened. Where another disk has the container as
// well, which happens when a disk comes back after it was replaced by the copies on another, the
// one with more is in use, and the other is left as it is.
func (s *Store) adopt(found []*container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range found {
		if other := s.containers[c.id]; other != nil {
			if other.bytes >= c.bytes {
				c, other = other, c
			}
			s.opts.Logger.Warn("blocks: a container is on two disks; the fuller one is in use", "container", c.id, "used", c.disk.dir, "unused", other.disk.dir)
		}
		s.containers[c.id] = c
		s.noteChange(c.id)
	}
}

// Close waits for calls in progress, and gives the folders back. Writers are left as by their
// Close. A disk that failed is no error.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.gate.close()
		close(s.closing)
		s.scrubs.Wait()
		s.cache.close()
		for _, c := range s.all() {
			for _, w := range c.writers {
				_ = w.file.Close() // what is not durable goes at the next start
			}
		}
		var errs []error
		for _, d := range s.disks {
			errs = append(errs, d.close())
		}
		s.closed = errors.Join(errs...)
	})
	return s.closed
}

// Disks returns how the disks are, in the order of Open.
func (s *Store) Disks() []Disk {
	out := make([]Disk, len(s.disks))
	for i, d := range s.disks {
		out[i] = d.state()
	}
	return out
}

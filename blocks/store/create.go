package store

import (
	"fmt"

	"github.com/muster-fs/muster"
)

// Create begins a block for a file of this inode id, and makes the container if it does not exist.
//
// Errors are ErrExists for a block that exists, is being written, or was deleted, ErrChanged if
// the container is closed, ErrUnavailable if there is no disk with room.
func (s *Store) Create(id muster.BlockID, file uint64) (*Writer, error) {
	return s.create(id, file, false)
}

// CreateCopy is Create for a block that is committed elsewhere: the container may be closed.
func (s *Store) CreateCopy(id muster.BlockID, file uint64) (*Writer, error) {
	return s.create(id, file, true)
}

func (s *Store) create(id muster.BlockID, file uint64, copy bool) (*Writer, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	if id.Container == 0 || id.LocalID == 0 || file == 0 {
		return nil, fmt.Errorf("create block %v of file %d: %w: ids are from 1", id, file, muster.ErrInvalid)
	}
	w, err := s.begin(&Writer{id: id, of: file, copy: copy})
	if err != nil {
		return nil, fmt.Errorf("create block %v: %w", id, err)
	}
	s.counts.created.Add(1)
	return w, nil
}

func (s *Store) begin(w *Writer) (*Writer, error) {
	c, err := s.containerFor(w.id.Container)
	if err != nil {
		return nil, err
	}
	w.container = c
	if err := c.disk.makeRoom(0, true); err != nil {
		return nil, err
	}
	if err := c.addWriter(w); err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		c.removeWriter(w)
		return nil, err
	}
	return w, nil
}

// addWriter makes w the one writer of its block.
func (c *container) addWriter(w *Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gone != nil:
		return c.gone
	case c.closed && !w.copy:
		return errClosed(c.id)
	case c.writers[w.id.LocalID] != nil:
		return fmt.Errorf("%w: it is being written", muster.ErrExists)
	}
	c.writers[w.id.LocalID] = w
	return nil
}

func (c *container) removeWriter(w *Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.writers, w.id.LocalID)
}

func errClosed(id uint64) error {
	return fmt.Errorf("%w: container %d is closed", muster.ErrChanged, id)
}

// open makes the file, unless the block exists.
func (w *Writer) open() error {
	d := w.container.disk
	if d.store.deleted(w.id) {
		return fmt.Errorf("%w: it was deleted", muster.ErrExists)
	}
	_, found, err := get(d.kv.DB, blockKey(w.id))
	if err = d.sound(err); err != nil {
		return err
	}
	if found {
		return fmt.Errorf("%w: it was written before", muster.ErrExists)
	}
	if w.file, err = d.store.opts.FS.Create(d.blockPath(w.id)); err != nil {
		if gone := w.container.ended(); gone != nil {
			return gone
		}
		return d.ioError("make its file", err, w.id)
	}
	return nil
}

// ended returns why the container is no more.
func (c *container) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

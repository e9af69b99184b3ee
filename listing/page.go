package listing

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
)

// Page lists one page of paths, from cursor on (nil: from the beginning), and sends it.
// Every call of one listing gives all its paths; those up to the cursor's index must be
// the same.
//
// send is called once, from the goroutine that called Page, after the page's view was
// given back; the message and its buffers are valid until send returns. What it fails
// with, Page returns.
//
// The whole call fails with muster.ErrInvalid (no paths, unknown options, snapshot
// consistency), muster.ErrLimit (more than Config.MaxPaths paths), muster.ErrCursor, the
// context's error, or what the tree as a whole fails with, such as muster.ErrUnavailable.
func (l *Lister) Page(ctx context.Context, caller *muster.Identity, paths []string, o Options, cursor []byte, send func(*Message) error) error {
	if err := l.checkPage(paths, o); err != nil {
		return err
	}
	c := l.collector(caller, o)
	defer l.release(c)
	if len(cursor) > 0 {
		if err := c.resume(cursor, paths); err != nil {
			return err
		}
	}
	c.places.most = pageNodesBytes
	start := c.position.next()
	done, err := l.onePage(ctx, c, paths[start:])
	if err != nil {
		return err
	}
	m := &c.message
	*m = Message{
		Frame:    c.rows.AppendFrame(m.Frame[:0]),
		Outcomes: c.outcomes,
		Cursor:   m.Cursor[:0],
		Nodes:    c.places.added,
		Txid:     c.txid,
		Done:     start+uint64(done) == uint64(len(paths)),
	}
	if !m.Done {
		c.position.follow(paths[start:], start, &c.scratch)
		m.Cursor, m.CursorIndex = c.seal.seal(m.Cursor, &c.position), c.position.index
	}
	err = send(m)
	m.Nodes = nil
	return err
}

func (l *Lister) checkPage(paths []string, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	switch {
	case o.Consistency != muster.ConsistencyPage:
		return fmt.Errorf("%w: a page has one view as it is; snapshot consistency is for streams", muster.ErrInvalid)
	case len(paths) == 0:
		return fmt.Errorf("%w: no paths", muster.ErrInvalid)
	case len(paths) > l.config.MaxPaths:
		return fmt.Errorf("%w: too many paths: %d, at most %d in one page call; a stream takes any number", muster.ErrLimit, len(paths), l.config.MaxPaths)
	}
	return nil
}

// onePage lists a page from a view of its own, which is given back before it is asked where
// blocks are.
func (l *Lister) onePage(ctx context.Context, c *collector, paths []string) (int, error) {
	if len(paths) == 0 {
		return 0, nil
	}
	done, err := l.readPage(ctx, c, paths)
	if err != nil {
		return done, err
	}
	return c.locate(ctx, paths, done)
}

func (l *Lister) readPage(ctx context.Context, c *collector, paths []string) (int, error) {
	view, err := l.tree.View()
	if err != nil {
		return 0, err
	}
	defer view.Release()
	return c.page(ctx, view, paths)
}

// resume sets the position to that of the cursor, if it belongs to a call of these paths.
func (c *collector) resume(cursor []byte, paths []string) error {
	p, err := c.seal.open(cursor)
	if err != nil {
		return err
	}
	if p.index >= uint64(len(paths)) {
		return fmt.Errorf("%w: it is at path %d of a call with %d paths", muster.ErrCursor, p.index, len(paths))
	}
	var before chain
	for _, path := range paths[:p.index] {
		before = before.next(path, &c.scratch)
	}
	if before != p.before || !p.names(paths[p.index], &c.scratch) {
		return fmt.Errorf("%w: the paths up to index %d are not those that it was made for", muster.ErrCursor, p.index)
	}
	c.position = p
	return nil
}

package listing

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
)

// DescribeCursor says in words where a cursor is.
func (l *Lister) DescribeCursor(cursor []byte, o Options) string {
	s := newSealer(l.cursorKey)
	s.bind(o.canonical())
	p, err := s.open(cursor)
	switch {
	case err != nil:
		return err.Error()
	case p.state == finished:
		return fmt.Sprintf("past path %d", p.index)
	}
	return fmt.Sprintf("inside path %d after %q, %d rows", p.index, p.name, p.rows)
}

// Lent is how many collectors and rings of messages are in use.
func (l *Lister) Lent() int64 { return l.lent.Load() }

// Collect lists paths page by page into the buffers of one collector, in one goroutine, and
// frames what fills a message, as a stream does. It returns the number of rows.
func (l *Lister) Collect(ctx context.Context, caller *muster.Identity, paths []string, o Options) (rows int, err error) {
	c := l.collector(caller, o)
	defer l.release(c)
	for len(paths) > 0 {
		first := c.position.next()
		done, err := l.onePage(ctx, c, paths)
		if err != nil {
			return rows, err
		}
		c.position.follow(paths, first, &c.scratch)
		paths = paths[done:]
		if c.rows.Len() >= messageRows || c.size() >= messageBytes || len(paths) == 0 {
			rows += c.rows.Len()
			c.message.Frame = c.rows.AppendFrame(c.message.Frame[:0])
			c.reset()
		}
	}
	return rows, nil
}

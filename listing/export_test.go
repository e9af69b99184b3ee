package listing

import "fmt"

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

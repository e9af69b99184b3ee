package listing

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// How pages are gathered into messages: the first is sent with firstRows, each next with
// twice as many, up to messageRows or messageBytes. A message exceeds messageBytes by no
// more than a page's bytes, and so stays under 1 MiB.
const (
	firstRows    = 64
	messageRows  = 4096
	messageBytes = 256 << 10
)

// backlogBytes bounds the paths of a stream that wait, beside their number.
const backlogBytes = 1 << 20

// Stream lists any number of paths, page after page, and sends what it gathered: little
// at first, so that the first rows come early, then up to about 4,096 rows or 256 KiB,
// and whenever no path is waiting; always under 1 MiB. The last message is Done. Nodes come
// with the rows that name them, or ahead: then their message has nothing else.
//
// next returns the next chunk of paths, and io.EOF after the last; the chunk is
// Stream's from then on. It is called from one other goroutine, which has ended when
// Stream returns: so next must return soon after its context ends. That happens when
// Stream fails, and context.Cause then tells why.
// No more than Config.MaxPaths paths, or 1 MiB of them, and two chunks wait at any time.
//
// send sends a message, which is valid until send returns, from the goroutine that called
// Stream. Meanwhile another one, which has ended too when Stream returns, lists what
// comes next: at most one message waits while one is sent and one is gathered, and no
// page's view is held by a stream that waits.
//
// With a cursor the stream goes on after the message that carried it: the first path is
// the cursor's, and paths are numbered from its index on. A snapshot stream has no
// cursors and fails with muster.ErrLimit when it is older than Config.SnapshotAge.
//
// Stream fails with muster.ErrInvalid, muster.ErrCursor, an error of next or send, the
// context's error, or what the tree as a whole fails with. Messages that wait are then
// not sent.
func (l *Lister) Stream(ctx context.Context, caller *muster.Identity, o Options, cursor []byte, next func(ctx context.Context) ([]string, error), send func(*Message) error) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	s := &stream{lister: l, collector: l.collector(caller, o), target: firstRows}
	defer l.release(s.collector)
	s.limit = s.collector.bounds.entries
	if err := s.resume(cursor); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	s.feed = startFeed(ctx, next)
	defer s.feed.wait()
	s.out = l.newPipe()
	s.out.start(ctx, end, s.run)
	defer s.out.wait()
	defer func() { end(err) }() // also if send panics: wait must not wait forever
	return s.out.deliver(ctx, send)
}

// stream is the state of one call of Stream. Once it has begun, the goroutine that runs
// it is the only one to use it.
type stream struct {
	lister    *Lister
	collector *collector
	feed      *feed
	out       *pipe
	view      chan *namespace.View // of a snapshot stream, while no page reads it; nil: a view per page

	resumed bool     // the first path must be the cursor's
	begun   bool     // a path has come
	ended   bool     // the last path has come
	waiting []string // paths that are not finished
	backlog int      // bytes of them

	limit  int    // entries of a page, as the caller asked
	target int    // rows of the message being gathered
	rows   uint64 // in messages so far
	done   uint64 // outcomes in messages so far
}

// keepView takes the view that all pages of a snapshot stream read. It is given back when
// the returned context ends, even if a client that reads slowly keeps the stream waiting,
// and by giveBack at the latest. A page takes it out of the channel for as long.
func (s *stream) keepView(ctx context.Context) (_ context.Context, giveBack func(), err error) {
	view, err := s.lister.tree.View()
	if err != nil {
		return nil, nil, err
	}
	s.view = make(chan *namespace.View, 1)
	s.view <- view
	age := s.lister.config.SnapshotAge
	tooOld := fmt.Errorf("%w: the snapshot of this stream is older than %v; list fewer paths in a call, or with page consistency", muster.ErrLimit, age)
	ctx, cancel := context.WithTimeoutCause(ctx, age, tooOld)
	given := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(given)
		(<-s.view).Release()
	})
	return ctx, func() { cancel(); <-given }, nil
}

func (s *stream) resume(cursor []byte) error {
	if len(cursor) == 0 {
		return nil
	}
	if s.collector.options.Consistency == muster.ConsistencySnapshot {
		return fmt.Errorf("%w: a snapshot stream cannot be resumed", muster.ErrCursor)
	}
	p, err := s.collector.seal.open(cursor)
	if err != nil {
		return err
	}
	s.collector.position, s.resumed = p, true
	return nil
}

// run lists until every path has its outcome.
func (s *stream) run(ctx context.Context) error {
	if s.collector.options.Consistency == muster.ConsistencySnapshot {
		aging, giveBack, err := s.keepView(ctx)
		if err != nil {
			return err
		}
		defer giveBack()
		ctx = aging
	}
	for {
		if err := s.fill(ctx); err != nil {
			return err
		}
		if len(s.waiting) == 0 {
			return s.flush(ctx, true)
		}
		if err := s.page(ctx); err != nil {
			return err
		}
		if c := s.collector; c.rows.Len() >= s.target || c.size() >= messageBytes || c.full {
			if err := s.flush(ctx, false); err != nil {
				return err
			}
		}
	}
}

// fill takes the paths that have come, as long as few are waiting. If none is, it waits
// for some, or for their end, and hands over what was gathered as soon as there is room.
func (s *stream) fill(ctx context.Context) error {
	for !s.ended && len(s.waiting) < s.lister.config.MaxPaths && s.backlog < backlogBytes {
		select {
		case chunk, ok := <-s.feed.chunks:
			if err := s.take(chunk, ok); err != nil {
				return err
			}
			continue
		default:
		}
		if len(s.waiting) > 0 {
			return nil
		}
		var room <-chan *Message
		if s.collector.gathered() {
			room = s.out.free
		}
		select {
		case chunk, ok := <-s.feed.chunks:
			if err := s.take(chunk, ok); err != nil {
				return err
			}
		case m := <-room:
			s.put(m, false)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take adds a chunk to the waiting paths; !ok is their end.
func (s *stream) take(chunk []string, ok bool) error {
	switch {
	case !ok && s.feed.failed != nil:
		return s.feed.failed
	case !ok && !s.begun && s.resumed:
		return fmt.Errorf("%w: no paths; a resumed stream starts with the cursor's path", muster.ErrCursor)
	case !ok && !s.begun:
		return fmt.Errorf("%w: no paths", muster.ErrInvalid)
	case !ok:
		s.ended = true
		return nil
	case len(chunk) == 0:
		return nil
	}
	first := !s.begun
	s.begun = true
	if first && s.resumed {
		c := s.collector
		if !c.position.names(chunk[0], &c.scratch) {
			return fmt.Errorf("%w: path %s is not the one that it was made for, at index %d", muster.ErrCursor, quote(chunk[0]), c.position.index)
		}
		if c.position.state == finished {
			chunk = chunk[1:]
		}
	}
	for _, path := range chunk {
		s.backlog += len(path)
	}
	if len(s.waiting) == 0 {
		s.waiting = chunk
	} else {
		s.waiting = append(s.waiting, chunk...)
	}
	return nil
}

// drop forgets the first n of the waiting paths.
func (s *stream) drop(n int) {
	for _, path := range s.waiting[:n] {
		s.backlog -= len(path)
	}
	s.waiting = s.waiting[n:]
}

// page lists one page of the waiting paths. The first pages are small, since they fill a
// message of their own.
func (s *stream) page(ctx context.Context) error {
	c := s.collector
	c.bounds.entries = min(s.limit, s.target)
	if s.view != nil {
		done, err := s.snapshotPage(ctx)
		if err == nil {
			done, err = c.locate(ctx, s.waiting, done)
		}
		s.drop(done)
		return err
	}
	first := c.position.next()
	done, err := s.lister.onePage(ctx, c, s.waiting)
	if err == nil {
		c.position.follow(s.waiting, first, &c.scratch)
	}
	s.drop(done)
	return err
}

// snapshotPage lists a page from the view that the stream keeps.
func (s *stream) snapshotPage(ctx context.Context) (int, error) {
	select {
	case view := <-s.view:
		defer func() { s.view <- view }()
		return s.collector.page(ctx, view, s.waiting)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// flush waits for room and hands over what was gathered.
func (s *stream) flush(ctx context.Context, last bool) error {
	for {
		select {
		case m := <-s.out.free:
			if s.put(m, last) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// put makes m the next message and hands it over. It is false if more are to follow: m has
// nodes alone, which go ahead of the rows that name them.
func (s *stream) put(m *Message, last bool) bool {
	c := s.collector
	outcomes := m.Outcomes[:0]
	*m = Message{Frame: m.Frame[:0], Outcomes: outcomes, Cursor: m.Cursor[:0], Nodes: c.places.take(m.Nodes[:0])}
	if c.places.size > 0 || len(m.Nodes) > 0 && c.size()+nodesBytes > rows.MaxFrame {
		s.out.ready <- m
		return false
	}
	s.rows += uint64(c.rows.Len())
	s.done += uint64(len(c.outcomes))
	m.Frame, m.Outcomes, m.Txid = c.rows.AppendFrame(m.Frame), c.outcomes, c.txid
	switch {
	case last:
		m.Done, m.TotalRows, m.TotalOutcomes = true, s.rows, s.done
	case s.view == nil:
		m.Cursor, m.CursorIndex = c.seal.seal(m.Cursor, &c.position), c.position.index
	}
	c.outcomes = outcomes
	c.reset()
	s.target = min(2*s.target, messageRows)
	s.out.ready <- m
	return true
}

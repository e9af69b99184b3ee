package blocks

import (
	"errors"
	"sync/atomic"

	"github.com/muster-fs/muster/rpc"
)

// stream is a stream of a block from the cursor to the block's end. The datanode sends on as
// long as it is read: what waits is one message here and what the system keeps of a
// connection.
type stream struct {
	file   *File
	block  *block
	site   site
	caller *caller
	call   *rpc.ReadStream
	next   int64       // in the block: where the next message begins
	over   atomic.Bool // the call has ended
	idle   atomic.Bool // because nobody read it
}

// errNoStream says that the address's streams are all in use.
var errNoStream = errors.New("no stream is free")

// skippable is how far behind the cursor a stream may be for it to be read up to there.
const skippable = 1 << 20

// reaches says whether the stream comes soon to an offset of the file, which is in b.
func (s *stream) reaches(b *block, at int64) bool {
	d := at - b.offset - s.next
	return s.block == b && d >= 0 && d <= skippable
}

// nextOfStream makes the piece one that has the cursor's byte, which is in b. It opens a
// stream there if there is none; errNoStream is that there are enough.
func (f *File) nextOfStream(b *block) error {
	c := &f.cursor
	for a := f.attempt(b); ; {
		if c.stream == nil {
			s, err := a.next()
			if err != nil {
				return err
			}
			err = f.openStream(&a, s, c.at-b.offset)
			if err == errNoStream {
				return err
			}
			if err != nil {
				if err = a.failed(s, err); err != nil {
					return err
				}
				continue
			}
		}
		s := c.stream
		found, err := s.receive(c.at - b.offset)
		if err == nil {
			if a.served(s.site); found {
				return nil
			}
			continue
		}
		f.endStream()
		if s.idle.Load() {
			continue // it goes on by another one
		}
		if err = a.failed(s.site, err); err != nil {
			return err
		}
	}
}

// openStream opens a stream from an offset of the block on.
func (f *File) openStream(a *attempts, s site, at int64) error {
	select {
	case s.streams <- struct{}{}:
	default:
		return errNoStream
	}
	made := &stream{file: f, block: a.block, site: s, caller: f.caller()}
	from, _ := a.block.align(at, at)
	made.next = from
	made.caller.ask(a.block, a.where, from, a.block.length)
	var err error
	if made.call, err = made.caller.byStream(s.readers, f.options.Timeout); err != nil {
		<-s.streams
		f.free(made.caller)
		return err
	}
	f.cursor.stream = made
	return nil
}

// receive receives the next message, and makes it the piece if it has the byte at an offset of
// the block. At the end of the block the stream ends.
func (s *stream) receive(at int64) (found bool, err error) {
	f, from := s.file, s.next
	if err := s.caller.receive(s.call, from, f.options.Timeout); err != nil {
		return false, err
	}
	s.next += int64(len(s.caller.reply.Data))
	if found = at < s.next; found {
		f.cursor.piece.take(s.block.offset+from, s.caller)
	}
	if s.next == s.block.length {
		f.endStream()
	}
	return found, nil
}

// close ends the call and gives its connection back. It may be called beside receive, which
// then fails.
func (s *stream) close() {
	if !s.over.Swap(true) {
		_ = s.call.Close() // is always nil
		<-s.site.streams
	}
}

// abandon ends a stream that nobody reads.
func (s *stream) abandon() {
	s.idle.Store(true)
	s.close()
}

// endStream ends the stream if there is one.
func (f *File) endStream() {
	if s := f.cursor.stream; s != nil {
		s.close()
		f.free(s.caller)
		f.cursor.stream = nil
	}
}

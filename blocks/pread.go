package blocks

import (
	"fmt"
	"io/fs"

	"github.com/muster-fs/muster"
)

// ReadAt fills p from offset on; less comes with an error only, which is io.EOF at the end.
// The n bytes are right in any case; what follows them in p is left as it was. Neither is
// the cursor moved nor waited for who moves it. A negative offset is muster.ErrInvalid.
// Nothing can be read of an empty p: that is no error, wherever offset is.
func (f *File) ReadAt(p []byte, offset int64) (n int, err error) {
	switch {
	case f.closed.Load():
		return 0, fs.ErrClosed
	case offset < 0:
		return 0, fmt.Errorf("%w: offset %d is before the beginning", muster.ErrInvalid, offset)
	}
	l := f.layout.Load()
	for n < len(p) {
		b, err := l.at(offset + int64(n))
		if err != nil {
			return n, err
		}
		k, err := f.readPart(b, offset+int64(n)-b.offset, p[n:])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// readPart reads some bytes from an offset of b on, as many as it says.
func (f *File) readPart(b *block, at int64, p []byte) (n int, err error) {
	to := min(at+int64(len(p)), b.length)
	if f.options.Mode == ByStream {
		return f.readStream(b, at, p[:to-at])
	}
	from, to := b.align(at, to)
	c, err := f.readChunk(b, from, min(to, from+muster.MaxTransfer))
	if err != nil {
		return 0, err
	}
	n = copy(p, c.reply.Data[at-from:])
	f.free(c)
	return n, nil
}

// readChunk reads the bytes from, to of b by one call, from the first replica that has them.
// They are whole checksums but at the end of the block. The caller frees the caller, which
// has the data.
func (f *File) readChunk(b *block, from, to int64) (*caller, error) {
	for a := f.attempt(b); ; {
		s, err := a.next()
		if err != nil {
			return nil, err
		}
		c := f.caller()
		c.ask(b, a.where, from, to)
		if err = c.readChunk(s.readers, f.options.Timeout); err == nil {
			a.served(s)
			return c, nil
		}
		f.free(c)
		if err = a.failed(s, err); err != nil {
			return nil, err
		}
	}
}

// readStream fills p with the bytes of b from an offset on, by a stream that is read to its
// end at once. What came before a failure stays.
func (f *File) readStream(b *block, at int64, p []byte) (n int, err error) {
	for a := f.attempt(b); n < len(p); {
		s, err := a.next()
		if err != nil {
			return n, err
		}
		k, err := f.readOneStream(b, &a, s, at+int64(n), p[n:])
		if k > 0 || err == nil {
			a.served(s)
		}
		n += k
		if err == nil {
			continue
		}
		if err = a.failed(s, err); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *File) readOneStream(b *block, a *attempts, s site, at int64, p []byte) (n int, err error) {
	c := f.caller()
	defer f.free(c)
	from, to := b.align(at, at+int64(len(p)))
	c.ask(b, a.where, from, to)
	stream, err := c.byStream(s.readers, f.options.Timeout)
	if err != nil {
		return 0, err
	}
	defer func() { _ = stream.Close() }() // all that was wanted of it is there, or it failed
	for next := from; n < len(p); next += int64(len(c.reply.Data)) {
		if err := c.receive(stream, next, f.options.Timeout); err != nil {
			return n, err
		}
		n += copy(p[n:], c.reply.Data[max(at-next, 0):])
	}
	return n, nil
}

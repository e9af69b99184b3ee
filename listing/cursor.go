package listing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/zeebo/xxh3"

	"github.com/muster-fs/muster"
)

// The cursor's layout; docs/formats.md has the table. Integers are big endian.
const (
	cursorVersion = 1

	cursorState   = 1
	cursorIndex   = 2
	cursorID      = 10
	cursorRows    = 18
	cursorBefore  = 26
	cursorThrough = 42
	cursorName    = 58 // one byte of length, then the name
	cursorTag     = 16 // bytes of the tag, which comes last

	minCursor = cursorName + 1 + cursorTag
	maxCursor = minCursor + muster.MaxNameBytes
)

// The states of a position.
const (
	untouched = 0 // no path yet; has no cursor
	inside    = 1 // entries of the path may be left
	finished  = 2 // the path has its outcome
)

// chain is the hash of a call's first paths, each with its length, in order. It guards
// against paths that were mixed up; the cursor's tag guards against forgery.
type chain [16]byte

// chainHead is what a chain and a length take before the path that is hashed.
const chainHead = 16 + 8

// next returns the chain that goes on with path. It uses the scratch buffer.
func (c chain) next(path string, scratch *[]byte) chain {
	if cap(*scratch) < chainHead {
		*scratch = make([]byte, 0, chainHead+256)
	}
	b := append((*scratch)[:chainHead], path...)
	copy(b, c[:])
	binary.BigEndian.PutUint64(b[len(c):], uint64(len(path)))
	*scratch = b
	return xxh3.Hash128(b).Bytes()
}

// position is where a listing stands: inside the last path touched, or past it. Its chain
// is brought up to there by follow, since it is needed for a cursor only.
type position struct {
	state   byte
	index   uint64 // of the last path touched
	id      uint64 // of the inode being listed; inside only
	rows    uint64 // of the path so far; inside only
	chained uint64 // number of paths in the chain
	before  chain  // of the paths before the last one chained
	through chain  // of all paths chained
	name    []byte // the last name listed or hidden, empty if none; inside only
}

// next is the index of the first path that is not finished.
func (p *position) next() uint64 {
	if p.state == finished {
		return p.index + 1
	}
	return p.index
}

// enter moves on to the next path.
func (p *position) enter() {
	p.index = p.next()
	p.state = inside
	p.id, p.rows, p.name = 0, 0, p.name[:0]
}

// follow brings the chain up to the position. The index of paths[0] is first.
func (p *position) follow(paths []string, first uint64, scratch *[]byte) {
	for p.state != untouched && p.chained <= p.index {
		p.before = p.through
		p.through = p.before.next(paths[p.chained-first], scratch)
		p.chained++
	}
}

// finish marks the path as done.
func (p *position) finish() {
	p.state = finished
	p.id, p.rows, p.name = 0, 0, p.name[:0]
}

// names says whether path is the one that the position is at.
func (p *position) names(path string, scratch *[]byte) bool {
	return p.before.next(path, scratch) == p.through
}

// sealer writes and reads the cursors of the options that it is bound to. It is not safe
// for concurrent use.
type sealer struct {
	mac     hash.Hash
	options []byte
	sum     [sha256.Size]byte
}

func newSealer(key []byte) *sealer { return &sealer{mac: hmac.New(sha256.New, key)} }

// The flags of the options that cursors are bound to.
const (
	boundOwn    = 1
	boundFollow = 2
	boundSorted = 4
	boundHint   = 8
	boundMust   = 16
)

// bind makes s the sealer of canonical options.
func (s *sealer) bind(o Options) {
	be, flags := binary.BigEndian, byte(0)
	if o.Own {
		flags |= boundOwn
	}
	if o.Follow {
		flags |= boundFollow
	}
	if o.Sorted {
		flags |= boundSorted
	}
	switch o.Locations {
	case muster.LocationsHint:
		flags |= boundHint
	case muster.LocationsMust:
		flags |= boundMust
	}
	b := be.AppendUint32(s.options[:0], uint32(min(o.Limit, 1<<31-1)))
	b = be.AppendUint32(b, uint32(o.Columns))
	b = append(b, byte(o.Hidden), flags, byte(o.Consistency))
	if o.Locations != muster.NoLocations {
		b = be.AppendUint32(b, uint32(o.LocationLimit))
		b = be.AppendUint16(b, uint16(len(o.Reader)))
		b = append(b, o.Reader...)
	}
	s.options = b
}

// tag returns the authentication tag of body; it is valid until the next call.
func (s *sealer) tag(body []byte) []byte {
	s.mac.Reset()
	s.mac.Write(s.options)
	s.mac.Write(body)
	return s.mac.Sum(s.sum[:0])[:cursorTag]
}

// seal appends p's cursor to dst, which must be empty.
func (s *sealer) seal(dst []byte, p *position) []byte {
	dst = append(dst, cursorVersion, p.state)
	dst = binary.BigEndian.AppendUint64(dst, p.index)
	dst = binary.BigEndian.AppendUint64(dst, p.id)
	dst = binary.BigEndian.AppendUint64(dst, p.rows)
	dst = append(dst, p.before[:]...)
	dst = append(dst, p.through[:]...)
	dst = append(dst, byte(len(p.name)))
	dst = append(dst, p.name...)
	return append(dst, s.tag(dst)...)
}

// open reads a cursor. Nothing of it is looked at, but its size, before its tag was
// found to be ours.
func (s *sealer) open(cursor []byte) (position, error) {
	if len(cursor) < minCursor || len(cursor) > maxCursor {
		return position{}, fmt.Errorf("%w: it has %d bytes, not %d to %d", muster.ErrCursor, len(cursor), minCursor, maxCursor)
	}
	body, tag := cursor[:len(cursor)-cursorTag], cursor[len(cursor)-cursorTag:]
	if !hmac.Equal(tag, s.tag(body)) {
		return position{}, fmt.Errorf("%w: it is damaged, of another cluster, or of a call with other options", muster.ErrCursor)
	}
	if body[0] != cursorVersion {
		return position{}, fmt.Errorf("%w: format version %d; this server knows %d", muster.ErrCursor, body[0], cursorVersion)
	}
	p := position{
		state:   body[cursorState],
		index:   binary.BigEndian.Uint64(body[cursorIndex:]),
		id:      binary.BigEndian.Uint64(body[cursorID:]),
		rows:    binary.BigEndian.Uint64(body[cursorRows:]),
		before:  chain(body[cursorBefore:]),
		through: chain(body[cursorThrough:]),
	}
	p.chained = p.index + 1
	name := body[cursorName+1:]
	if p.state != inside && p.state != finished || int(body[cursorName]) != len(name) || p.index > maxIndex {
		return position{}, fmt.Errorf("%w: impossible content", muster.ErrCursor)
	}
	p.name = append(p.name, name...)
	return p, nil
}

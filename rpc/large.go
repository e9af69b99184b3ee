package rpc

import (
	"io"
	"math"
	"math/bits"
	"net"
	"sync"

	"storj.io/drpc"
	"storj.io/drpc/drpcwire"
)

// Large messages go past the buffers of dRPC, through which each would be copied twice on
// either side. dRPC is given a stand-in for the message, and the connection, which sees all
// that is written and read, exchanges the one for the other. On the wire the message is one
// frame of dRPC's like any other.

// A message of largeFrom to largeTo bytes is exchanged for a stand-in. That is most of those
// of a listing, and none that has too many bytes for one frame.
const (
	largeFrom = 32 << 10
	largeTo   = 1 << 20
)

// standIn is in a write of a large message the data of the frame that the message is to be
// the data of. It is shorter than 128 bytes, so that one byte tells its length. Nothing with
// data follows it in that write.
var standIn = []byte("a large message goes here")

// SendParts sends a message that is in parts, to a stream of either side that came from this
// package. The parts are free again when it returns. It is SendRaw otherwise.
func SendParts(stream drpc.Stream, parts ...[]byte) error {
	m := newOutgoing()
	defer m.release()
	m.parts = append(m.parts, parts...)
	size := m.count()
	if m.large() {
		switch s := generatedBy(stream).(type) {
		case *call:
			return sendLarge(s, &s.conn.stallConn, m)
		case *clientStream:
			return sendLarge(s, &s.conn.transport.stallConn, m)
		}
	}
	if err := checkSize(size); err != nil {
		return err
	}
	return SendRaw(stream, m.join())
}

// generatedBy returns the stream that one of generated code was made of.
func generatedBy(stream drpc.Stream) drpc.Stream {
	if g, ok := stream.(interface{ GetStream() drpc.Stream }); ok {
		return g.GetStream()
	}
	return stream
}

// sendLarge sends a large message to a stream of conn. Whatever others write meanwhile, as
// that a call is cancelled, has no stand-in. The message was sent, or that failed, when this
// returns.
func sendLarge(stream drpc.Stream, conn *stallConn, m *outgoing) error {
	conn.outgoing.Store(m)
	defer conn.outgoing.Store(nil)
	return stream.MsgSend((*raw)(&standIn), rawEncoding{})
}

// outgoing is a message that is sent in parts. It is used again and again.
type outgoing struct {
	parts  [][]byte // the first is for what dRPC writes before the message
	size   int      // of the message, counted
	fields []byte   // what of it is encoded here
	memory *Memory  // that a part lies in; nil: none does
	joined []byte   // a message that is not large
	head   []byte   // of a frame
}

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

// newOutgoing returns a message without parts.
func newOutgoing() *outgoing {
	m := outgoings.Get().(*outgoing)
	m.parts = append(m.parts[:0], nil)
	m.fields = m.fields[:0]
	return m
}

func (m *outgoing) release() {
	if m.memory != nil {
		m.memory.Release()
		m.memory = nil
	}
	clear(m.parts)
	if max(cap(m.joined), cap(m.fields)) <= maxPooled {
		outgoings.Put(m)
	}
}

// count adds up the parts.
func (m *outgoing) count() int {
	m.size = 0
	for _, part := range m.parts {
		m.size += len(part)
	}
	return m.size
}

func (m *outgoing) large() bool { return m.size >= largeFrom && m.size <= largeTo }

// join returns the message as one piece.
func (m *outgoing) join() []byte {
	if len(m.parts) == 2 {
		return m.parts[1]
	}
	m.joined = m.joined[:0]
	for _, part := range m.parts {
		m.joined = append(m.joined, part...)
	}
	return m.joined
}

// exchange returns what is to be written instead of b, in which the stand-in begins at the
// index at. What follows it ends the call.
func (m *outgoing) exchange(b []byte, at int) net.Buffers {
	m.head = append(m.head[:0], b[:at-1]...)
	m.head = drpcwire.AppendVarint(m.head, uint64(m.size))
	m.parts[0] = m.head
	if rest := b[at+len(standIn):]; len(rest) > 0 {
		m.parts = append(m.parts, rest)
	}
	return m.parts
}

// Memory is what a large message was received into, or what is to be sent.
type Memory struct {
	buffer []byte
	size   int
}

// beforeMessage bytes lie before a message in its memory, so that the rows of a listing,
// which follow four bytes of the message, are aligned.
const beforeMessage = 4

// afterMessage bytes lie after it, so that the end of a call is read along with its reply.
const afterMessage = 64

// memories are for messages of up to largeFrom bytes, up to twice as many, and so on: one
// that is kept for long takes no more than twice the memory that it needs.
var memories [6]sync.Pool

// NewMemory returns memory for n bytes, 1 MiB at most, whose contents are anything.
func NewMemory(n int) *Memory {
	m, ok := memoriesFor(n).Get().(*Memory)
	if !ok {
		m = new(Memory)
	}
	if m.size = n; len(m.buffer) < beforeMessage+n+afterMessage {
		const page = 8 << 10 // what Go would round it up to
		m.buffer = make([]byte, (beforeMessage+n+afterMessage+page-1)&^(page-1))
	}
	return m
}

func memoriesFor(n int) *sync.Pool { return &memories[bits.Len(uint(max(n-1, 0))/largeFrom)] }

// Bytes returns the message.
func (m *Memory) Bytes() []byte { return m.buffer[beforeMessage : beforeMessage+m.size] }

// Release gives the memory to messages to come. Nobody may use it, or the message, any more.
func (m *Memory) Release() { memoriesFor(m.size).Put(m) }

// Keeper is an encoding that keeps the memory of large messages, so that nothing need be
// copied from it.
type Keeper interface {
	// Keep is Unmarshal for a message whose memory it keeps, also when it fails.
	Keep(m *Memory, msg drpc.Message) error
}

// incoming is the reading side of a connection. It reads each large message into memory of
// its own. Only dRPC reads from it, which asks for more when it has delivered all that it
// got.
type incoming struct {
	from    io.Reader
	again   []byte // is read before anything else
	buffer  [8 << 10]byte
	ahead   []byte  // in buffer: read and not given to dRPC yet
	passing int     // bytes of the current frame that are to be given to dRPC
	split   bool    // the frame before was not the last one of its message
	message *Memory // for which dRPC was given a stand-in last; nil: for none, or it was taken
}

// take returns the message that dRPC has delivered a stand-in for, if it is one, while the
// delivery lasts.
func (c *incoming) take() *Memory {
	if c == nil {
		return nil
	}
	m := c.message
	c.message = nil
	return m
}

// Read gives dRPC a frame's next bytes, or its stand-in. It gives no more than one frame at
// once: what follows is looked at when that was delivered.
func (c *incoming) Read(p []byte) (int, error) {
	if m := c.take(); m != nil {
		m.Release() // its call was over
	}
	if n := copy(p, c.again); n > 0 {
		c.again = c.again[n:]
		return n, nil
	}
	for c.passing == 0 {
		f, ok := readFrameHead(c.ahead)
		if !ok {
			if err := c.fill(); err != nil {
				return 0, err
			}
			continue
		}
		if f.large() && !c.split {
			return c.readLarge(p, f)
		}
		c.passing, c.split = f.bytes(), !f.done
	}
	return c.pass(p)
}

// fill reads more of a frame whose head is not complete.
func (c *incoming) fill() error {
	c.ahead = c.buffer[:copy(c.buffer[:], c.ahead)]
	n, err := c.from.Read(c.buffer[len(c.ahead):])
	c.ahead = c.buffer[:len(c.ahead)+n]
	if n > 0 {
		return nil
	}
	return err
}

// pass gives dRPC more of a frame.
func (c *incoming) pass(p []byte) (n int, err error) {
	p = p[:min(len(p), c.passing)]
	if len(c.ahead) > 0 {
		n = copy(p, c.ahead)
		c.ahead = c.ahead[n:]
	} else {
		n, err = c.from.Read(p)
	}
	c.passing -= n
	return n, err
}

// readLarge reads a message, and gives dRPC the same frame without data.
func (c *incoming) readLarge(p []byte, f frameHead) (int, error) {
	m := NewMemory(f.length)
	message := m.buffer[beforeMessage : beforeMessage+m.size+afterMessage]
	n := copy(message[:m.size], c.ahead[f.size:])
	standIn := append(append(p[:0], c.ahead[:f.lengthAt]...), 0)
	c.ahead = c.ahead[f.size+n:]
	if n < m.size {
		more, err := io.ReadAtLeast(c.from, message[n:], m.size-n)
		if err != nil {
			m.Release()
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			return 0, err
		}
		c.ahead = c.buffer[:copy(c.buffer[:], message[m.size:n+more])]
	}
	c.message = m
	return len(standIn), nil
}

// frameHead is the head of a frame of dRPC's.
type frameHead struct {
	kind     drpcwire.Kind
	done     bool // the frame is its message's last one
	control  bool
	lengthAt int // where the length stands
	size     int // of the head
	length   int // of the data; -1: more than any message has, or none can be read
}

func (f *frameHead) large() bool {
	return f.kind == drpcwire.KindMessage && f.done && !f.control && f.length >= largeFrom && f.length <= largeTo
}

// bytes is the size of the frame. What follows one that is damaged is for dRPC to refuse.
func (f *frameHead) bytes() int {
	if f.length < 0 {
		return math.MaxInt
	}
	return f.size + f.length
}

// readFrameHead reads the head that b begins with, if all of it is there.
func readFrameHead(b []byte) (f frameHead, ok bool) {
	if len(b) == 0 {
		return f, false
	}
	f.done, f.control, f.kind = b[0]&0x01 != 0, b[0]&0x80 != 0, drpcwire.Kind(b[0]&0x7e>>1)
	rest := b[1:]
	var length uint64
	for i := range 3 { // the ids of the stream and of the message, and the length
		if i == 2 {
			f.lengthAt = len(b) - len(rest)
		}
		var err error
		if rest, length, ok, err = drpcwire.ReadVarint(rest); err != nil {
			f.length = -1
			return f, true
		} else if !ok {
			return f, false
		}
	}
	f.size, f.length = len(b)-len(rest), int(length)
	if length > MaxMessage {
		f.length = -1
	}
	return f, true
}

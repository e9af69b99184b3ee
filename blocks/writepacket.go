package blocks

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packet is data of a file on its way to all replicas of a block at once: they send it from
// the same memory, with the same checksums. It is not changed once it is sealed.
type packet struct {
	window *window
	at     int64 // of the data in the file
	data   []byte
	sums   [4 * (muster.MaxTransfer / muster.ChecksumBytes)]byte
	memory *rpc.Memory // that data lies in; nil: none yet
	users  atomic.Int32
}

// smallPacket is the memory of a packet of a file that may be small.
const smallPacket = 32 << 10

// room returns the memory that the packet's data may still take, with which it has at most
// limit bytes. There is some, unless it has so many.
func (p *packet) room(limit int) []byte {
	if n := len(p.data); p.memory == nil || n == cap(p.data) && n < limit {
		size := smallPacket
		if n > 0 || limit < size {
			size = limit
		}
		memory := rpc.NewMemory(size)
		whole := memory.Bytes()
		data := whole[:copy(whole, p.data):size]
		if p.memory != nil {
			p.memory.Release()
		}
		p.memory, p.data = memory, data
	}
	return p.data[len(p.data):min(cap(p.data), limit)]
}

// filled says that n bytes of room were filled.
func (p *packet) filled(n int) { p.data = p.data[:len(p.data)+n] }

// seal computes the checksums.
func (p *packet) seal() {
	sums := p.sums[:0]
	for rest := p.data; len(rest) > 0; {
		n := min(len(rest), muster.ChecksumBytes)
		sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(rest[:n], castagnoli))
		rest = rest[n:]
	}
}

func (p *packet) checksums() []byte {
	return p.sums[:4*((len(p.data)+muster.ChecksumBytes-1)/muster.ChecksumBytes)]
}

// end is where the data ends in the file.
func (p *packet) end() int64 { return p.at + int64(len(p.data)) }

// use adds a user of the packet; each releases it.
func (p *packet) use() { p.users.Add(1) }

// release gives the packet's memory back when its last user is done with it.
func (p *packet) release() {
	if p.users.Add(-1) > 0 {
		return
	}
	if p.memory != nil {
		p.memory.Release()
		p.memory, p.data = nil, nil
	}
	p.window.inUse.Add(-1)
	p.window.changed.set()
}

// window bounds the packets of a file that are in use.
type window struct {
	most    int32
	inUse   atomic.Int32
	changed signal // of the writer
}

// take returns a packet of what comes at a place of the file, nil if all are in use. Only
// the writer's goroutine takes.
func (w *window) take(at int64) *packet {
	if w.inUse.Load() >= w.most {
		return nil
	}
	w.inUse.Add(1)
	p := &packet{window: w, at: at}
	p.use()
	return p
}

// signal wakes one goroutine that waits for a change.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default: // it will wake, and see this change too
	}
}

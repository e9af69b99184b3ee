package rows

import (
	"encoding/binary"
	"slices"

	"github.com/muster-fs/muster"
)

// Builder gathers rows column by column and frames them. It keeps its buffers from
// frame to frame, so that neither a row nor, once they have grown, a frame allocates.
// It belongs to one goroutine.
type Builder struct {
	columns  Columns
	template *template

	rows, blocks         int
	roomRows, roomBlocks int // what the buffers have room for, texts apart

	// Of columns in the set. Texts have their exact length; others are as long as the
	// room, and nothing but zeros is ever written to those of nodes.
	buffers [numSlots][]byte
}

// NewBuilder returns an empty builder of frames with the columns c.Normal(). The
// caller has validated c.
func NewBuilder(c Columns) *Builder {
	c = c.Normal()
	return &Builder{columns: c, template: templateOf(c)}
}

// Columns returns the columns of the builder's frames.
func (b *Builder) Columns() Columns { return b.columns }

// Len returns the number of rows.
func (b *Builder) Len() int { return b.rows }

// Reset forgets all rows and keeps the buffers.
func (b *Builder) Reset() {
	b.rows, b.blocks = 0, 0
	for _, s := range textSlots {
		b.buffers[s] = b.buffers[s][:0]
	}
}

// Append adds a row of the given path with this index. It copies what it keeps.
func (b *Builder) Append(pathIndex uint32, r *muster.Row) {
	if b.rows == b.roomRows || b.blocks+len(r.Blocks) > b.roomBlocks {
		b.grow(b.rows+1, b.blocks+len(r.Blocks))
	}
	i, c := b.rows, b.columns
	b.rows++
	b.put32(slotPathIndex, i, pathIndex)
	b.putText(slotNameOffsets, i, r.Name)
	if c.Has(ColKind) {
		b.buffers[slotKind][i] = uint8(r.Kind)
	}
	if c.Has(ColLength) {
		b.put64(slotLength, i, uint64(r.Length))
	}
	if c.Has(ColMTime) {
		b.put64(slotMTime, i, uint64(r.MTime))
	}
	if c.Has(ColATime) {
		b.put64(slotATime, i, uint64(r.ATime))
	}
	if c.Has(ColMode) {
		b.put16(slotMode, i, r.Mode)
	}
	if c.Has(ColOwner) {
		b.putText(slotOwnerOffsets, i, r.Owner)
	}
	if c.Has(ColGroup) {
		b.putText(slotGroupOffsets, i, r.Group)
	}
	if c.Has(ColReplication) {
		b.put16(slotReplication, i, uint16(r.Replication))
	}
	if c.Has(ColBlockSize) {
		b.put64(slotBlockSize, i, uint64(r.BlockSize))
	}
	if c.Has(ColInodeID) {
		b.put64(slotInodeID, i, r.ID)
	}
	if c.Has(ColFlags) {
		b.buffers[slotFlags][i] = r.Flags
	}
	if c.Has(ColLinkTarget) {
		b.putText(slotLinkTargetOffsets, i, r.Target)
	}
	if c.Has(ColBlocks) {
		b.putBlocks(i, r.Blocks)
	}
}

// SetMTime sets the mtime of a row that was appended: directories' times are read
// later than their rows. It does nothing if the column is not in the set.
func (b *Builder) SetMTime(row int, ms int64) {
	if b.columns.Has(ColMTime) {
		b.put64(slotMTime, row, uint64(ms))
	}
}

// Size returns an upper bound of the bytes that AppendFrame appends, at most a few
// hundred too many. It costs next to nothing.
func (b *Builder) Size() int {
	if b.rows == 0 {
		return 0
	}
	t := b.template
	n := t.frameBytes + b.rows*t.rowBytes + b.blocks*t.blockBytes + b.blocks/8
	for _, s := range textSlots {
		n += len(b.buffers[s])
	}
	return n
}

// AppendFrame appends the frame of all rows to dst; nothing if there are none. The
// rows stay until Reset.
func (b *Builder) AppendFrame(dst []byte) []byte {
	if b.rows == 0 {
		return dst
	}
	t := b.template
	var l lengths
	l.setCounts(b.rows, b.blocks)
	for _, s := range textSlots {
		l[s] = len(b.buffers[s])
	}

	start := len(dst)
	dst = slices.Grow(dst, b.Size())
	frame := dst[start:cap(dst)]
	head := frame[headerBytes:][:len(t.head)]
	copy(head, t.head)
	bodyBytes := t.patch(head, b.rows, b.blocks, &l)
	frame = frame[:headerBytes+len(head)+bodyBytes]
	body := frame[headerBytes+len(head):]
	for _, s := range t.buffers {
		if s == absent {
			continue
		}
		n := copy(body, b.buffers[s][:l[s]])
		next := padded(l[s])
		clear(body[n:next])
		body = body[next:]
	}
	seal(frame, b.columns, b.rows, len(head), bodyBytes)
	return dst[:start+len(frame)]
}

// grow makes room for so many rows and blocks, and for more to come.
func (b *Builder) grow(rows, blocks int) {
	const first = 64
	if rows > b.roomRows {
		b.roomRows = max(rows, 2*b.roomRows, first)
	}
	if blocks > b.roomBlocks {
		b.roomBlocks = max(blocks, 2*b.roomBlocks, first)
	}
	var l lengths // of texts: 0
	l.setCounts(b.roomRows, b.roomBlocks)
	for _, s := range b.template.buffers {
		if s != absent && len(b.buffers[s]) < l[s] {
			b.buffers[s] = append(b.buffers[s], make([]byte, l[s]-len(b.buffers[s]))...)
		}
	}
}

func (b *Builder) putBlocks(i int, blocks []muster.Block) {
	offset := int64(0)
	for k := range blocks {
		block := &blocks[k]
		b.put64(slotContainer, b.blocks, block.Container)
		b.put64(slotLocalID, b.blocks, block.LocalID)
		b.put64(slotBlockOffset, b.blocks, uint64(offset))
		b.put64(slotBlockLength, b.blocks, uint64(block.Length))
		offset += block.Length
		b.blocks++
	}
	b.put32(slotBlocksOffsets, i+1, uint32(b.blocks))
}

// putText puts the i-th text: its bytes, and its end among the offsets.
func (b *Builder) putText(offsets slot, i int, text []byte) {
	b.buffers[offsets+1] = append(b.buffers[offsets+1], text...)
	b.put32(offsets, i+1, uint32(len(b.buffers[offsets+1])))
}

func (b *Builder) put16(s slot, i int, v uint16) {
	binary.LittleEndian.PutUint16(b.buffers[s][2*i:], v)
}

func (b *Builder) put32(s slot, i int, v uint32) {
	binary.LittleEndian.PutUint32(b.buffers[s][4*i:], v)
}

func (b *Builder) put64(s slot, i int, v uint64) {
	binary.LittleEndian.PutUint64(b.buffers[s][8*i:], v)
}

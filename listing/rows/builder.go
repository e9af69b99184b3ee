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
	rows     int
	blocks   int
	buffers  [numSlots][]byte // of columns in the set; nodes' buffers are zeros and stay empty
}

// NewBuilder returns an empty builder of frames with the columns c.Normal(). The
// caller has validated c.
func NewBuilder(c Columns) *Builder {
	c = c.Normal()
	b := &Builder{columns: c, template: templateOf(c)}
	b.Reset()
	return b
}

// Columns returns the columns of the builder's frames.
func (b *Builder) Columns() Columns { return b.columns }

// Len returns the number of rows.
func (b *Builder) Len() int { return b.rows }

// Reset forgets all rows and keeps the buffers.
func (b *Builder) Reset() {
	b.rows, b.blocks = 0, 0
	for i := range b.buffers {
		b.buffers[i] = b.buffers[i][:0]
	}
	for _, s := range [...]slot{slotNameOffsets, slotOwnerOffsets, slotGroupOffsets, slotLinkTargetOffsets, slotBlocksOffsets} {
		b.put32(s, 0)
	}
}

// Append adds a row of the given path with this index. It copies what it keeps.
func (b *Builder) Append(pathIndex uint32, r *muster.Row) {
	b.rows++
	b.put32(slotPathIndex, pathIndex)
	b.putText(slotNameOffsets, r.Name)
	c := b.columns
	if c.Has(ColKind) {
		b.put8(slotKind, uint8(r.Kind))
	}
	if c.Has(ColLength) {
		b.put64(slotLength, uint64(r.Length))
	}
	if c.Has(ColMTime) {
		b.put64(slotMTime, uint64(r.MTime))
	}
	if c.Has(ColATime) {
		b.put64(slotATime, uint64(r.ATime))
	}
	if c.Has(ColMode) {
		b.put16(slotMode, r.Mode)
	}
	if c.Has(ColOwner) {
		b.putText(slotOwnerOffsets, r.Owner)
	}
	if c.Has(ColGroup) {
		b.putText(slotGroupOffsets, r.Group)
	}
	if c.Has(ColReplication) {
		b.put16(slotReplication, uint16(r.Replication))
	}
	if c.Has(ColBlockSize) {
		b.put64(slotBlockSize, uint64(r.BlockSize))
	}
	if c.Has(ColInodeID) {
		b.put64(slotInodeID, r.ID)
	}
	if c.Has(ColFlags) {
		b.put8(slotFlags, r.Flags)
	}
	if c.Has(ColLinkTarget) {
		b.putText(slotLinkTargetOffsets, r.Target)
	}
	if c.Has(ColBlocks) {
		b.putBlocks(r.Blocks)
	}
}

// SetMTime sets the mtime of a row that was appended: directories' times are read
// later than their rows. It does nothing if the column is not in the set.
func (b *Builder) SetMTime(row int, ms int64) {
	if b.columns.Has(ColMTime) {
		binary.LittleEndian.PutUint64(b.buffers[slotMTime][8*row:], uint64(ms))
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
		n := copy(body, b.buffers[s])
		next := padded(l[s])
		clear(body[n:next])
		body = body[next:]
	}
	seal(frame, b.columns, b.rows, len(head), bodyBytes)
	return dst[:start+len(frame)]
}

func (b *Builder) putBlocks(blocks []muster.Block) {
	offset := int64(0)
	for i := range blocks {
		block := &blocks[i]
		b.put64(slotContainer, block.Container)
		b.put64(slotLocalID, block.LocalID)
		b.put64(slotBlockOffset, uint64(offset))
		b.put64(slotBlockLength, uint64(block.Length))
		offset += block.Length
	}
	b.blocks += len(blocks)
	b.put32(slotBlocksOffsets, uint32(b.blocks))
}

func (b *Builder) putText(offsets slot, text []byte) {
	data := append(b.buffers[offsets+1], text...)
	b.buffers[offsets+1] = data
	b.put32(offsets, uint32(len(data)))
}

func (b *Builder) put8(s slot, v uint8) { b.buffers[s] = append(b.buffers[s], v) }

func (b *Builder) put16(s slot, v uint16) {
	b.buffers[s] = binary.LittleEndian.AppendUint16(b.buffers[s], v)
}

func (b *Builder) put32(s slot, v uint32) {
	b.buffers[s] = binary.LittleEndian.AppendUint32(b.buffers[s], v)
}

func (b *Builder) put64(s slot, v uint64) {
	b.buffers[s] = binary.LittleEndian.AppendUint64(b.buffers[s], v)
}

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

	rows, blocks int
	row          *rowChunk   // of the last row
	rowChunks    []*rowChunk // used before and to be used again
	block        *blockChunk // of the last block
	blockChunks  []*blockChunk

	located int   // blocks that have their nodes; none or all when a frame is made
	unknown []int // of these, those whose nodes are unknown
	absent  int   // nodes

	name, owner, group, linkTarget, nodes []byte
}

// NewBuilder returns an empty builder of frames with the columns c.Normal(). The
// caller has validated c.
func NewBuilder(c Columns) *Builder {
	b := &Builder{}
	b.Use(c)
	return b
}

// Use forgets all rows and makes b a builder of frames with the columns c.Normal(). The
// caller has validated c. Buffers are kept.
func (b *Builder) Use(c Columns) {
	b.Reset()
	if c = c.Normal(); c != b.columns {
		b.columns, b.template = c, templateOf(c)
	}
}

// Columns returns the columns of the builder's frames.
func (b *Builder) Columns() Columns { return b.columns }

// Len returns the number of rows.
func (b *Builder) Len() int { return b.rows }

// Reset forgets all rows and keeps the buffers.
func (b *Builder) Reset() {
	b.rows, b.blocks, b.located, b.unknown, b.absent = 0, 0, 0, b.unknown[:0], 0
	b.name, b.owner, b.group, b.linkTarget, b.nodes = b.name[:0], b.owner[:0], b.group[:0], b.linkTarget[:0], b.nodes[:0]
}

// Append adds a row of the given path with this index. It copies what it keeps.
func (b *Builder) Append(pathIndex uint32, r *muster.Row) {
	i, le := uint(b.rows)%chunkRows, binary.LittleEndian
	if i == 0 {
		b.nextRows()
	}
	b.rows++
	to, c := b.row, b.columns
	le.PutUint32(to.pathIndex[4*i:], pathIndex)
	b.name = append(b.name, r.Name...)
	le.PutUint32(to.name[4*i:], uint32(len(b.name)))
	if c.Has(ColKind) {
		to.kind[i] = uint8(r.Kind)
	}
	if c.Has(ColLength) {
		le.PutUint64(to.length[8*i:], uint64(r.Length))
	}
	if c.Has(ColMTime) {
		le.PutUint64(to.mtime[8*i:], uint64(r.MTime))
	}
	if c.Has(ColATime) {
		le.PutUint64(to.atime[8*i:], uint64(r.ATime))
	}
	if c.Has(ColMode) {
		le.PutUint16(to.mode[2*i:], r.Mode)
	}
	if c.Has(ColOwner) {
		b.owner = append(b.owner, r.Owner...)
		le.PutUint32(to.owner[4*i:], uint32(len(b.owner)))
	}
	if c.Has(ColGroup) {
		b.group = append(b.group, r.Group...)
		le.PutUint32(to.group[4*i:], uint32(len(b.group)))
	}
	if c.Has(ColReplication) {
		le.PutUint16(to.replication[2*i:], uint16(r.Replication))
	}
	if c.Has(ColBlockSize) {
		le.PutUint64(to.blockSize[8*i:], uint64(r.BlockSize))
	}
	if c.Has(ColInodeID) {
		le.PutUint64(to.inodeID[8*i:], r.ID)
	}
	if c.Has(ColFlags) {
		to.flags[i] = r.Flags
	}
	if c.Has(ColLinkTarget) {
		if len(r.Target) > 0 {
			b.linkTarget = append(b.linkTarget, r.Target...)
		}
		le.PutUint32(to.linkTarget[4*i:], uint32(len(b.linkTarget)))
	}
	if c.Has(ColBlocks) {
		b.appendBlocks(r.Blocks)
		le.PutUint32(to.blocks[4*i:], uint32(b.blocks))
	}
}

func (b *Builder) appendBlocks(blocks []muster.Block) {
	le, offset := binary.LittleEndian, int64(0)
	for k := range blocks {
		from, j := &blocks[k], uint(b.blocks)%chunkBlocks
		if j == 0 {
			b.nextBlocks()
		}
		b.blocks++
		to := b.block
		le.PutUint64(to.container[8*j:], from.Container)
		le.PutUint64(to.localID[8*j:], from.LocalID)
		le.PutUint64(to.offset[8*j:], uint64(offset))
		le.PutUint64(to.length[8*j:], uint64(from.Length))
		offset += from.Length
	}
}

// nextRows makes the chunk of the next row the current one.
func (b *Builder) nextRows() {
	k := b.rows / chunkRows
	if k == len(b.rowChunks) {
		b.rowChunks = append(b.rowChunks, new(rowChunk))
	}
	b.row = b.rowChunks[k]
}

// nextBlocks makes the chunk of the next block the current one.
func (b *Builder) nextBlocks() {
	k := b.blocks / chunkBlocks
	if k == len(b.blockChunks) {
		b.blockChunks = append(b.blockChunks, new(blockChunk))
	}
	b.block = b.blockChunks[k]
}

// SetMTime sets the mtime of a row that was appended: directories' times are read
// later than their rows. It does nothing if the column is not in the set.
func (b *Builder) SetMTime(row int, ms int64) {
	if b.columns.Has(ColMTime) {
		binary.LittleEndian.PutUint64(b.rowChunks[row/chunkRows].mtime[8*(row%chunkRows):], uint64(ms))
	}
}

// LastName returns the name of the last row appended, of which there must be one. It is
// valid until the next call of Append or Reset.
func (b *Builder) LastName() []byte {
	start, i := uint32(0), b.rows-1
	if i > 0 {
		start = binary.LittleEndian.Uint32(b.rowChunks[(i-1)/chunkRows].name[4*((i-1)%chunkRows):])
	}
	return b.name[start:]
}

// Size returns an upper bound of the bytes that AppendFrame appends, at most a few
// hundred too many. It costs next to nothing.
func (b *Builder) Size() int {
	if b.rows == 0 {
		return 0
	}
	t := b.template
	return t.frameBytes + b.rows*t.rowBytes + b.blocks*t.blockBytes +
		len(b.name) + len(b.owner) + len(b.group) + len(b.linkTarget) + b.sizeOfNodes()
}

// AppendFrame appends the frame of all rows to dst; nothing if there are none. The
// rows stay until Reset. If AppendNodes was called at all, it was called for all blocks.
func (b *Builder) AppendFrame(dst []byte) []byte {
	if b.rows == 0 {
		return dst
	}
	t := b.template
	var l lengths
	n := b.counts()
	l.setCounts(n)
	l[slotName], l[slotOwner], l[slotGroup], l[slotLinkTarget] = len(b.name), len(b.owner), len(b.group), len(b.linkTarget)

	start := len(dst)
	dst = slices.Grow(dst, b.Size())
	frame := dst[start:cap(dst)]
	head := frame[headerBytes:][:len(t.head)]
	copy(head, t.head)
	bodyBytes := t.patch(head, n, &l)
	frame = frame[:headerBytes+len(head)+bodyBytes]
	body := frame[headerBytes+len(head):]
	for _, s := range t.buffers {
		if s == absent {
			continue
		}
		next := padded(l[s])
		b.copyBuffer(body[:l[s]], s)
		clear(body[l[s]:next])
		body = body[next:]
	}
	seal(frame, b.columns, b.rows, len(head), bodyBytes)
	return dst[:start+len(frame)]
}

// copyBuffer fills to with the buffer of a slot, whose length it has.
func (b *Builder) copyBuffer(to []byte, s slot) {
	switch s {
	case slotName:
		copy(to, b.name)
	case slotOwner:
		copy(to, b.owner)
	case slotGroup:
		copy(to, b.group)
	case slotLinkTarget:
		copy(to, b.linkTarget)
	case slotNodesValidity, slotNodesOffsets, slotNodeValidity, slotNode:
		b.copyNodes(to, s)
	case slotContainer, slotLocalID, slotBlockOffset, slotBlockLength:
		b.copyBlocks(to, s)
	default:
		if s.ends() {
			clear(to[:4])
			to = to[4:]
		}
		for k := 0; len(to) > 0; k++ {
			to = to[copy(to, b.rowChunks[k].column(s)):]
		}
	}
}

// copyBlocks fills to with what the chunks have in a slot.
func (b *Builder) copyBlocks(to []byte, s slot) {
	for k := 0; len(to) > 0; k++ {
		to = to[copy(to, b.blockChunks[k].column(s)):]
	}
}

package rows

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
)

// Absent stands for the replica that an erasure-coded block lacks, see AppendNodes.
const Absent = math.MaxUint32

// Unlocated returns the number of blocks for which AppendNodes was not called yet.
func (b *Builder) Unlocated() int { return b.blocks - b.located }

// AppendContainers appends the containers of these blocks, in their order.
func (b *Builder) AppendContainers(dst []uint64) []uint64 {
	for k := b.located; k < b.blocks; {
		chunk, j := b.blockChunks[k/chunkBlocks], k%chunkBlocks
		n := min(chunkBlocks-j, b.blocks-k)
		for column := chunk.container[8*j : 8*(j+n)]; len(column) >= 8; column = column[8:] {
			dst = append(dst, binary.LittleEndian.Uint64(column))
		}
		k += n
	}
	return dst
}

// PathOfNext returns the index of the path of the first of these blocks, of which there must
// be one.
func (b *Builder) PathOfNext() uint32 {
	le := binary.LittleEndian
	row := sort.Search(b.rows, func(i int) bool {
		return int(le.Uint32(b.rowChunks[i/chunkRows].blocks[4*(i%chunkRows):])) > b.located
	})
	return le.Uint32(b.rowChunks[row/chunkRows].pathIndex[4*(row%chunkRows):])
}

// AppendNodes says where the first of these blocks are, by positions in the table of nodes of
// the call: each has the nodes from the end of the one before to its own end. It, or
// AppendUnknown, is called for all blocks before AppendFrame, or for none: then all are unknown.
func (b *Builder) AppendNodes(nodes, ends []uint32) {
	le, first := binary.LittleEndian, uint32(len(b.nodes)/4)
	b.nodes = slices.Grow(b.nodes, 4*len(nodes))
	to := b.nodes[len(b.nodes):][:4*len(nodes)]
	b.nodes = b.nodes[:len(b.nodes)+len(to)]
	for _, n := range nodes {
		if n == Absent {
			b.absent++
		}
		le.PutUint32(to, n)
		to = to[4:]
	}
	for len(ends) > 0 {
		j := b.located % chunkBlocks
		column := b.blockChunks[b.located/chunkBlocks].nodes[4*j:]
		n := min(chunkBlocks-j, len(ends))
		for _, end := range ends[:n] {
			le.PutUint32(column, first+end)
			column = column[4:]
		}
		ends = ends[n:]
		b.located += n
	}
}

// AppendUnknown says that it is unknown where the first of these blocks is.
func (b *Builder) AppendUnknown() {
	b.unknown = append(b.unknown, b.located)
	b.AppendNodes(nil, []uint32{0})
}

// counts returns the counts of the frame. Blocks without nodes are unknown.
func (b *Builder) counts() counts {
	if b.located > 0 && b.located < b.blocks {
		panic("rows: a frame of blocks some of which have no nodes yet")
	}
	return counts{rows: b.rows, blocks: b.blocks, unknown: len(b.unknown) + b.Unlocated(), nodes: len(b.nodes) / 4, absent: b.absent}
}

// sizeOfNodes returns the bytes of nodes in the frame but for their offsets.
func (b *Builder) sizeOfNodes() int {
	if b.blocks == 0 {
		return 0
	}
	return validity(b.blocks, len(b.unknown)+b.Unlocated()) + validity(len(b.nodes)/4, b.absent) + len(b.nodes)
}

// copyNodes fills to with one of the buffers of nodes, whose length it has.
func (b *Builder) copyNodes(to []byte, s slot) {
	switch {
	case len(to) == 0:
	case s == slotNodesValidity:
		b.copyKnown(to)
	case s == slotNodesOffsets && b.located == 0:
		clear(to)
	case s == slotNodesOffsets:
		clear(to[:4])
		b.copyBlocks(to[4:], s)
	case s == slotNodeValidity:
		clear(to)
		for i := range len(b.nodes) / 4 {
			if binary.LittleEndian.Uint32(b.nodes[4*i:]) != Absent {
				to[i/8] |= 1 << (i % 8)
			}
		}
	case b.absent == 0:
		copy(to, b.nodes)
	default: // absent ones are 0, as Arrow's builders have them
		for i := range len(b.nodes) / 4 {
			n := binary.LittleEndian.Uint32(b.nodes[4*i:])
			if n == Absent {
				n = 0
			}
			binary.LittleEndian.PutUint32(to[4*i:], n)
		}
	}
}

// copyKnown fills to with a bit for each block, set if it is known where the block is.
func (b *Builder) copyKnown(to []byte) {
	clear(to)
	for i := range b.located / 8 {
		to[i] = 0xff
	}
	if rest := b.located % 8; rest > 0 {
		to[b.located/8] = 1<<rest - 1
	}
	for _, i := range b.unknown {
		to[i/8] &^= 1 << (i % 8)
	}
}

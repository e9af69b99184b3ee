package rows

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/muster-fs/muster"
)

// Batch is a checked frame: rows to read by index, from 0 to Len()-1. It never
// changes, so it is safe for concurrent use. No accessor but Entry and Record
// allocates; strings alias the frame and keep it in memory. The value of a column that
// is not in the set is zero.
type Batch struct {
	columns   Columns
	template  *template
	counts    counts
	nodeBound int
	buffers   [numSlots][]byte // of exact length; nil if there are no rows or the column is not in the set
}

// Len returns the number of rows; a nil batch has none.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return b.counts.rows
}

// Columns returns the columns that the batch has.
func (b *Batch) Columns() Columns { return b.columns }

// PathIndex returns the index of the given path in the call, from 0.
func (b *Batch) PathIndex(i int) uint32 { return b.uint32(slotPathIndex, i) }

// Name returns the last component of the row's path: empty for the own entry of a
// given path.
func (b *Batch) Name(i int) string { return b.text(slotNameOffsets, i) }

// Kind returns what the inode is.
func (b *Batch) Kind(i int) muster.Kind { return muster.Kind(b.uint8(slotKind, i)) }

// Length returns a file's length in bytes.
func (b *Batch) Length(i int) int64 { return b.int64(slotLength, i) }

// MTime returns the time of the last change, in ms since the epoch.
func (b *Batch) MTime(i int) int64 { return b.int64(slotMTime, i) }

// ATime returns the access time, in ms since the epoch.
func (b *Batch) ATime(i int) int64 { return b.int64(slotATime, i) }

// Mode returns the permission bits and the sticky bit.
func (b *Batch) Mode(i int) uint16 { return b.uint16(slotMode, i) }

// Owner returns the owner's user name.
func (b *Batch) Owner(i int) string { return b.text(slotOwnerOffsets, i) }

// Group returns the group's name.
func (b *Batch) Group(i int) string { return b.text(slotGroupOffsets, i) }

// Replication returns how a file's blocks are kept.
func (b *Batch) Replication(i int) muster.Replication {
	return muster.Replication(b.uint16(slotReplication, i))
}

// BlockSize returns a file's block size in bytes.
func (b *Batch) BlockSize(i int) int64 { return b.int64(slotBlockSize, i) }

// InodeID returns the inode's id.
func (b *Batch) InodeID(i int) uint64 { return uint64(b.int64(slotInodeID, i)) }

// Flags returns the inode's flags, such as muster.FlagWriting. A newer server may
// send flags that this version does not know.
func (b *Batch) Flags(i int) uint8 { return b.uint8(slotFlags, i) }

// LinkTarget returns a link's target as it was given.
func (b *Batch) LinkTarget(i int) string { return b.text(slotLinkTargetOffsets, i) }

// NumBlocks returns the number of a row's blocks, 0 for a directory or link; -1 if
// blocks are not in the set.
func (b *Batch) NumBlocks(i int) int {
	if b.buffers[slotBlocksOffsets] == nil {
		return -1
	}
	return int(b.uint32(slotBlocksOffsets, i+1) - b.uint32(slotBlocksOffsets, i))
}

// Block returns the k-th block of a row, from 0 to NumBlocks(i)-1.
func (b *Batch) Block(i, k int) muster.Block {
	at := int(b.uint32(slotBlocksOffsets, i)) + k
	return muster.Block{
		Container: uint64(b.int64(slotContainer, at)),
		LocalID:   uint64(b.int64(slotLocalID, at)),
		Length:    b.int64(slotBlockLength, at),
	}
}

// Nodes are the places of one block, by positions in the table of nodes of the call.
type Nodes struct {
	batch      *Batch
	first, end int
}

// Nodes returns the places of the k-th block of a row: of an erasure-coded block one for each
// replica index, from 1, up to the last that is told. They are not known if nobody knows where
// the block is, or it was not asked.
func (b *Batch) Nodes(i, k int) (n Nodes, known bool) {
	at := int(b.uint32(slotBlocksOffsets, i)) + k
	if !b.located(at) {
		return Nodes{}, false
	}
	ends := b.buffers[slotNodesOffsets][4*at:][:8]
	return Nodes{b, int(binary.LittleEndian.Uint32(ends)), int(binary.LittleEndian.Uint32(ends[4:]))}, true
}

// Len returns the number of places.
func (n Nodes) Len() int { return n.end - n.first }

// At returns the j-th place, from 0 to Len()-1: false for an erasure-coded replica that is
// absent.
func (n Nodes) At(j int) (position uint32, present bool) {
	if n.batch.counts.absent > 0 && !bit(n.batch.buffers[slotNodeValidity], n.first+j) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(n.batch.buffers[slotNode][4*(n.first+j):]), true
}

// NodeBound is above all positions of nodes: a table of so many nodes will do.
func (b *Batch) NodeBound() int { return b.nodeBound }

// located says whether the nodes of the block at an index are known.
func (b *Batch) located(at int) bool {
	switch b.counts.unknown {
	case 0:
		return true
	case b.counts.blocks:
		return false
	}
	return bit(b.buffers[slotNodesValidity], at)
}

// bit says whether the i-th bit is set.
func bit(bits []byte, i int) bool { return bits[i/8]&(1<<(i%8)) != 0 }

// Entry returns a row as a value of its own, which does not keep the frame.
func (b *Batch) Entry(i int) muster.Entry {
	e := muster.Entry{
		ID: b.InodeID(i), Length: b.Length(i), MTime: b.MTime(i), ATime: b.ATime(i), BlockSize: b.BlockSize(i),
		Mode: b.Mode(i), Replication: b.Replication(i), Kind: b.Kind(i), Flags: b.Flags(i),
		Name:   strings.Clone(b.Name(i)),
		Owner:  strings.Clone(b.Owner(i)),
		Group:  strings.Clone(b.Group(i)),
		Target: strings.Clone(b.LinkTarget(i)),
	}
	if n := b.NumBlocks(i); n >= 0 && e.Kind != muster.Directory && e.Kind != muster.Link {
		e.Blocks = make([]muster.Block, n)
		for k := range e.Blocks {
			e.Blocks[k] = b.Block(i, k)
		}
	}
	return e
}

func (b *Batch) text(offsets slot, i int) string {
	if b.buffers[offsets] == nil {
		return ""
	}
	text := b.buffers[offsets+1][b.uint32(offsets, i):b.uint32(offsets, i+1)]
	return unsafe.String(unsafe.SliceData(text), len(text))
}

func (b *Batch) uint8(s slot, i int) uint8 {
	if b.buffers[s] == nil {
		return 0
	}
	return b.buffers[s][i]
}

func (b *Batch) uint16(s slot, i int) uint16 {
	if b.buffers[s] == nil {
		return 0
	}
	return binary.LittleEndian.Uint16(b.buffers[s][2*i:])
}

func (b *Batch) uint32(s slot, i int) uint32 {
	if b.buffers[s] == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b.buffers[s][4*i:])
}

func (b *Batch) int64(s slot, i int) int64 {
	if b.buffers[s] == nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b.buffers[s][8*i:]))
}

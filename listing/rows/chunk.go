package rows

// chunkRows and chunkBlocks are how many values a chunk has room for: few enough to stay
// in a processor's first cache while it is filled, enough for copies worth their call.
// They are powers of two, so that no store into a chunk needs a check of its bounds.
const (
	chunkRows   = 256
	chunkBlocks = 256
)

// rowChunk has room for what chunkRows rows hold beside texts, column by column. Columns
// that are not in the set stay as they are. Texts and lists of blocks are kept by their
// ends: offsets are these after a leading zero.
type rowChunk struct {
	length, mtime, atime, blockSize, inodeID          [8 * chunkRows]byte
	pathIndex, name, owner, group, linkTarget, blocks [4 * chunkRows]byte
	mode, replication                                 [2 * chunkRows]byte
	kind, flags                                       [chunkRows]byte
}

// column returns the values of a slot that has some for each row.
func (c *rowChunk) column(s slot) []byte {
	switch s {
	case slotPathIndex:
		return c.pathIndex[:]
	case slotNameOffsets:
		return c.name[:]
	case slotKind:
		return c.kind[:]
	case slotLength:
		return c.length[:]
	case slotMTime:
		return c.mtime[:]
	case slotATime:
		return c.atime[:]
	case slotMode:
		return c.mode[:]
	case slotOwnerOffsets:
		return c.owner[:]
	case slotGroupOffsets:
		return c.group[:]
	case slotReplication:
		return c.replication[:]
	case slotBlockSize:
		return c.blockSize[:]
	case slotInodeID:
		return c.inodeID[:]
	case slotFlags:
		return c.flags[:]
	case slotLinkTargetOffsets:
		return c.linkTarget[:]
	}
	return c.blocks[:]
}

// blockChunk has room for chunkBlocks blocks, column by column. Lists of nodes are kept by
// their ends, too.
type blockChunk struct {
	container, localID, offset, length [8 * chunkBlocks]byte
	nodes                              [4 * chunkBlocks]byte
}

// column returns the values of a slot that has some for each block.
func (c *blockChunk) column(s slot) []byte {
	switch s {
	case slotContainer:
		return c.container[:]
	case slotLocalID:
		return c.localID[:]
	case slotBlockOffset:
		return c.offset[:]
	case slotNodesOffsets:
		return c.nodes[:]
	}
	return c.length[:]
}

package rows

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// SchemaVersion is the version of the schema and of the frame. It changes with
// every change that an older reader would misread.
const SchemaVersion = 2

// Schema returns the wire schema of the columns: what [Batch.Record] returns has it,
// and every frame's message is encoded by it.
func Schema(c Columns) *arrow.Schema { return templateOf(c.Normal()).schema }

// slot names one buffer of the widest schema. The slot of a text is the one after that
// of its offsets.
type slot int8

// absent stands for a buffer that a message mentions and never holds: the validity
// of a column without nulls.
const absent slot = -1

const (
	slotPathIndex slot = iota
	slotNameOffsets
	slotName
	slotKind
	slotLength
	slotMTime
	slotATime
	slotMode
	slotOwnerOffsets
	slotOwner
	slotGroupOffsets
	slotGroup
	slotReplication
	slotBlockSize
	slotInodeID
	slotFlags
	slotLinkTargetOffsets
	slotLinkTarget
	slotBlocksOffsets
	slotContainer
	slotLocalID
	slotBlockOffset
	slotBlockLength
	slotNodesValidity
	slotNodesOffsets
	slotNodeValidity
	slotNode

	numSlots = iota
)

// textSlots are the buffers whose length does not follow from the counts.
var textSlots = [...]slot{slotName, slotOwner, slotGroup, slotLinkTarget}

// ends says whether a slot has the offsets of texts or lists of rows, of which a chunk
// keeps the ends.
func (s slot) ends() bool {
	switch s {
	case slotNameOffsets, slotOwnerOffsets, slotGroupOffsets, slotLinkTargetOffsets, slotBlocksOffsets:
		return true
	}
	return false
}

// counts are how many values a frame has of each level.
type counts struct {
	rows, blocks int
	unknown      int // blocks of which it is unknown where they are
	nodes        int // of all lists of nodes
	absent       int // of these, those without a value
}

// lengths has the bytes of each buffer, without padding.
type lengths [numSlots]int

// setCounts sets the lengths that follow from counts; those of texts stay as they are.
func (l *lengths) setCounts(n counts) {
	rows, blocks := n.rows, n.blocks
	for _, s := range [...]slot{slotKind, slotFlags} {
		l[s] = rows
	}
	for _, s := range [...]slot{slotMode, slotReplication} {
		l[s] = 2 * rows
	}
	for _, s := range [...]slot{slotLength, slotMTime, slotATime, slotBlockSize, slotInodeID} {
		l[s] = 8 * rows
	}
	for _, s := range [...]slot{slotNameOffsets, slotOwnerOffsets, slotGroupOffsets, slotLinkTargetOffsets, slotBlocksOffsets} {
		l[s] = 4 * (rows + 1)
	}
	for _, s := range [...]slot{slotContainer, slotLocalID, slotBlockOffset, slotBlockLength} {
		l[s] = 8 * blocks
	}
	l[slotPathIndex] = 4 * rows
	l[slotNodesValidity] = validity(blocks, n.unknown)
	l[slotNodesOffsets] = 4 * (blocks + 1)
	l[slotNodeValidity] = validity(n.nodes, n.absent)
	l[slotNode] = 4 * n.nodes
}

// validity returns the bytes of a buffer of validity: a bit a value, in units of 64 bytes, and
// nothing if there are no nulls. So Arrow's writer has it.
func validity(values, nulls int) int {
	if nulls == 0 {
		return 0
	}
	return (values + 511) / 512 * 64
}

// level says how many values a field node counts.
type level uint8

const (
	perRow   level = iota
	perBlock       // one a block
	perList        // one a block, null if its nodes are unknown
	perNode        // one a node, null if it is absent
)

// counts returns the values of a field node and how many of them are null.
func (l level) counts(n counts) (values, nulls int) {
	switch l {
	case perRow:
		return n.rows, 0
	case perBlock:
		return n.blocks, 0
	case perList:
		return n.blocks, n.unknown
	}
	return n.nodes, n.absent
}

// column is one column of the schema, with its field nodes and buffers in the order
// in which a message has them.
type column struct {
	name    string
	typ     arrow.DataType
	nodes   []level
	buffers []slot
}

func fixed(name string, typ arrow.DataType, values slot) column {
	return column{name, typ, []level{perRow}, []slot{absent, values}}
}

func text(name string, offsets slot) column {
	return column{name, arrow.BinaryTypes.String, []level{perRow}, []slot{absent, offsets, offsets + 1}}
}

var columnTable = [numColumns]column{
	fixed("path_index", arrow.PrimitiveTypes.Uint32, slotPathIndex),
	text("name", slotNameOffsets),
	fixed("kind", arrow.PrimitiveTypes.Uint8, slotKind),
	fixed("length", arrow.PrimitiveTypes.Int64, slotLength),
	fixed("mtime", arrow.FixedWidthTypes.Timestamp_ms, slotMTime),
	fixed("atime", arrow.FixedWidthTypes.Timestamp_ms, slotATime),
	fixed("mode", arrow.PrimitiveTypes.Uint16, slotMode),
	text("owner", slotOwnerOffsets),
	text("group", slotGroupOffsets),
	fixed("replication", arrow.PrimitiveTypes.Uint16, slotReplication),
	fixed("block_size", arrow.PrimitiveTypes.Int64, slotBlockSize),
	fixed("inode_id", arrow.PrimitiveTypes.Uint64, slotInodeID),
	fixed("flags", arrow.PrimitiveTypes.Uint8, slotFlags),
	text("link_target", slotLinkTargetOffsets),
	{
		name: "blocks",
		typ: arrow.ListOfNonNullable(arrow.StructOf(
			arrow.Field{Name: "container", Type: arrow.PrimitiveTypes.Uint64},
			arrow.Field{Name: "local_id", Type: arrow.PrimitiveTypes.Uint64},
			arrow.Field{Name: "offset", Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: "nodes", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint32), Nullable: true},
		)),
		nodes: []level{perRow, perBlock, perBlock, perBlock, perBlock, perBlock, perList, perNode},
		buffers: []slot{
			absent, slotBlocksOffsets,
			absent,
			absent, slotContainer,
			absent, slotLocalID,
			absent, slotBlockOffset,
			absent, slotBlockLength,
			slotNodesValidity, slotNodesOffsets,
			slotNodeValidity, slotNode,
		},
	},
}

// field returns the column as a field of the schema. blocks may be null in later
// versions; today a row without blocks has an empty list.
func (c *column) field() arrow.Field {
	return arrow.Field{Name: c.name, Type: c.typ, Nullable: c.name == "blocks"}
}

// column returns the name of the column that the buffer belongs to, for messages.
func (s slot) column() string {
	for i := range columnTable {
		if slices.Contains(columnTable[i].buffers, s) {
			return columnTable[i].name
		}
	}
	return ""
}

package rows

import (
	"io"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster"
)

// The blocks of a located stream name their replicas, where those of a frame have positions
// in a table that only the call knows.
var (
	replica = arrow.StructOf(
		arrow.Field{Name: "id", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "host", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "port", Type: arrow.PrimitiveTypes.Uint16},
		arrow.Field{Name: "rack", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "state", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "index", Type: arrow.PrimitiveTypes.Uint8}, // erasure-coded: from 1; else 0
	)
	locatedBlock = arrow.StructOf(
		arrow.Field{Name: "container", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "local_id", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "offset", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "replicas", Type: arrow.ListOfNonNullable(replica), Nullable: true}, // null: unknown
	)
	locatedBlocks = arrow.ListOfNonNullable(locatedBlock)
)

// NewLocatedIPCWriter returns a writer of batches of the columns c.Normal(), of listings with
// locations. Their blocks have replicas in place of nodes: datanodes by id, host, port, rack
// and state, and for erasure-coded files the replica index; null if they are unknown. The
// last column, no_data, marks files some bytes of which are in no block.
func NewLocatedIPCWriter(w io.Writer, c Columns) *IPCWriter {
	return newIPCWriter(w, c.Normal()|LocatedColumns, true)
}

// LocatedSchema is the schema of such a stream, of the columns c and the blocks alone.
func LocatedSchema(c Columns) *arrow.Schema { return ipcSchema(c.Normal()|ColBlocks, true) }

// WriteLocated writes a batch to the stream of NewLocatedIPCWriter; node gives the datanode at
// a position of the batch's table of nodes.
func (w *IPCWriter) WriteLocated(b *Batch, path func(i int) string, node func(position uint32) *muster.Node) error {
	return w.write(b, path, node)
}

// locatedColumn returns the column blocks with replicas in place of nodes.
func (b *Batch) locatedColumn(wire arrow.Array, node func(position uint32) *muster.Node) arrow.Array {
	lists := wire.Data()
	blocks := lists.Children()[0]
	replicas := b.replicas(node)
	defer replicas.Release()
	fields := slices.Clone(blocks.Children())
	fields[len(fields)-1] = replicas.Data()
	located := array.NewData(locatedBlock, blocks.Len(), blocks.Buffers(), fields, 0, 0)
	defer located.Release()
	data := array.NewData(locatedBlocks, lists.Len(), lists.Buffers(), []arrow.ArrayData{located}, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// replicas returns the lists of replicas of all blocks.
func (b *Batch) replicas(node func(position uint32) *muster.Node) arrow.Array {
	lists := array.NewListBuilderWithField(memory.DefaultAllocator, locatedBlock.Field(4).Type.(*arrow.ListType).ElemField())
	defer lists.Release()
	to := lists.ValueBuilder().(*array.StructBuilder)
	for i := range b.Len() {
		_, _, coded := b.Replication(i).Coding()
		for k := range b.NumBlocks(i) {
			nodes, known := b.Nodes(i, k)
			if !known {
				lists.AppendNull()
				continue
			}
			lists.Append(true)
			for j := range nodes.Len() {
				if at, present := nodes.At(j); present {
					index := 0
					if coded {
						index = j + 1
					}
					appendReplica(to, node(at), uint8(index))
				}
			}
		}
	}
	return lists.NewArray()
}

func appendReplica(to *array.StructBuilder, n *muster.Node, index uint8) {
	to.Append(true)
	to.FieldBuilder(0).(*array.StringBuilder).Append(n.ID)
	to.FieldBuilder(1).(*array.StringBuilder).Append(n.Host)
	to.FieldBuilder(2).(*array.Uint16Builder).Append(n.Port)
	to.FieldBuilder(3).(*array.StringBuilder).Append(n.Rack)
	to.FieldBuilder(4).(*array.StringBuilder).Append(n.State.String())
	to.FieldBuilder(5).(*array.Uint8Builder).Append(index)
}

func (b *Batch) noDataColumn() arrow.Array {
	to := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer to.Release()
	to.Reserve(b.Len())
	for i := range b.Len() {
		to.Append(b.Flags(i)&muster.FlagNoData != 0)
	}
	return to.NewArray()
}

package rows

import (
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster"
)

// IPCWriter writes batches as a standard Arrow IPC stream that any Arrow reader
// understands without knowing Muster: the row's full path comes first, in place of
// path_index, and kind and replication are text ("file", "replicated/3"). It belongs
// to one goroutine.
//
// An Arrow stream that is cut between two batches looks complete to its reader:
// whoever writes one says elsewhere, by an exit code or otherwise, that it is whole.
type IPCWriter struct {
	columns Columns
	schema  *arrow.Schema
	w       *ipc.Writer
}

// NewIPCWriter returns a writer of batches of the columns c.Normal(). Nothing is
// written before the first Write or Close.
func NewIPCWriter(w io.Writer, c Columns) *IPCWriter {
	c = c.Normal()
	fields := slices.Clone(Schema(c).Fields())
	for i, f := range fields {
		switch f.Name {
		case "path_index":
			fields[i] = arrow.Field{Name: "path", Type: arrow.BinaryTypes.String}
		case "kind", "replication":
			fields[i].Type = arrow.BinaryTypes.String
		}
	}
	schema := arrow.NewSchema(fields, nil)
	return &IPCWriter{columns: c, schema: schema, w: ipc.NewWriter(w, ipc.WithSchema(schema))}
}

// Write writes a batch; path gives the full path of its i-th row.
func (w *IPCWriter) Write(b *Batch, path func(i int) string) error {
	if b.Columns() != w.columns {
		return fmt.Errorf("%w: batch of columns %#x in a stream of columns %#x", muster.ErrInvalid, uint32(b.Columns()), uint32(w.columns))
	}
	wire := b.Record()
	defer wire.Release()
	columns := slices.Clone(wire.Columns())
	for i, f := range wire.Schema().Fields() {
		var value func(i int) string
		switch f.Name {
		case "path_index":
			value = path
		case "kind":
			value = func(i int) string { return b.Kind(i).String() }
		case "replication":
			value = func(i int) string { return b.Replication(i).String() }
		default:
			continue
		}
		columns[i] = textColumn(b.Len(), value)
		defer columns[i].Release()
	}
	record := array.NewRecord(w.schema, columns, wire.NumRows())
	defer record.Release()
	return w.w.Write(record)
}

// NewLocatedIPCWriter returns a writer of located batches. blocks have replicas, list<struct<id, host, port,
// rack, state, index>>, in place of nodes, null if they are unknown, and the last column,
// no_data, marks files some bytes of which are in no block. c has ColBlocks and ColFlags.
func NewLocatedIPCWriter(w io.Writer, c Columns) *IPCWriter { panic("not yet") }

// WriteLocated writes a batch to the stream of a writer that NewLocatedIPCWriter made; node
// gives the datanode at a position of the batch's table.
func (w *IPCWriter) WriteLocated(b *Batch, path func(i int) string, node func(position uint32) *muster.Node) error {
	panic("not yet")
}

// Close ends the stream; it does not close the underlying writer. A stream without
// batches still has its schema.
func (w *IPCWriter) Close() error { return w.w.Close() }

func textColumn(rows int, value func(i int) string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(rows)
	for i := range rows {
		b.Append(value(i))
	}
	return b.NewArray()
}

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
	located bool
	schema  *arrow.Schema
	w       *ipc.Writer
}

// NewIPCWriter returns a writer of batches of the columns c.Normal(). Nothing is
// written before the first Write or Close.
func NewIPCWriter(w io.Writer, c Columns) *IPCWriter { return newIPCWriter(w, c, false) }

func newIPCWriter(w io.Writer, c Columns, located bool) *IPCWriter {
	c = c.Normal()
	schema := ipcSchema(c, located)
	return &IPCWriter{columns: c, located: located, schema: schema, w: ipc.NewWriter(w, ipc.WithSchema(schema))}
}

func ipcSchema(c Columns, located bool) *arrow.Schema {
	fields := slices.Clone(Schema(c).Fields())
	for i, f := range fields {
		switch f.Name {
		case "path_index":
			fields[i] = arrow.Field{Name: "path", Type: arrow.BinaryTypes.String}
		case "kind", "replication":
			fields[i].Type = arrow.BinaryTypes.String
		case "blocks":
			if located {
				fields[i].Type = locatedBlocks
			}
		}
	}
	if located {
		fields = append(fields, arrow.Field{Name: "no_data", Type: arrow.FixedWidthTypes.Boolean})
	}
	return arrow.NewSchema(fields, nil)
}

// Write writes a batch; path gives the full path of its i-th row.
func (w *IPCWriter) Write(b *Batch, path func(i int) string) error {
	return w.write(b, path, nil)
}

// write writes a batch to a stream with places of blocks, if node is not nil, or without.
func (w *IPCWriter) write(b *Batch, path func(i int) string, node func(position uint32) *muster.Node) error {
	if b.Columns() != w.columns || w.located != (node != nil) {
		return fmt.Errorf("%w: batch of columns %#x, located: %v, in a stream of columns %#x, located: %v",
			muster.ErrInvalid, uint32(b.Columns()), node != nil, uint32(w.columns), w.located)
	}
	wire := b.Record()
	defer wire.Release()
	columns := slices.Clone(wire.Columns())
	for i, f := range wire.Schema().Fields() {
		switch {
		case f.Name == "path_index":
			columns[i] = textColumn(b.Len(), path)
		case f.Name == "kind":
			columns[i] = textColumn(b.Len(), func(i int) string { return b.Kind(i).String() })
		case f.Name == "replication":
			columns[i] = textColumn(b.Len(), func(i int) string { return b.Replication(i).String() })
		case f.Name == "blocks" && w.located:
			columns[i] = b.locatedColumn(columns[i], node)
		default:
			continue
		}
		defer columns[i].Release()
	}
	if w.located {
		last := b.noDataColumn()
		defer last.Release()
		columns = append(columns, last)
	}
	record := array.NewRecord(w.schema, columns, wire.NumRows())
	defer record.Release()
	return w.w.Write(record)
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

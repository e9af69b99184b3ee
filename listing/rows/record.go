package rows

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Record returns the batch as an Arrow record of [Schema] over the same memory. The
// caller releases it; what it points to lives as long as it is reachable. It reads
// the frame in place, which needs a little-endian machine.
func (b *Batch) Record() arrow.Record {
	l := loader{batch: b, nodes: b.template.nodes, buffers: b.template.buffers}
	schema := b.template.schema
	columns := make([]arrow.Array, schema.NumFields())
	for i, field := range schema.Fields() {
		data := l.load(field.Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	record := array.NewRecord(schema, columns, int64(b.Len()))
	for _, column := range columns {
		column.Release()
	}
	return record
}

// loader takes field nodes and buffers in the order of the message.
type loader struct {
	batch   *Batch
	nodes   []level
	buffers []slot
}

func (l *loader) load(typ arrow.DataType) arrow.ArrayData {
	length, nulls := l.node()
	switch t := typ.(type) {
	case *arrow.ListType:
		buffers := l.take(2)
		items := l.load(t.Elem())
		defer items.Release()
		return array.NewData(typ, length, buffers, []arrow.ArrayData{items}, nulls, 0)
	case *arrow.StructType:
		buffers := l.take(1)
		fields := make([]arrow.ArrayData, t.NumFields())
		for i := range fields {
			fields[i] = l.load(t.Field(i).Type)
			defer fields[i].Release()
		}
		return array.NewData(typ, length, buffers, fields, nulls, 0)
	case *arrow.StringType:
		return array.NewData(typ, length, l.take(3), nil, nulls, 0)
	}
	return array.NewData(typ, length, l.take(2), nil, nulls, 0)
}

// node returns the length and the number of nulls of the next array.
func (l *loader) node() (length, nulls int) {
	node := l.nodes[0]
	l.nodes = l.nodes[1:]
	return node.counts(l.batch.counts)
}

// take returns the next n buffers.
func (l *loader) take(n int) []*memory.Buffer {
	buffers := make([]*memory.Buffer, n)
	for i, s := range l.buffers[:n] {
		if s != absent && (len(l.batch.buffers[s]) > 0 || l.batch.buffers[s] != nil && s != slotNodesValidity && s != slotNodeValidity) {
			buffers[i] = memory.NewBufferBytes(l.batch.buffers[s])
		}
	}
	l.buffers = l.buffers[n:]
	return buffers
}

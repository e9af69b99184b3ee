package main

import (
	"bufio"
	"io"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// appendLocated appends blocks and where they are as JSON: replicas is null if that is
// unknown, which error then says why.
func appendLocated(dst []byte, blocks []client.LocatedBlock) []byte {
	dst = append(dst, '[')
	for i := range blocks {
		b := &blocks[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"container":`...)
		dst = strconv.AppendUint(dst, b.Container, 10)
		dst = append(dst, `,"local_id":`...)
		dst = strconv.AppendUint(dst, b.LocalID, 10)
		dst = append(dst, `,"offset":`...)
		dst = strconv.AppendInt(dst, b.Offset, 10)
		dst = append(dst, `,"length":`...)
		dst = strconv.AppendInt(dst, b.Length, 10)
		dst = append(dst, `,"replicas":`...)
		if b.Err != nil {
			dst = append(dst, `null,"error":`...)
			dst = appendJSON(dst, reason(b.Err))
		} else {
			dst = appendReplicas(dst, b.Replicas)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendReplicas(dst []byte, replicas []client.Replica) []byte {
	dst = append(dst, '[')
	for i, r := range replicas {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = appendJSON(dst, r.ID)
		dst = append(dst, `,"host":`...)
		dst = appendJSON(dst, r.Host)
		dst = append(dst, `,"port":`...)
		dst = strconv.AppendUint(dst, uint64(r.Port), 10)
		dst = append(dst, `,"rack":`...)
		dst = appendJSON(dst, r.Rack)
		dst = append(dst, `,"state":`...)
		dst = appendJSON(dst, r.State.String())
		if r.Index > 0 {
			dst = append(dst, `,"index":`...)
			dst = strconv.AppendInt(dst, int64(r.Index), 10)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// locatedArrow writes located rows as one standard Arrow IPC stream. It makes them anew, since
// those of a range of a file are not as frames have them.
type locatedArrow struct {
	out    *bufio.Writer
	ipc    *ipc.Writer
	record *array.RecordBuilder
	rows   int
}

func newLocatedArrow(out io.Writer, columns rows.Columns) *locatedArrow {
	schema := rows.LocatedSchema(columns)
	buffer := bufio.NewWriterSize(out, outputBuffer)
	return &locatedArrow{
		out:    buffer,
		ipc:    ipc.NewWriter(buffer, ipc.WithSchema(schema)),
		record: array.NewRecordBuilder(memory.DefaultAllocator, schema),
	}
}

func (w *locatedArrow) write(r *row) error {
	for i, f := range w.record.Schema().Fields() {
		appendColumn(w.record.Field(i), f.Name, r)
	}
	if w.rows++; w.rows < arrowBatch {
		return nil
	}
	return w.emit()
}

// appendColumn appends the row's value of a column.
func appendColumn(to array.Builder, name string, r *row) {
	switch b := to.(type) {
	case *array.StringBuilder:
		b.Append(textColumn(name, r))
	case *array.BooleanBuilder:
		b.Append(r.located.NoData)
	case *array.Uint8Builder:
		b.Append(r.Flags)
	case *array.Uint16Builder:
		b.Append(r.Mode)
	case *array.Uint64Builder:
		b.Append(r.ID)
	case *array.Int64Builder:
		if name == "block_size" {
			b.Append(r.BlockSize)
		} else {
			b.Append(r.Length)
		}
	case *array.TimestampBuilder:
		if name == "atime" {
			b.Append(arrow.Timestamp(r.ATime))
		} else {
			b.Append(arrow.Timestamp(r.MTime))
		}
	case *array.ListBuilder:
		b.Append(true)
		for i := range r.located.Blocks {
			appendBlock(b.ValueBuilder().(*array.StructBuilder), &r.located.Blocks[i])
		}
	}
}

func textColumn(name string, r *row) string {
	switch name {
	case "path":
		return r.path
	case "name":
		return r.base()
	case "kind":
		return r.Kind.String()
	case "owner":
		return r.Owner
	case "group":
		return r.Group
	case "replication":
		return r.Replication.String()
	}
	return r.Target
}

func appendBlock(to *array.StructBuilder, b *client.LocatedBlock) {
	to.Append(true)
	to.FieldBuilder(0).(*array.Uint64Builder).Append(b.Container)
	to.FieldBuilder(1).(*array.Uint64Builder).Append(b.LocalID)
	to.FieldBuilder(2).(*array.Int64Builder).Append(b.Offset)
	to.FieldBuilder(3).(*array.Int64Builder).Append(b.Length)
	list := to.FieldBuilder(4).(*array.ListBuilder)
	if b.Err != nil {
		list.AppendNull()
		return
	}
	list.Append(true)
	replica := list.ValueBuilder().(*array.StructBuilder)
	for _, r := range b.Replicas {
		replica.Append(true)
		replica.FieldBuilder(0).(*array.StringBuilder).Append(r.ID)
		replica.FieldBuilder(1).(*array.StringBuilder).Append(r.Host)
		replica.FieldBuilder(2).(*array.Uint16Builder).Append(r.Port)
		replica.FieldBuilder(3).(*array.StringBuilder).Append(r.Rack)
		replica.FieldBuilder(4).(*array.StringBuilder).Append(r.State.String())
		replica.FieldBuilder(5).(*array.Uint8Builder).Append(uint8(r.Index))
	}
}

// flush keeps the rows of a batch that is not full yet: small batches are costly for
// those who read them.
func (w *locatedArrow) flush() error { return nil }

func (w *locatedArrow) close() error {
	defer w.record.Release()
	if err := w.emit(); err != nil {
		return err
	}
	if err := w.ipc.Close(); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *locatedArrow) emit() error {
	if w.rows == 0 {
		return nil
	}
	w.rows = 0
	record := w.record.NewRecord()
	defer record.Release()
	if err := w.ipc.Write(record); err != nil {
		return err
	}
	return w.out.Flush()
}

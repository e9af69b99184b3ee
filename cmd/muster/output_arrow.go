package main

import (
	"bufio"
	"io"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// arrowBatch is the number of rows of an Arrow batch.
const arrowBatch = 4096

// arrowWriter writes one standard Arrow IPC stream. It gathers the rows anew, so that
// rows that were filtered or sorted go the same way as whole listings.
type arrowWriter struct {
	out     *bufio.Writer
	ipc     *rows.IPCWriter
	columns rows.Columns
	builder *rows.Builder
	paths   []string // of the rows in the builder
	row     muster.Row
}

func newArrowWriter(out io.Writer, columns rows.Columns) *arrowWriter {
	buffer := bufio.NewWriterSize(out, outputBuffer)
	return &arrowWriter{
		out:     buffer,
		ipc:     rows.NewIPCWriter(buffer, columns),
		columns: columns,
		builder: rows.NewBuilder(columns),
	}
}

func (w *arrowWriter) write(r *row) error {
	name := r.base()
	if name == "/" { // the root has no name, and Arrow's rows take none that is no name
		name = ""
	}
	to := &w.row
	*to = muster.Row{
		ID: r.ID, Length: r.Length, MTime: r.MTime, ATime: r.ATime, BlockSize: r.BlockSize,
		Mode: r.Mode, Replication: r.Replication, Kind: r.Kind, Flags: r.Flags, Blocks: r.Blocks,
		Name: append(to.Name[:0], name...), Owner: append(to.Owner[:0], r.Owner...),
		Group: append(to.Group[:0], r.Group...), Target: append(to.Target[:0], r.Target...),
	}
	w.builder.Append(0, to)
	w.paths = append(w.paths, r.path)
	if len(w.paths) >= arrowBatch || w.builder.Size() >= rows.MaxFrame/2 {
		return w.emit()
	}
	return nil
}

// flush keeps the rows of a batch that is not full yet: small batches are costly for
// those who read them.
func (w *arrowWriter) flush() error { return nil }

func (w *arrowWriter) close() error {
	if err := w.emit(); err != nil {
		return err
	}
	if err := w.ipc.Close(); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *arrowWriter) emit() error {
	if len(w.paths) == 0 {
		return nil
	}
	// The batch takes the frame's memory, so each has a frame of its own.
	batch, err := rows.Decode(w.builder.AppendFrame(nil), w.columns)
	if err != nil {
		return err
	}
	if err := w.ipc.Write(batch, func(i int) string { return w.paths[i] }); err != nil {
		return err
	}
	w.builder.Reset()
	w.paths = w.paths[:0]
	return w.out.Flush()
}

package client

import (
	"io"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// IPCWriter writes a listing as one standard Arrow IPC stream. Its columns are path
// (the full path), then those asked for, with kind and replication as text. It belongs
// to one goroutine.
type IPCWriter struct {
	w       *rows.IPCWriter
	located bool
}

// NewIPCWriter writes rows of the columns c to w; 0 is rows.DefaultColumns, as in
// ListOptions. The stream is valid after Close only.
func NewIPCWriter(w io.Writer, c rows.Columns) *IPCWriter {
	return &IPCWriter{w: rows.NewIPCWriter(w, c)}
}

// NewLocatedIPCWriter is NewIPCWriter for a listing with locations. Blocks name their
// replicas there, list<struct<id, host, port, rack, state, index>>: null if it is unknown
// where the block is; those of an erasure-coded block without the absent ones, index from 1,
// else 0. The last column, no_data, marks files that are metadata only.
func NewLocatedIPCWriter(w io.Writer, c rows.Columns) *IPCWriter {
	return &IPCWriter{w: rows.NewLocatedIPCWriter(w, c), located: true}
}

// Write writes the rows of a batch of the writer's columns. Outcomes are not written.
func (w *IPCWriter) Write(b *Batch) error {
	switch {
	case b.Len() == 0:
		return nil
	case w.located:
		return w.w.WriteLocated(b.Batch, b.Path, func(at uint32) *muster.Node { return b.nodes[at] })
	}
	return w.w.Write(b.Batch, b.Path)
}

// Close ends the stream; it does not close the writer below.
func (w *IPCWriter) Close() error { return w.w.Close() }

// IPC writes the rows as a standard Arrow IPC stream with the full path in front, for
// readers that know nothing of Muster. For a whole listing see IPCWriter.
func (b *Batch) IPC(to io.Writer) error {
	w := NewIPCWriter(to, b.Columns())
	if b.located {
		w = NewLocatedIPCWriter(to, b.Columns())
	}
	if err := w.Write(b); err != nil {
		return err
	}
	return w.Close()
}

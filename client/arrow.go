package client

import (
	"io"

	"github.com/muster-fs/muster/listing/rows"
)

// IPCWriter writes a listing as one standard Arrow IPC stream. Its columns are path
// (the full path), then those asked for, with kind and replication as text.
type IPCWriter struct{ w *rows.IPCWriter }

// NewIPCWriter writes rows of the columns c to w; 0 is rows.DefaultColumns, as in
// ListOptions. The stream is valid after Close only.
func NewIPCWriter(w io.Writer, c rows.Columns) *IPCWriter { panic("not yet") }

// Write writes the rows of a batch of the writer's columns. Outcomes are not written.
func (w *IPCWriter) Write(b *Batch) error { panic("not yet") }

// Close ends the stream; it does not close the writer below.
func (w *IPCWriter) Close() error { panic("not yet") }

// Package rows is the codec of listings: it gathers rows into columns, frames them
// as Arrow record batches, and reads such frames back after checking every byte that
// an accessor relies on.
//
// A writer fills a [Builder] row by row and takes a frame from it; the builder's
// buffers are reused, so a row costs no allocation. A reader gives the frame to
// [Decode], which returns a [Batch]: accessors by row and column that do not
// allocate, and [Batch.Record], an Arrow record over the same memory. [IPCWriter]
// writes batches as a standard Arrow IPC stream for readers that are not ours.
//
// Where blocks are comes later than the rows: [Builder.AppendContainers] says what to ask
// for, [Builder.AppendNodes] and [Builder.AppendUnknown] take the answers, as positions in a
// table of nodes that the caller keeps and sends.
//
// A frame holds no schema. Both sides know it: it follows from [SchemaVersion] and
// the set of [Columns], which the frame names and the reader expects. The frame's
// payload is an Arrow IPC record batch message, byte for byte what Arrow's own writer
// makes of the same rows; its metadata comes from a template per column set, in which
// lengths are filled in. docs/formats.md has the byte tables.
//
// A Builder and an IPCWriter belong to one goroutine. A Batch never changes and is
// safe for concurrent use. Frames are little-endian on every machine; [Batch.Record]
// reads them in place and therefore needs a little-endian machine.
package rows

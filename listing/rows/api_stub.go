package rows

import (
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/muster-fs/muster"
)

// SchemaVersion is the version of the schema and of the frame.
const SchemaVersion = 1

// MaxFrame bounds a frame in bytes.
const MaxFrame = 1<<20 - 64<<10

// Schema returns the wire schema of the columns.
func Schema(c Columns) *arrow.Schema { panic("not yet") }

// Builder gathers rows into columns.
type Builder struct{}

// NewBuilder returns an empty builder for the columns.
func NewBuilder(c Columns) *Builder { panic("not yet") }

// Columns returns the columns that frames of the builder have.
func (b *Builder) Columns() Columns { panic("not yet") }

// Append adds a row.
func (b *Builder) Append(pathIndex uint32, r *muster.Row) { panic("not yet") }

// SetMTime sets the mtime of a row.
func (b *Builder) SetMTime(row int, ms int64) { panic("not yet") }

// Len returns the number of rows.
func (b *Builder) Len() int { panic("not yet") }

// Size returns an upper bound of the frame's bytes.
func (b *Builder) Size() int { panic("not yet") }

// Reset forgets the rows.
func (b *Builder) Reset() { panic("not yet") }

// AppendFrame appends the frame of the rows to dst; nothing if there are none.
func (b *Builder) AppendFrame(dst []byte) []byte { panic("not yet") }

// Decode checks a frame. No bytes at all give a batch of no rows.
func Decode(frame []byte, c Columns) (*Batch, error) { panic("not yet") }

// Batch is a decoded frame.
type Batch struct{}

func (b *Batch) Len() int                             { panic("not yet") }
func (b *Batch) Columns() Columns                     { panic("not yet") }
func (b *Batch) PathIndex(i int) uint32               { panic("not yet") }
func (b *Batch) Name(i int) string                    { panic("not yet") }
func (b *Batch) Kind(i int) muster.Kind               { panic("not yet") }
func (b *Batch) Length(i int) int64                   { panic("not yet") }
func (b *Batch) MTime(i int) int64                    { panic("not yet") }
func (b *Batch) ATime(i int) int64                    { panic("not yet") }
func (b *Batch) Mode(i int) uint16                    { panic("not yet") }
func (b *Batch) Owner(i int) string                   { panic("not yet") }
func (b *Batch) Group(i int) string                   { panic("not yet") }
func (b *Batch) Replication(i int) muster.Replication { panic("not yet") }
func (b *Batch) BlockSize(i int) int64                { panic("not yet") }
func (b *Batch) InodeID(i int) uint64                 { panic("not yet") }
func (b *Batch) Flags(i int) uint8                    { panic("not yet") }
func (b *Batch) LinkTarget(i int) string              { panic("not yet") }
func (b *Batch) NumBlocks(i int) int                  { panic("not yet") }
func (b *Batch) Block(i, k int) muster.Block          { panic("not yet") }
func (b *Batch) Entry(i int) muster.Entry             { panic("not yet") }
func (b *Batch) Record() arrow.Record                 { panic("not yet") }

// IPCWriter writes batches as a standard Arrow IPC stream.
type IPCWriter struct{}

// NewIPCWriter returns a writer of batches that have the columns c.
func NewIPCWriter(w io.Writer, c Columns) *IPCWriter { panic("not yet") }

// Write writes a batch.
func (w *IPCWriter) Write(b *Batch, path func(i int) string) error { panic("not yet") }

// Close ends the stream.
func (w *IPCWriter) Close() error { panic("not yet") }

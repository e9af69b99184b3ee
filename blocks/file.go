package blocks

import (
	"context"
	"io"

	"github.com/muster-fs/muster"
)

// File is a file that is open for reading. ReadAt, Refresh, Length and Close may be called
// from any number of goroutines, beside one that uses Read, Seek and WriteTo; if several do,
// they take turns.
//
// It is to be closed. One that is not holds no connection and no memory of data, and has no
// goroutine, once it was not read for ReadOptions.Idle.
type File struct{}

var (
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
	_ io.WriterTo       = (*File)(nil)
)

// NewFile opens a file. ctx bounds all that is done for it, and carries who reads. refresh
// may be nil.
func NewFile(ctx context.Context, d *Datanodes, l Layout, refresh Refresh, o ReadOptions) (*File, error) {
	return nil, muster.ErrInternal
}

// Length returns how long the file is, as far as is known.
func (f *File) Length() int64 { return 0 }

// Read fills p from the cursor on. Less comes at the end of the file, before a failure, and
// with none of them never; at the end it is 0 and io.EOF. With an error n is 0.
func (f *File) Read(p []byte) (n int, err error) { return 0, muster.ErrInternal }

// ReadAt fills p from offset on; less comes with an error only, which is io.EOF at the end.
// The n bytes are right in any case; what follows them in p is left as it was. Neither is
// the cursor moved nor waited for who moves it. A negative offset is muster.ErrInvalid.
// Nothing can be read of an empty p: that is no error, wherever offset is.
func (f *File) ReadAt(p []byte, offset int64) (n int, err error) { return 0, muster.ErrInternal }

// Seek moves the cursor. Past the end is allowed, where reading is io.EOF; before the
// beginning is muster.ErrInvalid, and the cursor stays.
func (f *File) Seek(offset int64, whence int) (int64, error) { return 0, muster.ErrInternal }

// WriteTo writes all from the cursor to the end to w. io.Copy uses it. The cursor moves by
// what w took.
func (f *File) WriteTo(w io.Writer) (n int64, err error) { return 0, muster.ErrInternal }

// Refresh asks for the layout again, so that what was appended since can be read.
func (f *File) Refresh(ctx context.Context) error { return muster.ErrInternal }

// Close ends the reads in progress, which fail with fs.ErrClosed as all later ones do, and
// waits for what the file does by itself. A second Close is fs.ErrClosed.
func (f *File) Close() error { return muster.ErrInternal }

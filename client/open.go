package client

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/muster-fs/muster"
)

// ReadOptions say how a file is read. The zero value works.
type ReadOptions struct{}

// Open opens a file for reading.
func (c *Client) Open(ctx context.Context, path string) (*File, error) {
	return c.OpenFile(ctx, path, ReadOptions{})
}

// OpenFile opens a file for reading. It fails with muster.ErrIsDirectory for a directory,
// with muster.ErrNoData for a file that is metadata only, and with muster.ErrInvalid for
// one that is erasure-coded. Of a file that is being written it reads what its finished
// blocks have.
//
// ctx bounds this call and nothing after it: reads have bounds of their own, see ReadOptions.
func (c *Client) OpenFile(ctx context.Context, path string, o ReadOptions) (*File, error) {
	return nil, pathError("open", path, fmt.Errorf("%w: files cannot be read yet", muster.ErrInternal))
}

// File is an open file. ReadAt may be called from any number of goroutines, beside one that
// uses Read, Seek and WriteTo, and waits for none of them. Errors are *fs.PathError, but for
// a bare io.EOF.
//
// The file is the one that the path named when it was opened. If it was replaced since, then
// reading goes on as long as its blocks are there, and fails with muster.ErrChanged after.
type File struct {
	info Info
	name string
}

var (
	_ fs.File           = (*File)(nil)
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
	_ io.WriterTo       = (*File)(nil)
)

// Name returns the path as it was given to Open.
func (f *File) Name() string { return f.name }

// Stat returns an Info: the file's status when it was opened. Nothing is fetched.
func (f *File) Stat() (fs.FileInfo, error) { return &f.info, nil }

// Read reads from the cursor on, at least one byte. At the end it is io.EOF.
func (f *File) Read(p []byte) (int, error) { return 0, f.failure("read", muster.ErrInternal) }

// ReadAt fills p from offset on; less comes with an error only, which is io.EOF at the end.
// The cursor plays no part.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	return 0, f.failure("read", muster.ErrInternal)
}

// Seek moves the cursor; past the end is allowed.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	return 0, f.failure("seek", muster.ErrInternal)
}

// WriteTo writes all from the cursor to the end to w. io.Copy uses it.
func (f *File) WriteTo(w io.Writer) (int64, error) { return 0, f.failure("read", muster.ErrInternal) }

// Close ends all reads in progress, which fail with fs.ErrClosed. A second Close is
// fs.ErrClosed.
func (f *File) Close() error { return f.failure("close", muster.ErrInternal) }

func (f *File) failure(op string, err error) error {
	if err == io.EOF {
		return err
	}
	return pathError(op, f.name, err)
}

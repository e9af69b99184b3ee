package client

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks"
	"github.com/muster-fs/muster/rpc"
)

// ReadOptions say how a file is read. The zero value works.
type ReadOptions = blocks.ReadOptions

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
	l, err := c.OpenLocated(ctx, path)
	if err != nil {
		return nil, err // names the path
	}
	f, err := c.openFile(context.Background(), l, path, o)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	return f, nil
}

// openFile opens the file that was located; it is called name in errors. life bounds all that
// is done for it.
func (c *Client) openFile(life context.Context, l Located, name string, o ReadOptions) (*File, error) {
	_, _, coded := l.Entry.Replication.Coding()
	switch {
	case l.Entry.Kind != muster.File:
		return nil, muster.ErrIsDirectory
	case coded:
		return nil, fmt.Errorf("%w: files of replication %v cannot be read; their datanodes have to put them together", muster.ErrInvalid, l.Entry.Replication)
	}
	f := &File{info: &l.Info, name: name}
	refresh := func(ctx context.Context, stale []blocks.Stale) (blocks.Layout, error) {
		return c.refresh(ctx, l.Info, stale)
	}
	var err error
	f.file, err = blocks.NewFile(c.context(life), c.datanodes, layoutOf(&l), refresh, o)
	return f, err
}

// refresh asks for a file's layout again. It is to be the same file.
func (c *Client) refresh(ctx context.Context, info Info, stale []blocks.Stale) (blocks.Layout, error) {
	named := make([]Stale, len(stale))
	for i, s := range stale {
		named[i] = Stale{Container: s.Container, Seen: string(s.Seen)}
	}
	l, err := c.OpenLocated(ctx, info.Path, named...)
	if err != nil {
		return blocks.Layout{}, inner(err)
	}
	if l.Entry.ID != info.Entry.ID {
		return blocks.Layout{}, &rpc.Error{Code: muster.ErrChanged, Text: "the file was replaced by another since it was opened"}
	}
	return layoutOf(&l), nil
}

// layoutOf says what a located file consists of.
func layoutOf(l *Located) blocks.Layout {
	layout := blocks.Layout{Length: l.Entry.Length, Blocks: make([]blocks.Block, len(l.Blocks))}
	for i := range l.Blocks {
		from := &l.Blocks[i]
		to := &layout.Blocks[i]
		*to = blocks.Block{
			ID: muster.BlockID{Container: from.Container, LocalID: from.LocalID}, File: l.Entry.ID,
			Offset: from.Offset, Length: from.Length, Seen: []byte(from.seen), Err: from.Err,
			Nodes: make([]muster.Node, len(from.Replicas)),
		}
		to.Token, to.Expires = from.token()
		for k, r := range from.Replicas {
			to.Nodes[k] = *r.Node
		}
	}
	return layout
}

// File is an open file. ReadAt may be called from any number of goroutines, beside one that
// uses Read, Seek and WriteTo, and waits for none of them. Errors are *fs.PathError, but for
// a bare io.EOF, and for those of the writer that WriteTo is given.
//
// The file is the one that the path named when it was opened. If it was replaced or removed
// since, reading goes on until its blocks are deleted, and fails from then on. If it was
// renamed, it goes on until the server has to be asked where the blocks are now.
//
// It is to be closed. While nobody reads it, it holds no connection.
type File struct {
	info fs.FileInfo
	name string
	file *blocks.File
}

var (
	_ fs.File           = (*File)(nil)
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
	_ io.WriterTo       = (*File)(nil)
)

// Name returns the path as it was given to Open.
func (f *File) Name() string { return f.name }

// Stat returns the file's status when it was opened, an Info. Nothing is fetched.
func (f *File) Stat() (fs.FileInfo, error) { return f.info, nil }

// Size returns how many bytes the file has, as far as is known: those when it was opened, or
// at the last Refresh.
func (f *File) Size() int64 { return f.file.Length() }

// Refresh looks whether the file has more bytes by now, since somebody writes it. It fails
// with muster.ErrChanged if the path names another file by now.
func (f *File) Refresh(ctx context.Context) error { return f.failure("refresh", f.file.Refresh(ctx)) }

// Read fills p from the cursor on. Less comes at the end of the file, or before a failure;
// at the end it is 0 and io.EOF.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	return n, f.failure("read", err)
}

// ReadAt fills p from offset on; less comes with an error only, which is io.EOF at the end.
// The cursor plays no part. A negative offset is muster.ErrInvalid.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.file.ReadAt(p, offset)
	return n, f.failure("read", err)
}

// Seek moves the cursor; past the end is allowed.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	n, err := f.file.Seek(offset, whence)
	return n, f.failure("seek", err)
}

// WriteTo writes all from the cursor to the end to w. io.Copy uses it.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	to := &sink{w: w}
	n, err := f.file.WriteTo(to)
	if err != nil && err == to.err {
		return n, err
	}
	return n, f.failure("read", err)
}

// sink remembers whether it was the writer that failed.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (n int, err error) {
	n, s.err = s.w.Write(p)
	return n, s.err
}

// Close ends all reads in progress, which fail with fs.ErrClosed. A second Close is
// fs.ErrClosed.
func (f *File) Close() error { return f.failure("close", f.file.Close()) }

func (f *File) failure(op string, err error) error {
	if err == io.EOF {
		return err
	}
	return pathError(op, f.name, err)
}

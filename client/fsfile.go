package client

import (
	"io"
	"io/fs"

	"github.com/muster-fs/muster"
)

// dirFile is an open directory. It reads page by page and holds no connection between
// calls. As with other files, one goroutine uses it at a time.
type dirFile struct {
	view   *view
	info   fs.FileInfo
	name   string
	closed bool

	read   []fs.DirEntry // fetched and not yet returned
	cursor []byte        // of the last page
	done   bool          // no page is left
	failed error         // why reading has ended early
}

var _ fs.ReadDirFile = (*dirFile)(nil)

func (f *dirFile) Stat() (fs.FileInfo, error) {
	if f.closed {
		return nil, pathError("stat", f.name, fs.ErrClosed)
	}
	return f.info, nil
}

func (f *dirFile) Read([]byte) (int, error) {
	if f.closed {
		return 0, pathError("read", f.name, fs.ErrClosed)
	}
	return 0, pathError("read", f.name, muster.ErrIsDirectory)
}

func (f *dirFile) Close() error {
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed, f.read = true, nil
	return nil
}

// ReadDir returns the next n entries, or all that are left if n is 0 or less.
func (f *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if f.closed {
		return nil, pathError("readdir", f.name, fs.ErrClosed)
	}
	for f.failed == nil && !f.done && (n <= 0 || len(f.read) < n) {
		f.failed = f.fetch()
	}
	count := len(f.read)
	if n > 0 {
		count = min(count, n)
	}
	entries := f.read[:count:count]
	f.read = f.read[count:]
	switch {
	case f.failed != nil && (n <= 0 || count == 0):
		return entries, renamed("readdir", f.name, f.failed)
	case n > 0 && count == 0:
		return nil, io.EOF
	}
	return entries, nil
}

// fetch reads one page.
func (f *dirFile) fetch() error {
	full, err := f.view.path("readdir", f.name)
	if err != nil {
		return err
	}
	b, err := f.view.client.Page(f.view.ctx, []string{full}, f.cursor, ListOptions{})
	if err != nil {
		return err
	}
	f.cursor, f.done = b.Cursor, len(b.Cursor) == 0
	for i := range b.Len() {
		if b.Name(i) == "" {
			return muster.ErrNotDirectory
		}
		info := b.Info(i)
		f.read = append(f.read, &info)
	}
	for _, o := range b.Outcomes {
		if err := o.Err(); err != nil {
			return err
		}
	}
	return nil
}

package client

import (
	"io/fs"
	"path"
	"time"

	"github.com/muster-fs/muster"
)

// Info is the status of what a path names. It is an fs.FileInfo and an fs.DirEntry.
type Info struct {
	Path  string // absolute and clean, as it was asked for or listed
	Entry muster.Entry
}

var (
	_ fs.FileInfo = Info{}
	_ fs.DirEntry = Info{}
)

// Name returns the last component of the path; "/" for the root.
func (i Info) Name() string { return path.Base(i.Path) }

// Size returns the length of a file in bytes, and 0 for anything else.
func (i Info) Size() int64 { return i.Entry.Length }

// Mode returns the kind, the permissions and the sticky bit.
func (i Info) Mode() fs.FileMode { return i.Entry.FileMode() }

// Type returns the kind.
func (i Info) Type() fs.FileMode { return i.Mode().Type() }

// ModTime returns the time of the last change, in UTC.
func (i Info) ModTime() time.Time { return i.Entry.ModTime() }

// IsDir says whether it is a directory.
func (i Info) IsDir() bool { return i.Entry.Kind == muster.Directory }

// Info returns itself: nothing is fetched again.
func (i Info) Info() (fs.FileInfo, error) { return &i, nil }

// Sys returns a pointer to a copy of the entry.
func (i Info) Sys() any { return &i.Entry }

// String is as fs.FormatDirEntry has it.
func (i Info) String() string { return fs.FormatDirEntry(i) }

package client

import (
	"io"
	"io/fs"
	"strings"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
)

// Batch is a part of a listing: rows, and the outcomes of the paths that ended in it.
// It is immutable, safe for concurrent use and stays valid as long as it is kept. The
// accessors of rows.Batch read a row's columns without allocating.
type Batch struct {
	*rows.Batch // nil: no rows; Len says 0 then

	Outcomes []Outcome
	Txid     uint64 // of the newest state in the batch
	Cursor   []byte // of Pages: goes on after this batch; empty after the last

	first uint64   // index of given[0] in the call
	given []string // the paths of the rows, as they were given
}

// Outcome is how a path ended.
type Outcome struct {
	Path string // as it was given
	muster.Outcome
}

// Err returns nil for a path that is OK and complete, and else a *fs.PathError with
// the code and the server's words.
func (o Outcome) Err() error {
	if o.Code == muster.OK {
		return nil
	}
	return &fs.PathError{Op: "list", Path: o.Path, Err: &status{o.Code, o.Message}}
}

// Len returns the number of rows.
func (b *Batch) Len() int {
	if b == nil || b.Batch == nil {
		return 0
	}
	return b.Batch.Len()
}

// Given returns the path that row i was listed for, as it was given.
func (b *Batch) Given(i int) string { return b.given[uint64(b.PathIndex(i))-b.first] }

// Path returns the full path of row i: the given path's own for its own entry.
func (b *Batch) Path(i int) string { return muster.JoinPath(cleanGiven(b.Given(i)), b.Name(i)) }

// AppendPath appends the full path of row i to dst, for readers that want no
// allocation a row.
func (b *Batch) AppendPath(dst []byte, i int) []byte {
	dir, name := cleanGiven(b.Given(i)), b.Name(i)
	dst = append(dst, dir...)
	if name == "" {
		return dst
	}
	if dir != "/" {
		dst = append(dst, '/')
	}
	return append(dst, name...)
}

// Info returns row i as an owned value.
func (b *Batch) Info(i int) Info { return Info{Path: b.Path(i), Entry: b.Entry(i)} }

// IPC writes the rows as a standard Arrow IPC stream with the full path in front, for
// readers that know nothing of Muster. For a whole listing see IPCWriter.
func (b *Batch) IPC(w io.Writer) error { panic("not yet") }

// cleanGiven collapses the slashes of a path that the server accepted.
func cleanGiven(path string) string {
	if !strings.Contains(path, "//") && (len(path) == 1 || path[len(path)-1] != '/') {
		return path
	}
	clean, err := muster.CleanPath(path)
	if err != nil {
		return path
	}
	return clean
}

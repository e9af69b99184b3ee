package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// remoteSource reads files of Muster.
type remoteSource struct{ client *client.Client }

var _ copySource = remoteSource{}

func (s remoteSource) stat(ctx context.Context, path string) (muster.Entry, error) {
	info, err := s.client.Stat(ctx, path)
	return info.Entry, err
}

// below is a level of a walk: its directories, and what is in them, in the same order.
type below struct {
	dir   int // index
	path  string
	entry muster.Entry
}

// walk lists level by level, each in one call. What it finds is handed out after the call,
// which is not held up so by what is copied.
func (s remoteSource) walk(ctx context.Context, root item, visit visitFunc, fail func(string, error)) error {
	for level := []item{root}; len(level) > 0; {
		found, err := s.list(ctx, level, fail)
		if err != nil {
			return err
		}
		var next []item
		for _, b := range found {
			if err := ctx.Err(); err != nil {
				return err
			}
			if it, down := visit(level[b.dir], b.path, b.entry); down {
				next = append(next, it)
			}
		}
		level = next
	}
	return nil
}

func (s remoteSource) list(ctx context.Context, level []item, fail func(string, error)) (found []below, err error) {
	paths := make([]string, len(level))
	for i := range level {
		paths[i] = level[i].from
	}
	o := client.ListOptions{Columns: rows.ColName | rows.ColKind | rows.ColLength | rows.ColMTime | rows.ColMode | rows.ColLinkTarget | rows.ColInodeID}
	err = eachRow(s.client.List(ctx, slices.Values(paths), o), func(b *client.Batch, i int) error {
		if b.Name(i) != "" { // else the own entry of what was a directory when it was found
			found = append(found, below{int(b.PathIndex(i)), b.Path(i), b.Entry(i)})
		}
		return nil
	}, func(o client.Outcome) error {
		if err := o.Err(); err != nil {
			fail(o.Path, err)
		}
		return nil
	}, func() error { return nil })
	return found, err
}

func (s remoteSource) open(ctx context.Context, it item, offset int64) (io.ReadCloser, error) {
	f, err := openRemote(ctx, s.client, it.from, offset)
	if err != nil {
		return nil, err
	}
	if now := f.entry(); offset > 0 && (now.ID != it.ID || now.MTime != it.MTime || now.Length != it.Length) {
		_ = f.Close() // nothing was read
		return nil, errors.New("it was changed since it was listed; copy it again")
	}
	return f, nil
}

// remoteFile is a file that is read until ctx ends.
type remoteFile struct {
	*client.File
	stop func() bool
}

// entry is what it was when it was opened.
func (f remoteFile) entry() *muster.Entry {
	info, _ := f.Stat() // never fails
	return info.Sys().(*muster.Entry)
}

func (f remoteFile) Close() error {
	if !f.stop() {
		return nil // it is closed already, or will be
	}
	return f.File.Close()
}

func openRemote(ctx context.Context, c *client.Client, path string, offset int64) (remoteFile, error) {
	f, err := c.Open(ctx, path)
	if err != nil {
		return remoteFile{}, err
	}
	r := remoteFile{f, context.AfterFunc(ctx, func() { _ = f.Close() })} // reads say that it is closed
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		_ = r.Close()
		return remoteFile{}, err
	}
	return r, nil
}

func (s remoteSource) checksum(ctx context.Context, path string) (uint32, error) {
	return s.client.Checksum(ctx, path)
}

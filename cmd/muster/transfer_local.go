package main

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/muster-fs/muster"
)

// localSource reads files of this machine.
type localSource struct{}

var _ copySource = localSource{}

func (localSource) stat(_ context.Context, path string) (muster.Entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return muster.Entry{}, err
	}
	e := localEntry(info)
	if info.Mode()&fs.ModeNamedPipe != 0 {
		e.Kind, e.Length = muster.File, 0 // what a shell makes of <(command)
	}
	return e, nil
}

// localEntry returns the metadata to keep. What is neither file, directory nor link has the
// kind 0, and as target what it is.
func localEntry(info fs.FileInfo) muster.Entry {
	e := muster.Entry{MTime: info.ModTime().UnixMilli(), Mode: muster.ModeBits(info.Mode())}
	e.Name = info.Name()
	switch info.Mode().Type() {
	case 0:
		e.Kind, e.Length = muster.File, info.Size()
	case fs.ModeDir:
		e.Kind = muster.Directory
	case fs.ModeSymlink:
		e.Kind = muster.Link
	default:
		e.Target = special(info.Mode())
	}
	return e
}

func (s localSource) walk(ctx context.Context, dir item, visit visitFunc, fail func(string, error)) error {
	entries, err := os.ReadDir(dir.from)
	if err != nil {
		fail(dir.from, err) // and what it has read goes on
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := filepath.Join(dir.from, entry.Name())
		e, err := localChild(from, entry)
		if err != nil {
			fail(from, err)
			continue
		}
		if it, down := visit(dir, from, e); down {
			if err := s.walk(ctx, it, visit, fail); err != nil {
				return err
			}
		}
	}
	return nil
}

func localChild(from string, entry fs.DirEntry) (muster.Entry, error) {
	if !utf8.ValidString(entry.Name()) {
		return muster.Entry{}, errors.New("skipped: its name is not valid UTF-8")
	}
	info, err := entry.Info()
	if err != nil {
		return muster.Entry{}, err
	}
	e := localEntry(info)
	if e.Kind == muster.Link {
		e.Target, err = os.Readlink(from)
	}
	return e, err
}

func (localSource) open(_ context.Context, it item, offset int64) (io.ReadCloser, error) {
	f, err := os.Open(it.from)
	if err != nil || offset == 0 {
		return f, err
	}
	_, err = f.Seek(offset, io.SeekStart)
	return f, err
}

func (localSource) checksum(ctx context.Context, path string) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return checksumOf(ctx, f)
}

// checksumOf returns the CRC-32C of what r has.
func checksumOf(ctx context.Context, r io.Reader) (uint32, error) {
	sum, buffer := uint32(0), make([]byte, 256<<10)
	for {
		n, err := r.Read(buffer)
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), buffer[:n])
		if err == io.EOF {
			return sum, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
	}
}

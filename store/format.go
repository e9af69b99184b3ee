package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// Format says what is in a folder. Its text stands in the file FORMAT: "muster", the name, the
// version.
type Format struct {
	Name    string // what the folder holds, such as namespace
	Version uint64 // of keys, values, and where they are: the newest that the program knows; from 1
}

const formatFile = "FORMAT"

func (f Format) prefix() string { return "muster " + f.Name + " " }

// read says whether a folder is complete, and refuses one that this program cannot read.
func (f Format) read(files vfs.FS, dir string) (exists bool, err error) {
	file, err := files.Open(files.PathJoin(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %v", muster.ErrUnavailable, err)
	}
	defer file.Close()
	const most = 64
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return false, fmt.Errorf("%w: read %s: %v", muster.ErrCorrupt, formatFile, err)
	}
	number, ok := strings.CutPrefix(string(text), f.prefix())
	number, end := strings.CutSuffix(number, "\n")
	version, err := strconv.ParseUint(number, 10, 32)
	switch {
	case !ok || !end || err != nil || version == 0 || number != strconv.FormatUint(version, 10):
		return false, fmt.Errorf("%w: its %s file says %q", muster.ErrCorrupt, formatFile, text)
	case version > f.Version:
		return false, fmt.Errorf("%w: it has format version %d, and this program knows versions up to %d; use a newer one", muster.ErrInvalid, version, f.Version)
	}
	return true, nil
}

// write makes the format file, last of all: where it is, the folder is complete.
func (f Format) write(files vfs.FS, dir string) error {
	err := func() error {
		name := files.PathJoin(dir, formatFile)
		file, err := files.Create(name + ".tmp")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(file, "%s%d\n", f.prefix(), f.Version)
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		if err := files.Rename(name+".tmp", name); err != nil {
			return err
		}
		return syncDir(files, dir)
	}()
	if err != nil {
		return fmt.Errorf("%w: write %s: %v", muster.ErrUnavailable, formatFile, err)
	}
	return nil
}

// checkFolder refuses a path that is a file or leads through one; what does not exist may be made.
func checkFolder(files vfs.FS, dir string) error {
	for {
		info, err := files.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%w: %s is not a directory", muster.ErrInvalid, dir)
		}
		parent := files.PathDir(dir)
		if err == nil || parent == dir {
			return nil
		}
		dir = parent
	}
}

// makeDirs makes a folder of this mode and its parents, durably. That of a folder that exists is synced
// too: whoever made it may not have.
func makeDirs(files vfs.FS, dir string, mode fs.FileMode) error {
	parent := files.PathDir(dir)
	_, err := files.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist) && parent != dir
	if made {
		if err := makeDirs(files, parent, 0o755); err != nil {
			return err
		}
		err = files.MkdirAll(dir, mode)
	}
	if err == nil {
		err = syncDir(files, parent)
		if !made && errors.Is(err, fs.ErrPermission) {
			err = nil // not ours to open
		}
	}
	if err != nil {
		return fmt.Errorf("%w: make folder %q: %v", muster.ErrUnavailable, dir, err)
	}
	return nil
}

func syncDir(files vfs.FS, dir string) error {
	d, err := files.OpenDir(dir)
	if dir == "." && errors.Is(err, fs.ErrNotExist) {
		d, err = files.OpenDir("/") // a file system in memory has no other working directory
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

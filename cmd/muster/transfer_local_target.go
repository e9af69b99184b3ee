package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/muster-fs/muster"
)

// localTarget makes entries of this machine, in one folder and below: nothing outside of it
// is touched, whatever links there are. Paths are relative to it, with slashes.
type localTarget struct {
	root  *os.Root
	flags *copyFlags

	// checksum of files of the source, to see whether what is there of a file is that.
	sourceChecksum func(ctx context.Context, path string) (uint32, error)
}

var _ copyTarget = (*localTarget)(nil)

func (t *localTarget) shown(path string) string {
	return filepath.Join(t.root.Name(), filepath.FromSlash(path))
}

func (t *localTarget) child(dir, name string) (string, error) {
	if _, err := filepath.Localize(name); err != nil {
		return "", fmt.Errorf("no file of this machine can have the name %q", name)
	}
	return path.Join(dir, name), nil
}

func (t *localTarget) lstat(_ context.Context, path string) (muster.Entry, error) {
	info, err := t.root.Lstat(path)
	if err != nil {
		return muster.Entry{}, err
	}
	e := localEntry(info)
	if e.Kind == muster.Link {
		e.Target, err = t.root.Readlink(path)
	}
	return e, err
}

func (t *localTarget) mkdir(_ context.Context, it item) error {
	return t.root.Mkdir(it.to, modeOf(it.Mode|ownerAll).Perm())
}

// refuse says why something cannot take the place of what is at a path; nil: it can.
func (t *localTarget) refuse(path string) error {
	info, err := t.root.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return muster.ErrIsDirectory
	case !t.flags.force:
		return muster.ErrExists
	}
	return nil
}

func (t *localTarget) link(_ context.Context, it item) error {
	if err := t.refuse(it.to); err != nil {
		return err
	}
	part := partName(it.to, rand.Text())
	if err := t.root.Symlink(it.Target, part); err != nil {
		return err
	}
	err := error(nil)
	if t.flags.keepTimes() {
		err = linkTime(t.root, part, it.ModTime())
	}
	if err == nil {
		err = t.root.Rename(part, it.to)
	}
	if err != nil {
		_ = t.root.Remove(part)
	}
	return err
}

// partSuffix ends the names of files that are not yet whole.
const partSuffix = ".muster-part"

// partName returns the name under which a file is written, beside the one that it gets.
func partName(to, mark string) string {
	dir, name := path.Split(to)
	end := "." + mark + partSuffix
	for len(name) > muster.MaxNameBytes-len(end)-1 {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return dir + "." + name + end
}

func (t *localTarget) write(ctx context.Context, it item, open opener) error {
	if err := t.refuse(it.to); err != nil {
		return err
	}
	p, err := t.part(it)
	if err != nil {
		return err
	}
	err = p.fill(ctx, it, open)
	if err == nil {
		err = p.settle(it)
	}
	if closeErr := p.file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = t.refuse(it.to) // once more: it took a while
	}
	if err == nil {
		err = t.root.Rename(p.name, it.to)
	}
	if err != nil && (!p.kept || p.useless) {
		_ = t.root.Remove(p.name)
	}
	return err
}

// part is a file that is not yet whole. With --resume it is kept if it does not become so, under
// a name that says of which file it is a part.
type part struct {
	target  *localTarget
	name    string
	file    *os.File
	offset  int64 // bytes that were there
	kept    bool
	useless bool // what was there is not what the file has
}

func (t *localTarget) part(it item) (p *part, err error) {
	p = &part{target: t, kept: t.flags.resume}
	if !p.kept {
		p.name = partName(it.to, rand.Text())
		p.file, err = t.root.OpenFile(p.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeOf(it.Mode).Perm())
		return p, err
	}
	p.name = partName(it.to, fmt.Sprintf("%x-%x-%x", it.ID, it.MTime, it.Length))
	if info, err := t.root.Lstat(p.name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is in the way: it is no file", shown(t.shown(p.name)))
	}
	p.file, err = t.root.OpenFile(p.name, os.O_RDWR|os.O_CREATE, modeOf(it.Mode|0o600).Perm())
	if err != nil {
		return nil, err
	}
	if p.offset, err = p.file.Seek(0, io.SeekEnd); err == nil && p.offset > it.Length {
		p.offset, err = 0, errors.Join(p.file.Truncate(0), rewind(p.file))
	}
	if err != nil {
		_ = p.file.Close()
	}
	return p, err
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// fill writes what is missing. If something was there, the whole is held against the source's
// checksum: a crash may have left anything of it.
func (p *part) fill(ctx context.Context, it item, open opener) error {
	in, err := open(p.offset)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.Copy(p.file, in); err != nil || p.offset == 0 {
		return err
	}
	if err := rewind(p.file); err != nil {
		return err
	}
	got, err := checksumOf(ctx, p.file)
	if err != nil {
		return err
	}
	want, err := p.target.sourceChecksum(ctx, it.from)
	if err == nil && got != want {
		p.useless = true
		err = fmt.Errorf("%w: what was there of it, %s, is not what it has, and was removed; get it again", muster.ErrCorrupt, shown(p.target.shown(p.name)))
	}
	return err
}

// settle gives the file its mode and time.
func (p *part) settle(it item) error {
	root := p.target.root
	switch {
	case p.target.flags.keep:
		if err := p.file.Chmod(modeOf(it.Mode)); err != nil {
			return err
		}
	case p.kept && it.Mode&0o600 != 0o600:
		info, err := p.file.Stat()
		if err == nil {
			err = p.file.Chmod(info.Mode().Perm() & modeOf(it.Mode))
		}
		if err != nil {
			return err
		}
	}
	if p.target.flags.keepTimes() {
		return root.Chtimes(p.name, it.ModTime(), it.ModTime())
	}
	return nil
}

func (t *localTarget) settle(_ context.Context, dirs []item, fail func(string, error)) error {
	for _, d := range slices.Backward(dirs) {
		if err := t.settleDir(d); err != nil {
			fail(t.shown(d.to), err)
		}
	}
	return nil
}

func (t *localTarget) settleDir(d item) error {
	mode := modeOf(d.Mode)
	switch {
	case t.flags.keep:
		if err := t.root.Chmod(d.to, mode); err != nil {
			return err
		}
	case d.made && d.Mode&ownerAll != ownerAll:
		info, err := t.root.Lstat(d.to)
		if err == nil {
			err = t.root.Chmod(d.to, info.Mode().Perm()&mode)
		}
		if err != nil {
			return err
		}
	}
	if t.flags.keepTimes() {
		return t.root.Chtimes(d.to, d.ModTime(), d.ModTime())
	}
	return nil
}

func (t *localTarget) checksum(ctx context.Context, path string) (uint32, error) {
	f, err := t.root.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return checksumOf(ctx, f)
}

package client

import (
	"context"
	"io/fs"
	"strings"

	"github.com/muster-fs/muster"
)

// FS returns the tree below root as a file system: fs.ReadDirFS, fs.StatFS,
// fs.ReadLinkFS and fs.GlobFS. Its open files are io.ReaderAt and io.Seeker too; opening one
// that is metadata only fails with muster.ErrNoData. Links are followed by the server, and
// may lead out of root. All its calls are made under ctx, those of open files too.
func (c *Client) FS(ctx context.Context, root string) fs.FS { return &view{ctx, c, root} }

// view is a tree as io/fs sees it.
type view struct {
	ctx    context.Context // io/fs has no room for one in its calls
	client *Client
	root   string
}

var (
	_ fs.ReadDirFS  = (*view)(nil)
	_ fs.StatFS     = (*view)(nil)
	_ fs.ReadLinkFS = (*view)(nil)
	_ fs.GlobFS     = (*view)(nil)
)

// Open opens a directory or a file.
func (v *view) Open(name string) (fs.File, error) {
	info, err := v.stat("open", name, v.client.Stat)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &dirFile{view: v, info: info, name: name}, nil
	}
	full, err := v.path("open", name)
	if err != nil {
		return nil, err
	}
	l, err := v.client.OpenLocated(v.ctx, full)
	if err != nil {
		return nil, renamed("open", name, err)
	}
	f, err := v.client.openFile(v.ctx, l, name, ReadOptions{})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if name == "." {
		f.info = rootInfo{&l.Info}
	}
	return f, nil
}

// Stat follows links.
func (v *view) Stat(name string) (fs.FileInfo, error) { return v.stat("stat", name, v.client.Stat) }

// Lstat does not follow a link in last place.
func (v *view) Lstat(name string) (fs.FileInfo, error) { return v.stat("lstat", name, v.client.Lstat) }

// ReadLink returns a link's target as it was given.
func (v *view) ReadLink(name string) (string, error) {
	full, err := v.path("readlink", name)
	if err != nil {
		return "", err
	}
	target, err := v.client.ReadLink(v.ctx, full)
	return target, renamed("readlink", name, err)
}

// ReadDir returns the entries of a directory in lexical order.
func (v *view) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := v.path("readdir", name)
	if err != nil {
		return nil, err
	}
	infos, err := v.client.readDir(v.ctx, full)
	return dirEntries(infos), renamed("readdir", name, err)
}

// Glob returns the names that match. As fs.Glob has it, the only error is that of a
// bad pattern.
func (v *view) Glob(pattern string) ([]string, error) {
	if !fs.ValidPath(pattern) || pattern == "." {
		return fs.Glob(slowGlob{v, v}, pattern) // it knows what such patterns mean
	}
	if err := checkPattern(pattern); err != nil {
		return nil, err
	}
	base, err := muster.CleanPath(v.root)
	if err != nil {
		return nil, nil
	}
	found, err := v.client.glob(v.ctx, base, "/"+pattern)
	if err != nil {
		return nil, nil
	}
	for i := range found {
		found[i] = strings.TrimPrefix(strings.TrimPrefix(found[i], base), "/")
	}
	return found, nil
}

// slowGlob is a view without its own Glob.
type slowGlob struct {
	fs.ReadDirFS
	fs.StatFS
}

// Open is that of the view, which has it twice here.
func (g slowGlob) Open(name string) (fs.File, error) { return g.ReadDirFS.Open(name) }

func (v *view) stat(op, name string, call func(context.Context, string) (Info, error)) (fs.FileInfo, error) {
	full, err := v.path(op, name)
	if err != nil {
		return nil, err
	}
	info, err := call(v.ctx, full)
	if err != nil {
		return nil, renamed(op, name, err)
	}
	if name == "." {
		return rootInfo{&info}, nil
	}
	return &info, nil
}

// path returns the full path of a name as io/fs has them.
func (v *view) path(op, name string) (string, error) {
	switch {
	case !fs.ValidPath(name):
		return "", pathError(op, name, fs.ErrInvalid)
	case name == ".":
		return v.root, nil
	}
	return strings.TrimSuffix(v.root, "/") + "/" + name, nil
}

// renamed gives an error of a full path the name that the caller used.
func renamed(op, name string, err error) error {
	return pathError(op, name, inner(err))
}

// rootInfo is the root of a view, whose name is "." there.
type rootInfo struct{ *Info }

func (rootInfo) Name() string { return "." }

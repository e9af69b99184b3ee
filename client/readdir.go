package client

import (
	"context"
	"io/fs"
	"slices"

	"github.com/muster-fs/muster"
)

// ReadDir returns the entries of a directory in the order of their names' bytes; each
// is an *Info. On an error it returns those that came before it, as os.ReadDir does.
func (c *Client) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	infos, err := c.readDir(ctx, path)
	return dirEntries(infos), err
}

func (c *Client) readDir(ctx context.Context, path string) ([]Info, error) {
	var infos []Info
	for b, err := range c.List(ctx, slices.Values([]string{path}), ListOptions{}) {
		if err != nil {
			return infos, pathError("readdir", path, err)
		}
		infos = slices.Grow(infos, b.Len())
		for i := range b.Len() {
			if b.Name(i) == "" {
				return nil, pathError("readdir", path, muster.ErrNotDirectory)
			}
			infos = append(infos, b.Info(i))
		}
		for _, o := range b.Outcomes {
			if err := o.err("readdir"); err != nil {
				return infos, err
			}
		}
		b.Release()
	}
	return infos, nil
}

// dirEntries returns the infos as pointers into them: no copy for each.
func dirEntries(infos []Info) []fs.DirEntry {
	entries := make([]fs.DirEntry, len(infos))
	for i := range infos {
		entries[i] = &infos[i]
	}
	return entries
}

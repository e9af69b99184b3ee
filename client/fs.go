package client

import (
	"context"
	"io/fs"
)

// FS returns the tree below root as a file system: fs.ReadDirFS, fs.StatFS,
// fs.ReadLinkFS and fs.GlobFS. Directories, links and empty files can be opened;
// opening a file with bytes fails with muster.ErrNoData, since Muster keeps metadata.
// All its calls are made under ctx.
func (c *Client) FS(ctx context.Context, root string) fs.FS { panic("not yet") }

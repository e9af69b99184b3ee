package client

import (
	"context"
	"io/fs"
)

// ReadDir returns the entries of a directory in the order of their names' bytes. On
// an error it returns those that came before it, as os.ReadDir does.
func (c *Client) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) { panic("not yet") }

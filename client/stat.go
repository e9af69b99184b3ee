package client

import (
	"context"
	"iter"
)

// Stat returns the status of what the path names, and follows a link in last place.
func (c *Client) Stat(ctx context.Context, path string) (Info, error) { panic("not yet") }

// Lstat returns the status of what the path names; of a link its own.
func (c *Client) Lstat(ctx context.Context, path string) (Info, error) { panic("not yet") }

// ReadLink returns the target of a link, as it was given.
func (c *Client) ReadLink(ctx context.Context, path string) (string, error) { panic("not yet") }

// Stated is the answer of StatAll for one path.
type Stated struct {
	Path string // as it was given
	Info Info   // if Err is nil
	Err  error  // *fs.PathError
}

// StatAll is Lstat for any number of paths in one call. Exactly one answer comes for
// each path, in their order; the iteration's error is one of the whole call. How paths
// is used is said at List.
func (c *Client) StatAll(ctx context.Context, paths iter.Seq[string]) iter.Seq2[Stated, error] {
	panic("not yet")
}

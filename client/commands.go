package client

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/muster-fs/muster"
)

// Mkdir makes a directory; its mode is mode less the umask.
func (c *Client) Mkdir(ctx context.Context, path string, mode fs.FileMode) error {
	return c.one(ctx, "mkdir", muster.Mkdir{Path: path, Mode: c.mask(mode)})
}

// MkdirAll makes a directory and its missing parents, and does not mind one that exists.
func (c *Client) MkdirAll(ctx context.Context, path string, mode fs.FileMode) error {
	return c.one(ctx, "mkdir", muster.Mkdir{Path: path, Mode: c.mask(mode), Parents: true})
}

// CreateOptions are the metadata of a new file.
type CreateOptions struct {
	Mode        fs.FileMode // less the umask; 0: 0666
	Length      int64       // bytes
	Replication muster.Replication
	BlockSize   int64 // bytes
	Blocks      []muster.Block
	Owner       string    // "": the caller
	Group       string    // "": the parent's
	MTime       time.Time // zero: now, by the server's clock
	ATime       time.Time // zero: now, by the server's clock
	Parents     bool      // make missing parents
	Overwrite   bool      // replace an existing file
}

// CreateEntry makes a file from its metadata and returns its inode id. Create is the call
// that writes data.
func (c *Client) CreateEntry(ctx context.Context, path string, o CreateOptions) (uint64, error) {
	applied, err := c.Apply(ctx, muster.Create{
		Path: path, Mode: c.mask(orDefault(o.Mode, 0o666)), Length: o.Length,
		Replication: o.Replication, BlockSize: o.BlockSize, Blocks: o.Blocks,
		Owner: o.Owner, Group: o.Group, MTime: millis(o.MTime), ATime: millis(o.ATime),
		Parents: o.Parents, Overwrite: o.Overwrite,
	})
	if err != nil {
		return 0, pathError("create", path, cause(err))
	}
	return applied.IDs[0], nil
}

// RenameOptions say how to rename.
type RenameOptions struct {
	Overwrite bool // replace a file by a file, or an empty directory by a directory
}

// Rename moves an entry. Without Overwrite an existing target is refused: unlike in
// os, as nobody loses a file by surprise. The error is an *os.LinkError.
func (c *Client) Rename(ctx context.Context, from, to string, o RenameOptions) error {
	_, err := c.Apply(ctx, muster.Rename{From: from, To: to, Overwrite: o.Overwrite})
	return linkError("rename", from, to, cause(err))
}

// Remove removes a file, a link or an empty directory.
func (c *Client) Remove(ctx context.Context, path string) error {
	return c.one(ctx, "remove", muster.Delete{Path: path})
}

// RemoveAll removes a path and all below it, at once, whatever its size. A path that
// does not exist is no error.
func (c *Client) RemoveAll(ctx context.Context, path string) error {
	err := c.one(ctx, "removeall", muster.Delete{Path: path, Recursive: true})
	if errors.Is(err, muster.ErrNotFound) {
		return nil
	}
	return err
}

// Chmod sets the permissions and the sticky bit.
func (c *Client) Chmod(ctx context.Context, path string, mode fs.FileMode) error {
	bits := muster.ModeBits(mode)
	return c.one(ctx, "chmod", muster.SetAttr{Path: path, Mode: &bits})
}

// Chown sets owner and group; an empty one stays as it is.
func (c *Client) Chown(ctx context.Context, path, owner, group string) error {
	set := muster.SetAttr{Path: path}
	if owner != "" {
		set.Owner = &owner
	}
	if group != "" {
		set.Group = &group
	}
	return c.one(ctx, "chown", set)
}

// Chtimes sets the times; a zero one stays as it is. They are kept in milliseconds.
func (c *Client) Chtimes(ctx context.Context, path string, atime, mtime time.Time) error {
	return c.one(ctx, "chtimes", muster.SetAttr{Path: path, ATime: millis(atime), MTime: millis(mtime)})
}

// Symlink makes a link at path to target, which need not exist and is kept as given.
// The error is an *os.LinkError.
func (c *Client) Symlink(ctx context.Context, target, path string) error {
	_, err := c.Apply(ctx, muster.Symlink{Path: path, Target: target})
	return linkError("symlink", target, path, cause(err))
}

func (c *Client) one(ctx context.Context, op string, cmd muster.Command) error {
	_, err := c.Apply(ctx, cmd)
	return pathError(op, cmd.Subject(), cause(err))
}

func (c *Client) mask(mode fs.FileMode) uint16 {
	return muster.ModeBits(mode &^ c.options.Umask.Perm())
}

func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

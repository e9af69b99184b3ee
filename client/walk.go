package client

import (
	"context"
	"io/fs"
	"iter"
)

// Walk lists a whole tree in one List call: the children of root, then those of each
// directory found. A directory comes before what is in it, levels come in order as
// long as no more than 65,536 directories wait, and the rows of one directory come one
// after another. Links are not followed, but for root. Outcomes are of the directories.
//
// It is the fast way through a tree; WalkDir is the one in lexical order. The columns
// always include the kind. ListOptions.Own is not for it.
func (c *Client) Walk(ctx context.Context, root string, o ListOptions) iter.Seq2[*Batch, error] {
	panic("not yet")
}

// WalkDir walks a tree in lexical order and calls fn as filepath.WalkDir does, with
// fs.SkipDir and fs.SkipAll; the entries' Info costs no call. Directories are listed
// ahead, many in a call. Errors of the whole call, such as a server that is gone, end
// the walk and are returned; fn sees those of paths.
func (c *Client) WalkDir(ctx context.Context, root string, fn fs.WalkDirFunc) error {
	panic("not yet")
}

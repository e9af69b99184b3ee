package client

import (
	"context"
	"iter"
)

// Page lists one page of the paths: all of one state, at most ListOptions.Limit rows.
// A cursor goes on after the page that had it as its Cursor, with the same paths and
// options; nil begins. The last page has no Cursor. There may be as many paths as
// Capabilities.MaxPaths says. No path gives an empty batch, without a call.
//
// List is faster: it needs no round trip for each page.
func (c *Client) Page(ctx context.Context, paths []string, cursor []byte, o ListOptions) (*Batch, error) {
	panic("not yet")
}

// Pages lists one directory page by page, from ListOptions.Cursor on: the iterator
// for readers that stop and go on later, perhaps in another process. The error is one
// of the whole call; the path's own is the outcome in the last batch.
func (c *Client) Pages(ctx context.Context, path string, o ListOptions) iter.Seq2[*Batch, error] {
	panic("not yet")
}

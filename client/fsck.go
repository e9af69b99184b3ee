package client

import "context"

// Problem is one fault of a store.
type Problem struct {
	Kind    string
	ID      uint64 // inode
	Path    string // as far as it is known
	Message string
}

// FsckSummary counts what Fsck has looked at.
type FsckSummary struct {
	Inodes, Directories, Files, Links uint64
	Problems                          uint64
	Reclaiming                        uint64 // inodes below removed trees
}

// Fsck checks the server's whole store and calls report for each problem; an error of
// report ends it and is returned. A check that breaks is not repeated.
func (c *Client) Fsck(ctx context.Context, report func(Problem) error) (FsckSummary, error) {
	panic("not yet")
}

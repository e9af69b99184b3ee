package blocks

import (
	"context"
	"time"

	"github.com/muster-fs/muster"
)

// Layout says what a file consists of. It is not changed once it is shared.
type Layout struct {
	Length int64   // bytes; those that are in no block cannot be read: muster.ErrNoData
	Blocks []Block // in the order of Offset, without overlaps; those of length 0 are passed over
}

// Block is one block of a file, and where it is.
type Block struct {
	ID     muster.BlockID
	File   uint64 // inode id
	Offset int64  // in the file
	Length int64  // that is committed

	Nodes   []muster.Node // the nearest first
	Token   []byte        // to read the block; empty: the cluster has no tokens
	Expires time.Time     // of the token; zero: never
	Seen    []byte        // of the answer that Nodes came with; Refresh wants it back
	Err     error         // why it is not known where the block is; nil: it is
}

// Stale is an answer by which a container's blocks could not be read.
type Stale struct {
	Container uint64
	Seen      []byte
}

// Refresh asks for a file's layout again, with new tokens. What is stale is to be newer in
// the answer than it was; nothing is if only tokens or the length are asked for. Calls of one
// file come one at a time. nil: nobody can be asked.
//
// A file that was replaced or removed meanwhile is an error, such as muster.ErrChanged.
type Refresh func(ctx context.Context, stale []Stale) (Layout, error)

package namespace

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
)

// Writing is a file that is being written.
type Writing struct {
	File   uint64 // inode id
	Holder muster.Holder
	User   string // who started it
	Since  int64  // ms since the epoch
}

// Writings returns the files being written whose inode ids are after a given one, at most max of
// them, ascending. Those of a tree that was deleted are among them until it is reclaimed.
func (t *Tree) Writings(after uint64, max int) ([]Writing, error) {
	return nil, fmt.Errorf("%w: not yet", muster.ErrInternal)
}

// Deletions returns the blocks that no file has any more and that were not confirmed by Deleted
// yet, those after a given one, at most max of them, ascending by container and local id. To
// drain the queue go on after the last one returned: what is before was taken away, and takes time
// to walk over.
func (t *Tree) Deletions(after muster.BlockID, max int) ([]muster.BlockID, error) {
	return nil, fmt.Errorf("%w: not yet", muster.ErrInternal)
}

// Deleted takes blocks from the queue that Deletions reads, once no datanode has them any more.
// Blocks that are not in it do not matter.
func (t *Tree) Deleted(ctx context.Context, blocks []muster.BlockID) error {
	return fmt.Errorf("%w: not yet", muster.ErrInternal)
}

// ResolveID finds an inode by its id, wherever it is: for a server's own work, as it checks no
// permission, and the answer has them all. ErrNotFound if there is none, or none any more.
func (r *Reader) ResolveID(id uint64) (Resolved, error) {
	return Resolved{}, fmt.Errorf("%w: not yet", muster.ErrInternal)
}

// LastBlock returns the last block of a file and how many it has; 0 if none.
func (r *Reader) LastBlock(res *Resolved) (last muster.Block, count int, err error) {
	return muster.Block{}, 0, fmt.Errorf("%w: not yet", muster.ErrInternal)
}

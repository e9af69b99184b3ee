package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
)

// guard decides who may do what with which block: the one place of a datanode where tokens
// are checked, before anything else is looked at.
type guard struct {
	keys *blockKeys
	now  func() time.Time
}

// grant is what a call may do.
type grant struct {
	maxLength int64  // bytes of the block
	file      uint64 // inode id of the block's file; meaningful if checked
	checked   bool   // there was a token, since the cluster has them
}

// check says whether the caller of ctx may use a block in a mode. Local id 0 is the container.
func (g *guard) check(ctx context.Context, t []byte, block muster.BlockID, mode token.Modes) (grant, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return grant{}, err
	}
	ring, err := g.keys.current()
	if err != nil {
		ring, err = g.keys.renewed(ctx) // the datanode has only just started
	}
	switch {
	case err != nil:
		return grant{}, err
	case ring == nil:
		return grant{maxLength: muster.MaxBlockSize}, nil
	}
	granted, err := token.Verify(ring, t, g.now(), block, mode, caller.User)
	if errors.Is(err, token.ErrUnknownKey) {
		if ring, err = g.keys.renewed(ctx); err != nil {
			return grant{}, err
		}
		granted, err = token.Verify(ring, t, g.now(), block, mode, caller.User)
	}
	if err != nil {
		return grant{}, err
	}
	return grant{min(granted.MaxLength, muster.MaxBlockSize), granted.File, true}, nil
}

// checkBlock refuses ids that no block has.
func checkBlock(id muster.BlockID) error {
	if id.Container == 0 || id.LocalID == 0 {
		return fmt.Errorf("%w: block %v: ids begin at 1", muster.ErrInvalid, id)
	}
	return nil
}

package server

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc/pb"
)

// fileState is what a server's own work wants to know of a file.
type fileState struct {
	path        string
	length      int64 // without the last block of a file that is being written
	blockSize   int64
	replication muster.Replication
	writing     bool
	blocks      int
	last        muster.Block // if there are blocks
}

// fileByID reads a file in a view of its own, past all permissions.
func fileByID(tree *namespace.Tree, id uint64) (f fileState, err error) {
	view, err := tree.View()
	if err != nil {
		return f, err
	}
	defer view.Release()
	reader := view.NewReader(&muster.Identity{User: serverUser})
	defer reader.Close()
	res, err := reader.ResolveID(id)
	if err != nil {
		return f, err
	}
	var row muster.Row
	if err := reader.Row(&res, &row, false); err != nil {
		return f, err
	}
	if row.Kind != muster.File {
		return f, fmt.Errorf("%w: inode %d is no file", muster.ErrInvalid, id)
	}
	f = fileState{path: res.Path(), length: row.Length, blockSize: row.BlockSize, replication: row.Replication, writing: row.Flags&muster.FlagWriting != 0}
	f.last, f.blocks, err = reader.LastBlock(&res)
	return f, err
}

// idOf is a block's name.
func idOf(b muster.Block) muster.BlockID {
	return muster.BlockID{Container: b.Container, LocalID: b.LocalID}
}

// allocate asks the location service for a block that is not on datanodes that failed.
func (h *handlers) allocate(ctx context.Context, r muster.Replication, failed []uint32) (given *pb.AllocateReply, b muster.Block, err error) {
	if len(failed) > maxFailed {
		return nil, b, fmt.Errorf("%w: %d datanodes failed; at most %d are named", muster.ErrLimit, len(failed), maxFailed)
	}
	given, err = h.locations.Allocate(ctx, &pb.AllocateRequest{Replication: uint32(r), Count: 1, Exclude: failed})
	if err != nil {
		return nil, b, err
	}
	if len(given.GetBlocks()) != 1 || len(given.GetPlacements()) != 1 {
		return nil, b, fmt.Errorf("%w: the location service gave %d blocks in %d containers for one", muster.ErrInternal, len(given.GetBlocks()), len(given.GetPlacements()))
	}
	id := given.Blocks[0]
	return given, muster.Block{Container: id.GetContainer(), LocalID: id.GetLocalId()}, nil
}

// maxFailed bounds the datanodes that a writer says have failed.
const maxFailed = 1000

// target is a block that is to be written.
type target struct {
	file      uint64
	blockSize int64
	given     *pb.AllocateReply // nil: block was given before
	block     muster.Block
}

// target says where a block is to be written, and has a token for it. The datanodes are in the order of the container's members, which is the same each time.
func (h *handlers) target(ctx context.Context, sign *signing, t target) (*pb.WriteTarget, error) {
	var nodes []*pb.Node
	var at []uint32
	if t.given != nil {
		id := t.given.Blocks[0]
		t.block = muster.Block{Container: id.GetContainer(), LocalID: id.GetLocalId()}
		nodes, at = t.given.GetNodes(), t.given.Placements[0].GetNodes()
	} else {
		reply, err := h.locations.Container(ctx, &pb.ContainerRequest{Container: t.block.Container})
		if err != nil {
			return nil, err
		}
		nodes, at = reply.GetNodes(), reply.GetMembers()
	}
	w := &pb.WriteTarget{
		Block: &pb.BlockID{Container: t.block.Container, LocalId: t.block.LocalID},
		Token: sign.token(blockOfFile{idOf(t.block), t.file}, t.blockSize),
	}
	for _, i := range at {
		if i == 0 || int(i) > len(nodes) {
			return nil, fmt.Errorf("%w: container %d: node %d of a table of %d", muster.ErrCorrupt, t.block.Container, i, len(nodes))
		}
		w.Nodes = append(w.Nodes, nodes[i-1])
	}
	return w, nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// A datanode that missed a block's commit, since it was away or failed, has a copy that nobody can
// read. What is to become of it is for the tree to say, which has a block in its file's list before
// anybody learns of the block:
//
//	the file does not have the block, or there is no such file   it is deleted
//	the file is being written, and this is its last block        nothing: its writer, or the recovery, decides
//	the file has it with length L, and the copy as much          it is committed at L
//	the same, and the copy has less                              it is discarded: a whole one may come

// blockOfFile is a block, and the inode id of the file that it was written for; 0: not known.
type blockOfFile struct {
	muster.BlockID
	file uint64
}

// fate is what is to become of a copy of a block.
type fate struct {
	block  blockOfFile
	keep   bool  // else it is deleted
	length int64 // if it is kept: of the block
}

func (k *upkeep) settleUnfinished(ctx context.Context) {
	var failing bool
	for sleep(ctx, k.options.Unfinished) {
		err := k.settleAll(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			k.log.Warn("blocks without a commit stay as they are on datanodes", "error", err)
		}
		failing = err != nil
	}
}

// settleAll asks which copies there are, and settles those that the tree decides on.
func (k *upkeep) settleAll(ctx context.Context) error {
	reply, err := k.service.Unfinished(ctx, &pb.UnfinishedRequest{})
	if err != nil {
		return err
	}
	nodes, err := rpc.NodesFromPB(reply.GetNodes())
	if err != nil {
		return err
	}
	fates, err := k.fates(reply.GetBlocks(), len(nodes)) // in a view that is younger than the answer
	if err != nil {
		return err
	}
	errs := make([]error, len(nodes))
	var group errgroup.Group
	group.SetLimit(drainAtOnce)
	for i := range nodes {
		if len(fates[i]) > 0 {
			group.Go(func() error { errs[i] = k.settleOn(ctx, &nodes[i], fates[i]); return nil })
		}
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// fates decides on copies, and returns the fates of those on each of the nodes.
func (k *upkeep) fates(copies []*pb.Unfinished, nodes int) ([][]fate, error) {
	all := make([][]fate, nodes)
	if len(copies) == 0 {
		return all, nil
	}
	view, err := k.tree.View()
	if err != nil {
		return nil, err
	}
	defer view.Release()
	reader := view.NewReader(&muster.Identity{User: serverUser})
	defer reader.Close()
	known := map[uint64]map[muster.BlockID]int64{} // by file: lengths of its blocks, -1 of one that is being written
	for _, c := range copies {
		m := c.GetBlock()
		if c.GetNode() == 0 || int(c.GetNode()) > nodes {
			return nil, fmt.Errorf("%w: node %d of a table of %d", muster.ErrCorrupt, c.GetNode(), nodes)
		}
		lengths, ok := known[m.GetFile()]
		if !ok {
			if lengths, err = lengthsOf(reader, m.GetFile()); err != nil {
				return nil, err
			}
			known[m.GetFile()] = lengths
		}
		f := fate{block: blockOfFile{muster.BlockID{Container: m.GetBlock().GetContainer(), LocalID: m.GetBlock().GetLocalId()}, m.GetFile()}}
		if f.length, f.keep = lengths[f.block.BlockID]; f.length >= 0 {
			all[c.Node-1] = append(all[c.Node-1], f)
		}
	}
	return all, nil
}

// lengthsOf returns the blocks of a file; there are none if there is no such file.
func lengthsOf(reader *namespace.Reader, file uint64) (map[muster.BlockID]int64, error) {
	res, err := reader.ResolveID(file)
	if errors.Is(err, muster.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var row muster.Row
	if err := reader.Row(&res, &row, true); err != nil {
		return nil, err
	}
	lengths := make(map[muster.BlockID]int64, len(row.Blocks))
	for i, b := range row.Blocks {
		if i == len(row.Blocks)-1 && row.Flags&muster.FlagWriting != 0 {
			b.Length = -1
		}
		lengths[idOf(b)] = b.Length
	}
	return lengths, nil
}

// settleOn settles copies on a datanode. What fails is left for the next time.
func (k *upkeep) settleOn(ctx context.Context, n *muster.Node, fates []fate) error {
	var doomed, short []blockOfFile
	for _, f := range fates {
		if !f.keep {
			doomed = append(doomed, f.block)
			continue
		}
		lacks, err := k.finish(ctx, n, f)
		if err != nil {
			return fmt.Errorf("datanode %s: block %v: %w", n.ID, f.block.BlockID, err)
		}
		if lacks {
			short = append(short, f.block)
		}
	}
	return errors.Join(k.remove(ctx, n, doomed, forGood), k.remove(ctx, n, short, again))
}

// remove deletes copies of blocks that nobody committed.
func (k *upkeep) remove(ctx context.Context, n *muster.Node, blocks []blockOfFile, d deletion) error {
	for some := range slices.Chunk(blocks, drainBatch) {
		outcomes, err := deleteBlocks(ctx, k.nodes, n, some, d)
		if err = errors.Join(append(outcomes, err)...); err != nil {
			return fmt.Errorf("datanode %s: %w", n.ID, err)
		}
		k.settled.Add(int64(len(some)))
		k.log.Info("copies of blocks that nobody committed were deleted", "node", n.ID, "blocks", len(some), "too short", d == again, "first", some[0].BlockID.String())
	}
	return nil
}

// finish commits a copy, or says that it is too short for that.
func (k *upkeep) finish(ctx context.Context, n *muster.Node, f fate) (short bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	b, err := k.nodes.GetBlock(ctx, n, f.block)
	switch {
	case errors.Is(err, muster.ErrNotFound) || errors.Is(err, muster.ErrNoData):
		return false, nil // gone meanwhile
	case err != nil || b.committed:
		return false, err
	case b.length < f.length:
		return true, nil
	}
	if err := k.nodes.CommitBlock(ctx, n, f.block, f.length); err != nil {
		return false, err
	}
	k.settled.Add(1)
	return false, nil
}

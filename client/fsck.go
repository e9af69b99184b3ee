package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// Problem is one fault of a store.
type Problem struct {
	Kind    string
	ID      uint64 // inode; 0 if it is not about one
	Path    string // as far as it is known
	Message string
}

// FsckSummary counts what Fsck has looked at.
type FsckSummary struct {
	Inodes, Directories, Files, Links uint64
	Problems                          uint64
	Reclaiming                        uint64 // inodes below removed trees
}

// BlocksSummary counts what FsckBlocks has looked at. A block counts as what is worst of it.
type BlocksSummary struct {
	Directories, Files, Blocks uint64
	Problems                   uint64 // all that were reported
	Missing                    uint64 // blocks that no datanode has
	Damaged                    uint64 // of which a replica is damaged, as a scrubber found
	WrongLength                uint64 // of which a replica has another length than the file says
	UnderReplicated            uint64 // that have fewer whole replicas than the file's replication
}

// Fsck checks the server's whole store and calls report for each problem; an error of
// report ends it and is returned. A check that breaks is not repeated.
func (c *Client) Fsck(ctx context.Context, report func(Problem) error) (FsckSummary, error) {
	r, err := c.fsck(ctx, &pb.FsckRequest{}, report)
	if err != nil {
		return FsckSummary{}, err
	}
	return FsckSummary{
		Inodes: r.Inodes, Directories: r.Directories, Files: r.Files, Links: r.Links,
		Problems: r.ProblemCount, Reclaiming: r.Reclaiming,
	}, nil
}

// FsckBlocks checks the files below a path, or one file: whether the datanodes have each block
// as its file says, in as many replicas as the file wants. Not judged are the last block of a
// file that is being written, and erasure-coded files. It asks datanodes for all containers of
// the files. Otherwise it is as Fsck.
func (c *Client) FsckBlocks(ctx context.Context, path string, report func(Problem) error) (BlocksSummary, error) {
	clean, err := muster.CleanPath(path)
	if err != nil {
		return BlocksSummary{}, fmt.Errorf("fsck: %w", err)
	}
	r, err := c.fsck(ctx, &pb.FsckRequest{Blocks: true, Path: []byte(clean)}, report)
	if err != nil {
		return BlocksSummary{}, err
	}
	return BlocksSummary{
		Directories: r.Directories, Files: r.Files, Blocks: r.Blocks, Problems: r.ProblemCount,
		Missing: r.Missing, Damaged: r.Damaged, WrongLength: r.WrongLength, UnderReplicated: r.UnderReplicated,
	}, nil
}

// fsck makes a check, and returns its last message, which counts.
func (c *Client) fsck(ctx context.Context, request *pb.FsckRequest, report func(Problem) error) (*pb.FsckReply, error) {
	// A stream may open, and even end well, on a context that has ended: dRPC looks at it beside the messages.
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.Fsck(c.context(ctx), request)
	if err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	defer func() { _ = stream.Close() }() // what counts is whether the last message came
	for seen := uint64(0); ; {
		reply, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("fsck: %w", fsckBroken(ctx, err))
		}
		for _, p := range reply.Problems {
			seen++
			if err := report(Problem{Kind: p.Kind, ID: p.InodeId, Path: string(p.Path), Message: p.Message}); err != nil {
				return nil, err
			}
		}
		if reply.Done && reply.ProblemCount != seen {
			return nil, fmt.Errorf("fsck: %w", corrupt("%d problems came of %d", seen, reply.ProblemCount))
		}
		if reply.Done {
			return reply, nil
		}
	}
}

func fsckBroken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the check was cut off", muster.ErrUnavailable)
	}
	return err
}

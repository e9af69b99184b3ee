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
	// A stream may open, and even end well, on a context that has ended: dRPC looks at it beside the messages.
	if err := ended(ctx); err != nil {
		return FsckSummary{}, fmt.Errorf("fsck: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.Fsck(c.context(ctx), &pb.FsckRequest{})
	if err != nil {
		return FsckSummary{}, fmt.Errorf("fsck: %w", err)
	}
	defer func() { _ = stream.Close() }() // what counts is whether the last message came
	for seen := uint64(0); ; {
		reply, err := stream.Recv()
		if err != nil {
			return FsckSummary{}, fmt.Errorf("fsck: %w", fsckBroken(ctx, err))
		}
		for _, p := range reply.Problems {
			seen++
			if err := report(Problem{Kind: p.Kind, ID: p.InodeId, Path: string(p.Path), Message: p.Message}); err != nil {
				return FsckSummary{}, err
			}
		}
		if reply.Done {
			return fsckSummary(reply, seen)
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

func fsckSummary(r *pb.FsckReply, seen uint64) (FsckSummary, error) {
	if r.ProblemCount != seen {
		return FsckSummary{}, fmt.Errorf("fsck: %w", corrupt("%d problems came of %d", seen, r.ProblemCount))
	}
	return FsckSummary{
		Inodes: r.Inodes, Directories: r.Directories, Files: r.Files, Links: r.Links,
		Problems: r.ProblemCount, Reclaiming: r.Reclaiming,
	}, nil
}

package server

import (
	"context"
	"fmt"
	"io"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
)

// listed is a block as a datanode lists it.
type listed struct {
	localID   uint64
	length    int64 // durable bytes
	committed bool
	damaged   bool // as its scrubber found
}

// maxListed bounds the blocks of a container: far more than the location service gives.
const maxListed = 4_000_000

func (p *nodePools) ListBlocks(ctx context.Context, n *muster.Node, container uint64) (list []listed, err error) {
	sign, err := p.keys.signer(serverUser, token.Read)
	if err != nil {
		return nil, err
	}
	t := sign.token(blockOfFile{BlockID: muster.BlockID{Container: container}}, muster.MaxBlockSize)
	err = p.call(ctx, n, func(ctx context.Context, c pb.DRPCBlocksClient) error {
		stream, err := c.ListBlocks(ctx, &pb.ListBlocksRequest{Container: container, Token: t})
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }() // it is at its end, or its error is known
		for {
			reply, err := stream.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if list, err = appendListed(list, reply.GetBlocks()); err != nil {
				return fmt.Errorf("container %d: %w", container, err)
			}
		}
	})
	return list, err
}

// appendListed appends the blocks of a message, which are by local id.
func appendListed(list []listed, more []*pb.ListedBlock) ([]listed, error) {
	if len(list)+len(more) > maxListed {
		return nil, fmt.Errorf("%w: more than %d blocks", muster.ErrLimit, maxListed)
	}
	last := uint64(0)
	if len(list) > 0 {
		last = list[len(list)-1].localID
	}
	for _, m := range more {
		if m.GetLocalId() <= last {
			return nil, fmt.Errorf("%w: block %d is listed after block %d", muster.ErrCorrupt, m.GetLocalId(), last)
		}
		last = m.GetLocalId()
		list = append(list, listed{last, m.GetLength(), m.GetCommitted(), m.GetDamaged()})
	}
	return list, nil
}

func (p *nodePools) Scrub(ctx context.Context, n *muster.Node) (started bool, err error) {
	err = p.call(ctx, n, func(ctx context.Context, c pb.DRPCBlocksClient) error {
		reply, err := c.Scrub(ctx, &pb.ScrubRequest{})
		started = reply.GetStarted()
		return err
	})
	return started, err
}

func (p *nodePools) ScrubState(ctx context.Context, n *muster.Node) (state *pb.ScrubState, err error) {
	err = p.call(ctx, n, func(ctx context.Context, c pb.DRPCBlocksClient) error {
		reply, err := c.DatanodeStatus(ctx, &pb.DatanodeStatusRequest{})
		state = reply.GetScrub()
		return err
	})
	return state, err
}

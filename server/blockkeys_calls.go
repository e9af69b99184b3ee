package server

import (
	"context"

	"github.com/muster-fs/muster/rpc/pb"
)

// BlockKeys returns the keys of block tokens. It is for peers alone, as all calls of the service are, and
// the one place where the secrets leave the registry.
func (c *locationCalls) BlockKeys(ctx context.Context, _ *pb.BlockKeysRequest) (*pb.BlockKeysReply, error) {
	if !c.tokens {
		return &pb.BlockKeysReply{RefreshMs: keysRefresh.Milliseconds()}, nil
	}
	known, err := c.registry.BlockKeys(ctx)
	if err != nil {
		return nil, err
	}
	reply := &pb.BlockKeysReply{Enabled: true, RefreshMs: known.Refresh.Milliseconds(), Keys: make([]*pb.BlockKey, len(known.Keys))}
	for i, k := range known.Keys {
		reply.Keys[i] = &pb.BlockKey{Id: k.ID, Secret: k.Secret.Reveal(), Expires: k.Expires.UnixMilli()}
	}
	return reply, nil
}

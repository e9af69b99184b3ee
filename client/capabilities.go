package client

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Capabilities are what a server can do, and its bounds.
type Capabilities struct {
	Version          string // of the server, for people
	RowSchema        int    // version of the rows it sends
	MaxPaths         int    // of a page call
	MaxChunkPaths    int    // of a message of a stream
	DefaultLimit     int    // entries of a page
	MaxLimit         int    // entries of a page
	MaxMessageBytes  int
	MaxBatchCommands int
	MaxBatchBytes    int
	Features         []string
	User             string // the caller as the server knows it
	Superuser        bool   // whether the caller is one
}

// Has says whether the server has a feature, such as "list" or "snapshot".
func (c Capabilities) Has(feature string) bool { return slices.Contains(c.Features, feature) }

// Capabilities asks the server what it can do.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	return retry(ctx, c, c.capabilities)
}

func (c *Client) capabilities(ctx context.Context) (Capabilities, error) {
	r, err := c.service.Capabilities(ctx, &pb.CapabilitiesRequest{})
	if err != nil {
		return Capabilities{}, err
	}
	return Capabilities{
		Version: r.Version, RowSchema: int(r.RowSchema), MaxPaths: int(r.MaxPaths), MaxChunkPaths: cmp.Or(int(r.MaxChunkPaths), rpc.ChunkPaths),
		DefaultLimit: int(r.DefaultLimit), MaxLimit: int(r.MaxLimit),
		MaxMessageBytes: int(r.MaxMessageBytes), MaxBatchCommands: int(r.MaxBatchCommands), MaxBatchBytes: int(r.MaxBatchBytes),
		Features: r.Features, User: r.User, Superuser: r.Superuser,
	}, nil
}

package client

import (
	"context"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Scrubbed is how far a datanode is with reading all its blocks again, in the run that goes on,
// or else the last one.
type Scrubbed struct {
	Node    muster.Node // if Err is not nil, it may have no more than an ID, as it was asked for
	Err     error       // why the rest is unknown
	Started bool        // by this call; false: a run went on already, or none was to be started
	Running bool

	Blocks, Bytes, Damaged uint64    // that were read, and blocks that are not as they were written
	Finished               time.Time // of the last run; zero: there was none yet
}

// Scrub has datanodes read all their blocks again and compare them with their checksums, in the
// background and within a rate. A datanode is named by its id, or by its host if no other is
// there; without names it is all that are not dead. What fails on one does not keep the others.
// This is for superusers.
func (c *Client) Scrub(ctx context.Context, nodes ...string) ([]Scrubbed, error) {
	return c.scrub(ctx, &pb.ScrubNodesRequest{Nodes: nodes, Start: true})
}

// ScrubState is Scrub that starts nothing.
func (c *Client) ScrubState(ctx context.Context, nodes ...string) ([]Scrubbed, error) {
	return c.scrub(ctx, &pb.ScrubNodesRequest{Nodes: nodes})
}

func (c *Client) scrub(ctx context.Context, request *pb.ScrubNodesRequest) ([]Scrubbed, error) {
	list, err := retry(ctx, c, func(ctx context.Context) ([]Scrubbed, error) {
		r, err := c.service.Scrub(ctx, request)
		if err != nil {
			return nil, err
		}
		list := make([]Scrubbed, len(r.GetNodes()))
		for i, m := range r.GetNodes() {
			if list[i], err = scrubbedFromPB(m); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
	return list, operation("scrub", err)
}

func scrubbedFromPB(m *pb.ScrubbedNode) (Scrubbed, error) {
	node, err := rpc.NodeFromPB(m.GetNode())
	if failed := rpc.FromStatus(m.GetCode(), m.GetMessage()); failed != nil {
		if err != nil {
			node = muster.Node{ID: m.GetNode().GetId()}
		}
		return Scrubbed{Node: node, Err: failed}, nil
	}
	if err != nil {
		return Scrubbed{}, err
	}
	s := m.GetScrub()
	out := Scrubbed{Node: node, Started: m.GetStarted(), Running: s.GetRunning(), Blocks: s.GetBlocks(), Bytes: s.GetBytes(), Damaged: s.GetDamaged()}
	if ms := s.GetFinished(); ms != 0 {
		out.Finished = time.UnixMilli(ms)
	}
	return out, nil
}

package server

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Heartbeat says that a datanode lives, and how it is.
func (c *locationCalls) Heartbeat(_ context.Context, r *pb.HeartbeatRequest) (*pb.HeartbeatReply, error) {
	beat, err := beatFromPB(r)
	if err != nil {
		return nil, fmt.Errorf("heartbeat of datanode %d: %w", r.GetNumber(), err)
	}
	wishes, err := c.registry.Heartbeat(muster.NodeNumber(r.GetNumber()), r.GetSession(), beat)
	if err != nil {
		return nil, err
	}
	reply := &pb.HeartbeatReply{Report: wishes.Report}
	for i := range wishes.Orders {
		reply.Orders = append(reply.Orders, rpc.OrderToPB(&wishes.Orders[i]))
	}
	return reply, nil
}

func beatFromPB(r *pb.HeartbeatRequest) (b registry.Beat, err error) {
	if len(r.GetUnfinished()) > registry.MaxUnfinished || len(r.GetResults()) > registry.MaxResults {
		return b, fmt.Errorf("%w: %d unfinished blocks and %d results of orders; at most %d and %d",
			muster.ErrInvalid, len(r.GetUnfinished()), len(r.GetResults()), registry.MaxUnfinished, registry.MaxResults)
	}
	if b.Disks, err = rpc.DisksFromPB(r.GetDisks(), registry.MaxDisks); err != nil {
		return b, err
	}
	for _, m := range r.GetUnfinished() {
		b.Unfinished = append(b.Unfinished, rpc.UnfinishedFromPB(m))
	}
	for _, m := range r.GetResults() {
		b.Results = append(b.Results, registry.OrderResult{ID: m.GetId(), Err: rpc.FromStatus(m.GetCode(), m.GetMessage())})
	}
	return b, nil
}

// Unfinished returns blocks that datanodes have had for long without a commit.
func (c *locationCalls) Unfinished(context.Context, *pb.UnfinishedRequest) (*pb.UnfinishedReply, error) {
	u, err := c.registry.Unfinished()
	if err != nil {
		return nil, err
	}
	reply, at := &pb.UnfinishedReply{Nodes: rpc.NodesToPB(u.Nodes)}, rpc.PositionsOf(u.Nodes)
	for i := range u.Blocks {
		reply.Blocks = append(reply.Blocks, &pb.Unfinished{Block: rpc.UnfinishedToPB(&u.Blocks[i].UnfinishedBlock), Node: at[u.Blocks[i].Node]})
	}
	return reply, nil
}

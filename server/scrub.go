package server

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// scrubsAtOnce bounds the datanodes that are asked at once.
const scrubsAtOnce = 32

// Scrub has datanodes read all their blocks again, or says how far they are. What fails on one does not
// keep the others.
func (h *handlers) Scrub(ctx context.Context, r *pb.ScrubNodesRequest) (*pb.ScrubNodesReply, error) {
	caller, err := rpc.Caller(ctx)
	if err != nil {
		return nil, err
	}
	if !h.tree.Superuser(&caller) {
		return nil, fmt.Errorf("%w: user %q is no superuser, who alone may have blocks scrubbed", muster.ErrPermission, caller.User)
	}
	known, err := h.locations.Datanodes(ctx, &pb.DatanodesRequest{})
	if err != nil {
		return nil, err
	}
	reply := &pb.ScrubNodesReply{Nodes: scrubbed(known.GetDatanodes(), r.GetNodes())}
	var group errgroup.Group
	group.SetLimit(scrubsAtOnce)
	for _, m := range reply.Nodes {
		if m.Code == 0 {
			group.Go(func() error {
				m.Code, m.Message = rpc.ToStatus(h.scrub(ctx, m, r.GetStart()))
				return nil
			})
		}
	}
	_ = group.Wait()
	if r.GetStart() {
		h.log.Info("datanodes were told to scrub", "nodes", len(reply.Nodes), "user", caller.User)
	}
	return reply, ctx.Err()
}

// scrub asks one datanode.
func (h *handlers) scrub(ctx context.Context, m *pb.ScrubbedNode, start bool) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	node, err := rpc.NodeFromPB(m.Node)
	if err == nil && start {
		m.Started, err = h.upkeep.nodes.Scrub(ctx, &node)
	}
	if err == nil {
		m.Scrub, err = h.upkeep.nodes.ScrubState(ctx, &node)
	}
	return err
}

// scrubbed returns the datanodes of names, or all that are not dead. Those that cannot be asked have a
// code.
func scrubbed(known []*pb.Datanode, names []string) (list []*pb.ScrubbedNode) {
	if len(names) == 0 {
		for _, d := range known {
			if d.GetHealth() != uint32(muster.Dead) {
				list = append(list, &pb.ScrubbedNode{Node: d.GetNode()})
			}
		}
		return list
	}
	for _, name := range names {
		m := new(pb.ScrubbedNode)
		d, err := named(known, name)
		if m.Node = d.GetNode(); m.Node == nil {
			m.Node = &pb.Node{Id: name}
		}
		if err == nil && d.GetHealth() == uint32(muster.Dead) {
			err = fmt.Errorf("%w: the datanode is dead", muster.ErrUnavailable)
		}
		m.Code, m.Message = rpc.ToStatus(err)
		list = append(list, m)
	}
	return list
}

// named returns the datanode with an id, or else the one with a host or an address, as the location
// service finds it.
func named(known []*pb.Datanode, name string) (found *pb.Datanode, err error) {
	for _, d := range known {
		n := d.GetNode()
		switch {
		case n.GetId() == name:
			return d, nil
		case !strings.EqualFold(n.GetHost(), name) && (n.GetAddress() != name || name == ""):
		case found != nil:
			err = fmt.Errorf("%w: several datanodes are on %.300s; name one by its id", muster.ErrInvalid, name)
		default:
			found = d
		}
	}
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("%w: no datanode has the id or the host %.300q", muster.ErrNotFound, name)
	}
	return found, nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// remoteConnections bounds the calls to a location service at a time: the loads of the
// cache, the wait for a new topology, and what operators ask.
const remoteConnections = 32

// remoteDial bounds the making of a connection to a location service, and its proof.
const remoteDial = 3 * time.Second

// remote is a location service in another process. While it is away, because it cannot be
// reached or does not answer, calls fail at once with muster.ErrUnavailable.
type remote struct {
	address  string
	pool     *rpc.Pool
	client   pb.DRPCLocationsClient
	presence presence
}

var (
	_ service          = (*remote)(nil)
	_ locations.Source = (*remote)(nil)
)

// newRemote makes a service that counts as away when it has not answered anything for as
// long as patience.
func newRemote(address string, key *rpc.PeerKey, patience time.Duration) *remote {
	r := &remote{address: address}
	r.pool = rpc.NewPool(address, rpc.PoolOptions{
		MaxConnections: remoteConnections, DialTimeout: remoteDial, PeerKey: key, PeerRole: rpc.RoleNamespace,
	})
	r.client = pb.NewDRPCLocationsClient(r.pool)
	r.presence.start(patience, func(ctx context.Context) error {
		_, err := r.client.LocationsStatus(ctx, &pb.LocationsStatusRequest{})
		return err
	})
	return r
}

func (r *remote) close() error {
	r.presence.stop()
	return r.pool.Close()
}

// Lookup says where containers are.
func (r *remote) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	reply, err := ask(ctx, r, r.client.Lookup, &pb.LookupRequest{Containers: containers})
	if err != nil {
		return locations.Answer{}, err
	}
	answer, err := answerFromPB(reply, containers)
	if err != nil {
		return locations.Answer{}, fmt.Errorf("location service %s: %w", r.address, err)
	}
	return answer, nil
}

// answerFromPB returns what a message says of the containers that were asked for.
func answerFromPB(reply *pb.LookupReply, containers []uint64) (locations.Answer, error) {
	if n := len(reply.GetPlacements()); n != len(containers) {
		return locations.Answer{}, fmt.Errorf("%w: %d answers for %d containers", muster.ErrCorrupt, n, len(containers))
	}
	nodes, err := rpc.NodesFromPB(reply.GetNodes())
	if err != nil {
		return locations.Answer{}, err
	}
	answer := locations.Answer{Outcomes: make([]locations.Outcome, len(containers)), Nodes: nodes}
	for i, m := range reply.Placements {
		o := &answer.Outcomes[i]
		if o.Placement, o.Err, err = rpc.PlacementFromPB(m, nodes); err != nil {
			return locations.Answer{}, err
		}
		if o.Placement.Container != containers[i] {
			return locations.Answer{}, fmt.Errorf("%w: an answer for container %d, not %d", muster.ErrCorrupt, o.Placement.Container, containers[i])
		}
	}
	return answer, nil
}

// Topology returns the nodes and racks.
func (r *remote) Topology(ctx context.Context, q *pb.TopologyRequest) (*pb.TopologyReply, error) {
	return askFor(ctx, r, time.Duration(q.GetWaitMs())*time.Millisecond, r.client.Topology, q)
}

// Datanodes lists the datanodes.
func (r *remote) Datanodes(ctx context.Context, q *pb.DatanodesRequest) (*pb.DatanodesReply, error) {
	return ask(ctx, r, r.client.Datanodes, q)
}

// Container says all that is known of one container.
func (r *remote) Container(ctx context.Context, q *pb.ContainerRequest) (*pb.ContainerReply, error) {
	return ask(ctx, r, r.client.Container, q)
}

// SetNodeState is the operator's will for a datanode.
func (r *remote) SetNodeState(ctx context.Context, q *pb.SetNodeStateRequest) (*pb.SetNodeStateReply, error) {
	return ask(ctx, r, r.client.SetNodeState, q)
}

// LocationsStatus counts.
func (r *remote) LocationsStatus(ctx context.Context, q *pb.LocationsStatusRequest) (*pb.LocationsStatusReply, error) {
	return ask(ctx, r, r.client.LocationsStatus, q)
}

// Allocate gives blocks in open containers.
func (r *remote) Allocate(ctx context.Context, q *pb.AllocateRequest) (*pb.AllocateReply, error) {
	return ask(ctx, r, r.client.Allocate, q)
}

// CloseContainer ends adding blocks to a container.
func (r *remote) CloseContainer(ctx context.Context, q *pb.CloseContainerRequest) (*pb.CloseContainerReply, error) {
	return ask(ctx, r, r.client.CloseContainer, q)
}

// Unfinished returns blocks that datanodes have had for long without a commit.
func (r *remote) Unfinished(ctx context.Context, q *pb.UnfinishedRequest) (*pb.UnfinishedReply, error) {
	return ask(ctx, r, r.client.Unfinished, q)
}

// BlockKeys returns the keys of block tokens.
func (r *remote) BlockKeys(ctx context.Context, q *pb.BlockKeysRequest) (*pb.BlockKeysReply, error) {
	return ask(ctx, r, r.client.BlockKeys, q)
}

// ask makes a call. Its answer is not waited for without end, whatever the caller's time is.
func ask[Q, R any](ctx context.Context, r *remote, call func(context.Context, Q) (R, error), q Q) (R, error) {
	return askFor(ctx, r, 0, call, q)
}

// askFor is ask for a call that the service may answer only after a wait.
func askFor[Q, R any](ctx context.Context, r *remote, wait time.Duration, call func(context.Context, Q) (R, error), q Q) (reply R, err error) {
	began := time.Now()
	if err := r.presence.away(); err != nil {
		return reply, r.unreachable(err)
	}
	timed, cancel := context.WithTimeout(ctx, wait+r.presence.patience)
	defer cancel()
	for range 2 { // a kept connection may turn out to have ended with a service that is back by now
		if reply, err = call(timed, q); !isOutage(err) || rpc.Unsent(err) {
			break
		}
	}
	silent := err != nil && timed.Err() != nil && ctx.Err() == nil
	if silent {
		err = r.presence.silence()
	}
	switch {
	case silent || isOutage(err):
		r.presence.lost(err, began)
		return reply, r.unreachable(err)
	case ctx.Err() == nil || err == nil:
		r.presence.answered()
	}
	return reply, err
}

// isOutage says whether the service could not be reached: no answer came from it, and not
// for want of time.
func isOutage(err error) bool {
	var answered *rpc.Error
	if errors.As(err, &answered) {
		// Whoever does not take the key will not take it of the next call.
		return answered.Code == muster.ErrUnauthenticated
	}
	return rpc.Retryable(err) || errors.Is(err, muster.ErrUnauthenticated)
}

func (r *remote) unreachable(err error) error {
	if errors.Is(err, muster.ErrUnavailable) {
		return fmt.Errorf("location service %s: %w", r.address, err)
	}
	return fmt.Errorf("location service %s: %w: %v", r.address, muster.ErrUnavailable, err)
}

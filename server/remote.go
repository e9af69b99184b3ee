package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// remote is a location service in another process. While it cannot be reached, calls
// fail at once with muster.ErrUnavailable, but for one now and then that tries again.
type remote struct {
	address string
	pool    *rpc.Pool
	client  pb.DRPCLocationsClient
	outage  outage
}

var (
	_ service          = (*remote)(nil)
	_ locations.Source = (*remote)(nil)
)

func newRemote(address string, key *rpc.PeerKey) *remote {
	pool := rpc.NewPool(address, rpc.PoolOptions{
		MaxConnections: remoteConnections, DialTimeout: remoteDial, PeerKey: key, PeerRole: rpc.RoleNamespace,
	})
	return &remote{address: address, pool: pool, client: pb.NewDRPCLocationsClient(pool)}
}

func (r *remote) close() error { return r.pool.Close() }

// Lookup says where containers are.
func (r *remote) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	reply, err := again(ctx, r, r.client.Lookup, &pb.LookupRequest{Containers: containers})
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
	return again(ctx, r, r.client.Topology, q)
}

// Datanodes lists the datanodes.
func (r *remote) Datanodes(ctx context.Context, q *pb.DatanodesRequest) (*pb.DatanodesReply, error) {
	return again(ctx, r, r.client.Datanodes, q)
}

// Container says all that is known of one container.
func (r *remote) Container(ctx context.Context, q *pb.ContainerRequest) (*pb.ContainerReply, error) {
	return again(ctx, r, r.client.Container, q)
}

// SetNodeState is the operator's will for a datanode.
func (r *remote) SetNodeState(ctx context.Context, q *pb.SetNodeStateRequest) (*pb.SetNodeStateReply, error) {
	return again(ctx, r, r.client.SetNodeState, q)
}

// LocationsStatus counts.
func (r *remote) LocationsStatus(ctx context.Context, q *pb.LocationsStatusRequest) (*pb.LocationsStatusReply, error) {
	return again(ctx, r, r.client.LocationsStatus, q)
}

// again makes a call, which may be made twice: a kept connection may turn out to have
// ended with a service that is back by now.
func again[Q, R any](ctx context.Context, r *remote, call func(context.Context, Q) (R, error), q Q) (reply R, err error) {
	if err := r.outage.check(time.Now()); err != nil {
		return reply, r.unreachable(err)
	}
	for range 2 {
		if reply, err = call(ctx, q); !isOutage(err) || rpc.Unsent(err) {
			break
		}
	}
	switch {
	case isOutage(err):
		r.outage.note(err, time.Now())
		return reply, r.unreachable(err)
	case ctx.Err() == nil || err == nil:
		r.outage.note(nil, time.Now())
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

// The times between attempts to reach a service that was not there.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// outage is the time in which a service cannot be reached.
type outage struct {
	mu    sync.Mutex    // guards what follows
	err   error         // of the last attempt; nil: there is no outage
	pause time.Duration // between the last attempt and the next
	next  time.Time     // attempt
}

// check returns the error of the last attempt, if it is not yet time for another. If it
// is time, that attempt is the caller's.
func (o *outage) check(now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err == nil:
		return nil
	case now.Before(o.next):
		return o.err
	}
	o.pause = min(2*o.pause, longestPause)
	o.next = now.Add(o.pause)
	return nil
}

// note tells how an attempt went.
func (o *outage) note(err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err == nil {
		o.pause = firstPause
	}
	if o.err = err; err != nil && !now.Before(o.next) {
		o.next = now.Add(o.pause) // an attempt may take longer than the pause
	}
}

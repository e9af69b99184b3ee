package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// upkeep is what a namespace server does by itself about files and blocks that nobody takes care of
// any more. Three goroutines do it, each its own kind, until the server ends:
//
//	recover.go     files whose writer's lease has ended are closed at what is durable
//	drain.go       blocks that no file has any more are deleted from the datanodes
//	unfinished.go  copies of blocks that missed their commit are committed, or deleted
//
// What there is to do is in the tree, or is told by the location service: so nothing is lost with
// the server. What is in memory is when to try again, and what need not be tried again.
type upkeep struct {
	tree    *namespace.Tree
	service service
	nodes   datanodes
	leases  *leases
	options Leases // with defaults
	log     *slog.Logger

	waiting    atomic.Int64 // blocks to be deleted, when the queue was walked last
	deleted    atomic.Int64 // blocks, since the start
	recoveries atomic.Int64 // files, since the start
	settled    atomic.Int64 // copies of unfinished blocks, since the start
}

// keepUp begins the upkeep of what a server's calls have.
func (l *life) keepUp(h *handlers, o Leases) error {
	o = o.withDefaults()
	nodes := newNodePools(h.keys)
	l.owns(nodes.close)
	h.leases = newLeases(o.Lease)
	h.upkeep = &upkeep{tree: h.tree, service: h.locations, nodes: nodes, leases: h.leases, options: o, log: l.log}
	wait, err := h.upkeep.start(l.serving)
	if err != nil {
		return err
	}
	l.owns(wait)
	return nil
}

// start takes up the leases of all who write, and begins the work, which ends with ctx; the
// returned function waits for that.
func (k *upkeep) start(ctx context.Context) (wait func() error, err error) {
	if _, err := k.survey(k.leases.grant); err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { (&recovery{upkeep: k, tries: map[uint64]*retry{}}).run(ctx) })
	running.Go(func() { newDrain(k).run(ctx) })
	running.Go(func() { k.settleUnfinished(ctx) })
	return func() error { running.Wait(); return nil }, nil
}

// surveyPage is how many files being written are read from the tree at a time.
const surveyPage = 1000

// survey returns the files being written. Each of their holders, but for the server itself, is
// handed to a function, once for each file.
func (k *upkeep) survey(holder func(muster.Holder)) (all []namespace.Writing, err error) {
	for after := uint64(0); ; after = all[len(all)-1].File {
		page, err := k.tree.Writings(after, surveyPage)
		if err != nil {
			return nil, err
		}
		for _, w := range page {
			if w.Holder != recoverer {
				holder(w.Holder)
			}
		}
		if all = append(all, page...); len(page) < surveyPage {
			return all, nil
		}
	}
}

// apply applies commands as the server itself, who may everything.
func (k *upkeep) apply(ctx context.Context, commands ...muster.Command) error {
	_, err := k.tree.Apply(ctx, namespace.Request{
		Caller: muster.Identity{User: serverUser, Groups: []string{muster.Supergroup}}, Commands: commands,
	})
	return err
}

// serverUser is as whom the server does its own work.
const serverUser = "muster"

// counters says how the upkeep is.
func (k *upkeep) counters() []*pb.Counter {
	return []*pb.Counter{
		counter("blocks_deleted", k.deleted.Load()),
		counter("blocks_settled", k.settled.Load()),
		counter("deletions_waiting", k.waiting.Load()),
		counter("leases", k.leases.count()),
		counter("leases_recovered", k.recoveries.Load()),
	}
}

// replicas returns the datanodes that have, or may have, a replica of a container: those it was made
// for and those that reported one, whatever became of them since. ErrNotFound: the location service
// does not know the container.
func replicas(ctx context.Context, s service, container uint64) ([]muster.Node, error) {
	reply, err := s.Container(ctx, &pb.ContainerRequest{Container: container})
	if err != nil {
		return nil, err
	}
	return nodesOf(container, reply, nil)
}

// holders are replicas, and those that were ordered to get one: they may have, or still get, any block
// of the container.
func holders(ctx context.Context, s service, container uint64) ([]muster.Node, error) {
	reply, err := s.Container(ctx, &pb.ContainerRequest{Container: container})
	if err != nil {
		return nil, err
	}
	return nodesOf(container, reply, reply.GetTargets())
}

// nodesOf returns the members of a container, those that reported it, and others of the table.
func nodesOf(container uint64, reply *pb.ContainerReply, others []uint32) ([]muster.Node, error) {
	nodes, err := rpc.NodesFromPB(reply.GetNodes())
	if err != nil {
		return nil, fmt.Errorf("container %d: %w", container, err)
	}
	at := slices.Concat(reply.GetMembers(), others)
	for _, r := range reply.GetReplicas() {
		at = append(at, r.GetNode())
	}
	numbers, err := rpc.NumbersAt(at, nodes)
	if err != nil {
		return nil, fmt.Errorf("container %d: %w", container, err)
	}
	has := make(map[muster.NodeNumber]bool, len(numbers))
	for _, n := range numbers {
		has[n] = true
	}
	var list []muster.Node
	for _, n := range nodes {
		if has[n.Number] {
			list = append(list, n)
		}
	}
	return list, nil
}

// The times between attempts at something that fails.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// retry is when to try again what has failed.
type retry struct {
	pause time.Duration // grows; 0: it has not failed
	next  time.Time
}

func (r *retry) due() bool { return !time.Now().Before(r.next) }

// failed notes a failure, and says whether it is the first in a row.
func (r *retry) failed() (first bool) {
	first = r.pause == 0
	r.pause = min(max(firstRetry, 2*r.pause), longestRetry)
	r.next = time.Now().Add(r.pause)
	return first
}

// sleep waits, and says whether ctx is still there.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package server

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

const (
	followWait  = 30 * time.Second       // a call waits for a new topology
	followGrace = 10 * time.Second       // it may take longer
	followPause = 100 * time.Millisecond // between two topologies, so that a cluster that starts does not keep the server busy
	followRetry = time.Second            // between attempts that fail
)

// follower keeps a namespace server's topology that of the location service.
type follower struct {
	log      *slog.Logger
	service  service
	topology *topology.Map
	cache    *locations.Cache

	boot, version uint64            // of the newest topology
	inUse         *pb.TopologyReply // the same, without what may differ though nothing has changed
	failing       bool              // the last attempt has failed
}

// follow begins to follow the service until ctx ends, in a goroutine that the returned
// function waits for. If the service is in this process, its topology is in use when follow returns.
func follow(ctx context.Context, log *slog.Logger, s service, m *topology.Map, cache *locations.Cache) (wait func() error) {
	f := &follower{log: log, service: s, topology: m, cache: cache}
	if _, here := s.(*locationCalls); here {
		f.note(f.step(ctx, 0))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	return func() error { <-done; return nil }
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.step(ctx, followWait)
		if ctx.Err() != nil {
			return
		}
		f.note(err)
		pause := followPause
		if err != nil {
			pause = followRetry
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// note logs when following begins to fail, and when it works again.
func (f *follower) note(err error) {
	switch {
	case err != nil && !f.failing:
		f.log.Warn("the topology is not up to date", "error", err)
	case err == nil && f.failing:
		f.log.Info("the topology is up to date again")
	}
	f.failing = err != nil
}

// step waits for a topology that is not in use, and takes it into use. The cache is told of the
// datanodes, so that a new address or state of one is in all answers at once.
func (f *follower) step(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait+followGrace)
	defer cancel()
	reply, err := f.service.Topology(ctx, &pb.TopologyRequest{Boot: f.boot, Version: f.version, WaitMs: wait.Milliseconds()})
	if err != nil || reply.GetUnchanged() {
		return err
	}
	tree, nodes, err := treeFromPB(reply)
	if err != nil {
		return err
	}
	f.cache.Learn(nodes)
	f.boot, f.version = reply.GetBoot(), reply.GetVersion()
	reply.Boot, reply.Version, reply.Warning = 0, 0, ""
	if proto.Equal(reply, f.inUse) {
		return nil // as after a restart of the service: what was worked out from the topology stays
	}
	f.topology.Swap(tree)
	f.inUse = reply
	f.log.Debug("a new topology", "version", f.version, "nodes", len(nodes))
	for _, skipped := range tree.Skipped() {
		f.log.Warn("a datanode has no place in the topology; it counts as far from everything", "node", skipped.Node.ID, "error", skipped.Err)
	}
	return nil
}

// treeFromPB makes a tree of what the service says.
func treeFromPB(reply *pb.TopologyReply) (*topology.Tree, []muster.Node, error) {
	var schema topology.Schema
	for _, l := range reply.GetLevels() {
		if l.GetCost() > math.MaxInt32 {
			return nil, nil, fmt.Errorf("%w: level %q of cost %d", muster.ErrCorrupt, l.GetName(), l.GetCost())
		}
		schema.Levels = append(schema.Levels, topology.Level{Name: l.GetName(), Cost: int32(l.GetCost()), Prefix: l.GetPrefix(), Default: l.GetDefaultName()})
	}
	rules := make([]topology.Rule, len(reply.GetRules()))
	for i, r := range reply.GetRules() {
		rules[i] = topology.Rule{Match: r.GetMatch(), Rack: r.GetRack()}
	}
	mapping, err := topology.NewMapping(rules)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := rpc.NodesFromPB(reply.GetNodes())
	if err != nil {
		return nil, nil, err
	}
	tree, err := topology.New(schema, nodes, mapping)
	return tree, nodes, err
}

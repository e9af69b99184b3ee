package registry

import (
	"context"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
)

// Snapshot is the topology at one time: what a follower makes its tree of. It is never changed.
type Snapshot struct {
	Boot    uint64 // of this start of the registry
	Version uint64 // of the topology since then, counting up from 1
	Schema  topology.Schema
	Nodes   []muster.Node   // by number
	Rules   []topology.Rule // by which clients get their racks
	Warning string          // why the newest mapping file is not in use; "": it is
}

// view is a snapshot as long as it is the newest.
type view struct {
	Snapshot
	changed chan struct{} // closed when there is a newer one
}

// publish makes the newest snapshot of what is in memory. The caller holds mu, or is the only one.
func (r *Registry) publish() {
	v := &view{changed: make(chan struct{})}
	v.Boot, v.Schema, v.Rules, v.Warning = r.boot, r.opts.Schema, r.mapping.Rules(), r.warning
	v.Nodes = make([]muster.Node, len(r.nodes))
	for i, n := range r.nodes {
		v.Nodes[i] = n.describe()
	}
	v.Version = 1
	if old := r.view.Load(); old != nil {
		v.Version = old.Version + 1
		defer close(old.changed)
	}
	r.view.Store(v)
}

// Topology returns the newest snapshot: at once if it is not the one of boot and version, else when
// there is a newer one, or wait is over. A follower that has none asks for boot 0.
func (r *Registry) Topology(ctx context.Context, boot, version uint64, wait time.Duration) (*Snapshot, error) {
	if err := r.alive(); err != nil {
		return nil, err
	}
	v := r.view.Load()
	if v.Boot != boot || v.Version != version || wait <= 0 {
		return &v.Snapshot, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-v.changed:
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.store.Failed():
		return nil, r.alive()
	case <-r.stop:
		return nil, r.alive()
	}
	return &r.view.Load().Snapshot, nil
}

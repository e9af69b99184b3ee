package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc"
)

// placedContainers is how many containers the files of a table are dealt out to: as many as a page has
// entries, so that no two of a page share one.
const placedContainers = 1000

// placed are containers for tables, on a simulated cluster. First the cluster has a registry in this
// process, in the folder in which a server's own registry is; then that of the server there.
type placed struct {
	cluster    *Cluster
	containers []uint64
	nodes      map[uint64][]string // the hosts of a container
	key        []byte              // of the cluster

	// In this process; nil after leave.
	registry *registry.Registry
	cache    *locations.Cache
	topology topology.Map
}

// place makes the containers, for a server whose data is in dir.
func place(ctx context.Context, dir string) (p *placed, err error) {
	p = &placed{key: make([]byte, rpc.ClusterKeyBytes), nodes: map[uint64][]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	_, _ = rand.Read(p.key) // it does not fail
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return p, err
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.key"), p.key, 0o600); err != nil {
		return p, err
	}
	if p.registry, err = registry.Open(filepath.Join(dir, "locations"), registry.Options{}); err != nil {
		return p, err
	}
	if p.cluster, err = NewCluster(ctx, p.registry, ClusterOptions{}); err != nil {
		return p, err
	}
	if p.containers, err = p.cluster.Make(ctx, muster.Replicated(3), placedContainers); err != nil {
		return p, err
	}
	for i := range p.cluster.Len() {
		for _, id := range p.cluster.Holds(i) {
			p.nodes[id] = append(p.nodes[id], p.cluster.Host(i))
		}
	}
	if p.cache, err = locations.New(p.registry, locations.Options{}); err != nil {
		return p, err
	}
	return p, p.follow(ctx)
}

// follow takes the topology into use, which does not change any more.
func (p *placed) follow(ctx context.Context) error {
	s, err := p.registry.Topology(ctx, 0, 0, 0)
	if err != nil {
		return err
	}
	mapping, err := topology.NewMapping(s.Rules)
	if err != nil {
		return err
	}
	tree, err := topology.New(s.Schema, s.Nodes, mapping)
	if err != nil {
		return err
	}
	p.cache.Learn(s.Nodes)
	p.topology.Swap(tree)
	return nil
}

// hosts are those that have a container.
func (p *placed) hosts(container uint64) []string { return p.nodes[container] }

// leave ends the registry in this process.
func (p *placed) leave() error {
	err := p.cluster.Leave()
	p.cache.Close()
	err = errors.Join(err, p.registry.Close())
	p.registry, p.cache = nil, nil
	return err
}

// join has the cluster join a server's registry, and waits until the server knows it.
func (p *placed) join(ctx context.Context, addr string, o client.Options) (err error) {
	if err := p.cluster.Rejoin(ctx, addr, p.key); err != nil {
		return err
	}
	c, err := client.Dial(ctx, addr, o)
	if err != nil {
		return err
	}
	return errors.Join(awaitTopology(ctx, c, p.cluster.Len()), c.Close())
}

// close ends what was begun.
func (p *placed) close() error {
	var errs []error
	if p.cluster != nil {
		errs = append(errs, p.cluster.Close())
	}
	if p.cache != nil {
		p.cache.Close()
	}
	if p.registry != nil {
		errs = append(errs, p.registry.Close())
	}
	return errors.Join(errs...)
}

package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// LocationsOptions configure a location service in a process of its own. Dir and KeyFile
// are required; the rest has a zero value that works.
type LocationsOptions struct {
	Dir     string // folder of the store; made if missing
	Listen  string // host:port; "" is 127.0.0.1:0: loopback, any free port
	KeyFile string // cluster key, that of all servers and datanodes of the cluster

	Tokens bool // blocks are read and written with tokens alone

	Registry registry.Options
	RPC      rpc.ServerOptions // its PeerKey comes from the cluster key
	Logger   *slog.Logger      // nil discards; also for the parts unless they have their own
}

// Validate names the first option that is out of bounds.
func (o LocationsOptions) Validate() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no data folder", muster.ErrInvalid)
	case o.KeyFile == "":
		return fmt.Errorf("%w: a location service has no callers but those that have its cluster key: set cluster.key_file, to the same file as theirs", muster.ErrInvalid)
	}
	return cmp.Or(o.Registry.Validate(), o.RPC.Validate())
}

// LocationServer is a running location service.
type LocationServer struct {
	*life
	registry *registry.Registry
}

// StartLocations opens the store, listens and serves. The context bounds the start alone.
func StartLocations(ctx context.Context, o LocationsOptions) (*LocationServer, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("start location service: %w", err)
	}
	s := &LocationServer{life: newLife(o.Logger)}
	if err := s.open(ctx, o); err != nil {
		return nil, s.abandon(err)
	}
	go s.run() // ends with the server: Done
	return s, nil
}

func (s *LocationServer) open(ctx context.Context, o LocationsOptions) error {
	key, err := ClusterKey(o.Dir, o.KeyFile, s.log)
	if err != nil {
		return err
	}
	if o.RPC.PeerKey, err = rpc.NewPeerKey(key); err != nil {
		return err
	}
	if o.RPC.Logger == nil {
		o.RPC.Logger = s.log
	}
	if o.Registry.Logger == nil {
		o.Registry.Logger = s.log
	}
	if s.registry, err = s.openRegistry(o.Dir, o.Registry); err != nil {
		return err
	}
	calls := &locationCalls{registry: s.registry, serving: s.serving, tokens: o.Tokens}
	if s.rpc, err = rpc.NewPeerServer(calls, pb.DRPCLocationsDescription{}, o.RPC); err != nil {
		return err
	}
	calls.rpc = s.rpc
	return s.listen(ctx, o.Listen)
}

// Registry is what the service answers from.
func (s *LocationServer) Registry() *registry.Registry { return s.registry }

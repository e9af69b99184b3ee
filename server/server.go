// Package server runs the servers of Muster: the namespace server, which has a tree, its
// listing, and the calls over them ([Start]); and the location service, if it has a process
// of its own ([StartLocations]).
//
// Both open their stores, listen and serve; Shutdown finishes the calls in progress and
// closes the stores. A server whose store fails stops by itself: watch Done, then ask
// Err. All of it is safe for concurrent use.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// Options configure a namespace server. Dir is required; the rest has a zero value that
// works.
type Options struct {
	Dir     string // folder of the stores and the cluster key; made if missing
	Listen  string // host:port; "" is 127.0.0.1:0: loopback, any free port
	KeyFile string // cluster key, 32 bytes raw or hexadecimal; "": Dir/cluster.key, made at the first start
	Version string // told to clients, for people

	Namespace namespace.Options
	Listing   listing.Config // a Key is taken instead of the key file
	Locations Locating
	Leases    Leases
	RPC       rpc.ServerOptions // its PeerKey comes from the cluster key
	Datanodes LocalDatanodes    // none unless their number is set
	Logger    *slog.Logger      // nil discards; also for the parts unless they have their own
}

// Validate names the first option that is out of bounds.
func (o Options) Validate() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no data folder", muster.ErrInvalid)
	case o.Locations.Server != "" && o.KeyFile == "" && len(o.Listing.Key) == 0:
		return fmt.Errorf("%w: the location service at %s has to know this server's cluster key: give both the same cluster.key_file", muster.ErrInvalid, o.Locations.Server)
	}
	return cmp.Or(o.Namespace.Validate(), o.Listing.Validate(), o.Locations.Validate(), o.Datanodes.validate(o.Locations.Server), o.Leases.Validate(), o.RPC.Validate())
}

// Server is a running namespace server.
type Server struct {
	*life
	locations *locating
	datanodes []*Datanode // in the same process
}

// Start opens the stores, listens and serves. The context bounds the start alone.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s := &Server{life: newLife(o.Logger)}
	if err := s.open(ctx, o); err != nil {
		return nil, s.abandon(err)
	}
	go s.run() // ends with the server: Done
	if err := s.startDatanodes(ctx, &o); err != nil {
		return nil, fmt.Errorf("start server: %w", errors.Join(err, s.abort()))
	}
	return s, nil
}

// open makes the parts.
func (s *Server) open(ctx context.Context, o Options) (err error) {
	o.Namespace.OnFatal = s.onFatal(o.Namespace.OnFatal)
	if o.Namespace.Logger == nil {
		o.Namespace.Logger = s.log
	}
	if o.RPC.Logger == nil {
		o.RPC.Logger = s.log
	}
	// The tree comes first: it finds out whose folder this is, and how old.
	tree, err := namespace.Open(o.Dir, o.Namespace)
	if err != nil {
		return err
	}
	s.owns(tree.Close)
	if len(o.Listing.Key) == 0 {
		if o.Listing.Key, err = ClusterKey(o.Dir, o.KeyFile, s.log); err != nil {
			return err
		}
	}
	if o.RPC.PeerKey, err = rpc.NewPeerKey(o.Listing.Key); err != nil {
		return err
	}
	if s.locations, err = s.life.locate(o); err != nil {
		return err
	}
	h := &handlers{
		tree: tree, cache: s.locations.cache, places: s.locations.places, topology: s.locations.topology, locations: s.locations.service, keys: s.locations.keys,
		log: s.log, version: o.Version, started: time.Now(),
	}
	if err := s.life.keepUp(h, o.Leases); err != nil {
		return err
	}
	o.Listing.Places, o.Listing.Topology = s.locations.places, s.locations.topology
	if h.lister, err = listing.New(tree, o.Listing); err != nil {
		return err
	}
	if h.compressor, err = rpc.NewCompressor(); err != nil {
		return err
	}
	if s.rpc, err = rpc.NewServer(h, pb.DRPCNamespaceDescription{}, o.RPC); err != nil {
		return err
	}
	h.rpc = s.rpc
	if err := s.rpc.HandleRaw(listPageCall, h.listPage); err != nil {
		return err
	}
	if own := s.locations.own; own != nil {
		if err := s.rpc.AddPeerService(own, pb.DRPCLocationsDescription{}); err != nil {
			return err
		}
	}
	return s.listen(ctx, o.Listen)
}

// Registry is what the server's own location service answers from; nil if it asks another.
func (s *Server) Registry() *registry.Registry { return s.locations.registry }

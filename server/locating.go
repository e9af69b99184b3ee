package server

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/locations/topology"
)

// Locating says where a namespace server finds out where blocks are. The zero value is a
// location service of its own.
type Locating struct {
	// Server is the host:port of a location service, which must have the same cluster key; "":
	// the server runs one of its own, for datanodes that know the key.
	Server string
	// Registry configures a service of its own, whose folder is Dir/locations.
	Registry registry.Options
	// Tokens says, of a service of its own, that blocks are read and written with tokens alone.
	Tokens bool
	// Cache is what the server keeps of the service's answers.
	Cache locations.Options
	// Wrap returns what the cache asks instead of the service, for tests that count, delay and
	// spoil the calls; nil: the service itself.
	Wrap func(locations.Source) locations.Source
	// Direct says that Stat, Locate, Open and List ask the service each time, and not the cache, as
	// Apache Ozone's did before HDDS-17731: what experiments hold the cache against.
	Direct bool
}

// Validate names the first option that is out of bounds.
func (o Locating) Validate() error {
	return cmp.Or(o.Registry.Validate(), o.Cache.Validate())
}

// patience is how long a location service may take for an answer: half of what a load may,
// so that the first to wait in vain learns why.
func (o Locating) patience() time.Duration {
	if t := o.Cache.LoadTimeout; t > 0 {
		return t / 2
	}
	return 5 * time.Second
}

// locating is what a namespace server has to find out where blocks are.
type locating struct {
	service  service
	cache    *locations.Cache
	places   listing.Places // the cache, or what is asked instead
	topology *topology.Map
	keys     *blockKeys
	registry *registry.Registry // of the server's own service, else nil
	own      *locationCalls     // the calls of that, else nil
}

// locate makes the parts that find out where blocks are.
func (l *life) locate(o Options) (*locating, error) {
	parts := &locating{topology: new(topology.Map)}
	var source locations.Source
	if o.Locations.Server == "" {
		r, err := l.openRegistry(filepath.Join(o.Dir, "locations"), registryOptions(o))
		if err != nil {
			return nil, err
		}
		parts.registry, parts.own = r, &locationCalls{registry: r, serving: l.serving, tokens: o.Locations.Tokens}
		parts.service, source = parts.own, r
	} else {
		remote := newRemote(o.Locations.Server, o.RPC.PeerKey, o.Locations.patience())
		l.owns(remote.close)
		parts.service, source = remote, remote
	}
	if o.Locations.Wrap != nil {
		source = o.Locations.Wrap(source)
	}
	cache, err := locations.New(source, o.Locations.Cache)
	if err != nil {
		return nil, err
	}
	l.owns(func() error { cache.Close(); return nil })
	parts.cache, parts.places = cache, cache
	if o.Locations.Direct {
		parts.places = direct{cache, source}
	}
	parts.keys = followBlockKeys(l.serving, l.log, parts.service.BlockKeys)
	l.owns(parts.keys.close)
	if parts.own != nil {
		_, _ = parts.keys.renewed(l.serving) // so that they are known when the server serves; why not is logged
	}
	l.owns(follow(l.serving, l.log, parts.service, parts.topology, cache))
	return parts, nil
}

// registryOptions are those of a namespace server's own registry, which keeps its store
// where the tree has its own.
func registryOptions(o Options) registry.Options {
	r := o.Locations.Registry
	if r.FS == nil {
		r.FS = o.Namespace.FS
	}
	if r.Logger == nil {
		r.Logger = o.Logger
	}
	return r
}

// openRegistry opens a registry that ends with the server, and the server with it.
func (l *life) openRegistry(dir string, o registry.Options) (*registry.Registry, error) {
	o.OnFatal = l.onFatal(o.OnFatal)
	r, err := registry.Open(dir, o)
	if err != nil {
		return nil, err
	}
	l.owns(r.Close)
	return r, nil
}

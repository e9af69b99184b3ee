package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fs/muster/configs"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

// roleAnnotation names, on a command of a server that is not a namespace server, the
// section of the configuration that its --listen and --data set.
const roleAnnotation = "role"

func newLocationsCommand(a *app) *cobra.Command {
	var parent parentFlags
	cmd := &cobra.Command{
		Use:   "locations --data DIR",
		Short: "Start a location service in a process of its own",
		Long: `Start a location service with its store in DIR: datanodes register with it and report what
they have, and namespace servers ask it where blocks are. Without one, muster up runs its
own. All of them need the same cluster.key_file, by which they know each other.

One line on standard output says that it is ready, and where; the log goes to standard
error. An interrupt or SIGTERM stops it, a second one kills it.`,
		Example: `  head -c 32 /dev/urandom > cluster.key && chmod 600 cluster.key
  MUSTER_CLUSTER_KEY_FILE=cluster.key muster locations --data DIR --listen 127.0.0.1:9401
  MUSTER_CLUSTER_KEY_FILE=cluster.key MUSTER_LOCATIONS_SERVER=127.0.0.1:9401 muster up`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{roleAnnotation: "locations"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return parent.run(cmd.Context(), a.stdin, a.locations) },
	}
	flags, d := cmd.Flags(), configs.Default().Locations
	flags.String("data", d.Data, "`DIR` of the store (MUSTER_LOCATIONS_DATA)")
	flags.String("listen", d.Listen, "`HOST:PORT` to listen on; port 0: any (MUSTER_LOCATIONS_LISTEN)")
	logFlags(flags)
	parent.add(flags)
	return cmd
}

// logFlags adds the flags of a server's log.
func logFlags(flags *pflag.FlagSet) {
	flags.String("log-level", "info", "`LEVEL` of the log: debug, info, warn or error (MUSTER_LOG_LEVEL)")
	flags.String("log-format", configs.Default().Log.Format, "`FORMAT` of the log: text or json (MUSTER_LOG_FORMAT)")
}

// locations serves until ctx ends or the service fails.
func (a *app) locations(ctx context.Context) error {
	logger := newLogger(a.stderr, a.config.Log)
	options, err := locationsOptions(a.config, logger)
	if err != nil {
		return err
	}
	if options.Tokens, err = a.locationsTokens(ctx); err != nil {
		return err
	}
	s, err := server.StartLocations(ctx, options)
	if err != nil {
		return err
	}
	sayTokens(logger, s.Addr(), options.Tokens)
	return a.serve(ctx, s, "muster locations", options.Dir, logger)
}

func locationsOptions(c configs.Config, logger *slog.Logger) (server.LocationsOptions, error) {
	dir, err := filepath.Abs(c.Locations.Data)
	return server.LocationsOptions{
		Dir:      dir,
		Listen:   c.Locations.Listen,
		KeyFile:  c.Cluster.KeyFile,
		Registry: registryOptions(c.Locations),
		RPC:      rpc.ServerOptions{MaxConnections: c.Server.MaxConnections, MaxCalls: c.Server.MaxCalls},
		Logger:   logger,
	}, err
}

func registryOptions(l configs.Locations) registry.Options {
	o := registry.Options{
		MappingFile:     l.RackFile,
		Heartbeat:       time.Duration(l.Heartbeat),
		StaleAfter:      time.Duration(l.StaleAfter),
		DeadAfter:       time.Duration(l.DeadAfter),
		ReportGrace:     time.Duration(l.ReportGrace),
		ContainerBlocks: l.ContainerBlocks,
		OpenContainers:  l.OpenContainers,

		MaxCopies:        l.Copies,
		MaxCopiesPerNode: l.CopiesPerNode,
		ReplicaGrace:     time.Duration(l.ReplicaGrace),
	}
	for _, level := range l.Levels {
		o.Schema.Levels = append(o.Schema.Levels, topology.Level{Name: level.Name, Cost: int32(level.Cost), Prefix: level.Prefix, Default: level.Default})
	}
	return o
}

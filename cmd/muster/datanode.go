package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/configs"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

func newDatanodeCommand(a *app) *cobra.Command {
	var parent parentFlags
	cmd := &cobra.Command{
		Use:   "datanode --data DIR[,DIR...] --locations HOST:PORT",
		Short: "Start a datanode in a process of its own",
		Long: `Start a datanode, which keeps blocks in the folders DIR, each on a disk of its own. It joins
the location service at --locations: that of muster up has the same address as the server. It
needs the cluster.key_file of the servers. Its id, made at the first start, is kept in the
folders; their blocks belong to it, whatever its host and port are.

One line on standard output says that it is ready, and where, once the location service knows
it; the log goes to standard error. An interrupt or SIGTERM stops it, a second one kills it.`,
		Example: `  export MUSTER_CLUSTER_KEY_FILE=cluster.key
  muster datanode --data /disk1,/disk2 --locations 127.0.0.1:9400 --listen 10.0.0.7:9402 --rack /r1`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{roleAnnotation: "datanode"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return parent.run(cmd.Context(), a.stdin, a.datanode) },
	}
	flags, d := cmd.Flags(), configs.Default().Datanode
	flags.String("data", strings.Join(d.Data, ","), "`DIR` of the blocks, or several, one on each disk (MUSTER_DATANODE_DATA)")
	flags.String("listen", d.Listen, "`HOST:PORT` to listen on; port 0: any (MUSTER_DATANODE_LISTEN)")
	flags.String("locations", "", "`HOST:PORT` of the location service (MUSTER_LOCATIONS_SERVER)")
	flags.String("host", "", "`HOST` that readers and writers dial, unless it is that of --listen (MUSTER_DATANODE_HOST)")
	flags.String("rack", "", "network `LOCATION`, like /rack7 (MUSTER_DATANODE_RACK)")
	logFlags(flags)
	parent.add(flags)
	return cmd
}

// datanode serves until ctx ends or the datanode fails.
func (a *app) datanode(ctx context.Context) error {
	logger := newLogger(a.stderr, a.config.Log)
	options, err := datanodeOptions(a.config, logger)
	if err != nil {
		return err
	}
	s, err := server.StartDatanode(ctx, options)
	if err != nil {
		return err
	}
	return a.serve(ctx, s, "muster datanode", strings.Join(options.Dirs, ","), logger)
}

// datanodeOptions are those of a datanode in a process of its own.
func datanodeOptions(c configs.Config, logger *slog.Logger) (server.DatanodeOptions, error) {
	o := sharedDatanodeOptions(c, logger)
	o.Listen, o.Host, o.Locations = c.Datanode.Listen, c.Datanode.Host, c.Locations.Server
	var errs []error
	for _, dir := range c.Datanode.Data {
		dir, err := filepath.Abs(dir)
		o.Dirs, errs = append(o.Dirs, dir), append(errs, err)
	}
	return o, errors.Join(errs...)
}

// sharedDatanodeOptions are those of every datanode.
func sharedDatanodeOptions(c configs.Config, logger *slog.Logger) server.DatanodeOptions {
	return server.DatanodeOptions{
		Rack:      c.Datanode.Rack,
		KeyFile:   c.Cluster.KeyFile,
		Superuser: c.Namespace.Superuser,
		Store: store.Options{
			Reserve:    int64(c.Datanode.Reserve),
			ScrubRate:  int64(c.Datanode.ScrubRate),
			ScrubEvery: time.Duration(c.Datanode.ScrubEvery),
		},
		RPC:      rpc.ServerOptions{MaxConnections: c.Server.MaxConnections, MaxCalls: c.Server.MaxCalls},
		Copies:   c.Datanode.Copies,
		CopyRate: int64(c.Datanode.CopyRate),
		Logger:   logger,
	}
}

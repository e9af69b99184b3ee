package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fs/muster/configs"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

func newUpCommand(a *app) *cobra.Command {
	var (
		parent parentFlags
		direct bool
	)
	cmd := &cobra.Command{
		Use:   "up --data DIR",
		Short: "Start a server",
		Long: `Start a server with its store in DIR, which is made if it is missing, and datanodes in the same
process, each with a folder of its own below it. One line on standard output says that it is
ready, and where; the log goes to standard error. An interrupt or SIGTERM stops it: calls in
progress are finished first. A second one kills it.

A server that asks a location service elsewhere (locations.server) has no datanodes: they are
processes of their own, see muster datanode.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("datanodes") && a.config.Locations.Server != "" && a.config.Datanode.Count > 0 {
				return fmt.Errorf("--datanodes %d, and locations.server is %s: datanodes of that location service are processes of their own, see muster datanode", a.config.Datanode.Count, a.config.Locations.Server)
			}
			return parent.run(cmd.Context(), a.stdin, func(ctx context.Context) error { return a.up(ctx, direct) })
		},
	}
	serverFlags(cmd.Flags())
	cmd.Flags().Int("datanodes", configs.Default().Datanode.Count, "`NUMBER` of datanodes in this process; 0: none (MUSTER_DATANODES)")
	parent.add(cmd.Flags())
	cmd.Flags().BoolVar(&direct, "direct", false, "ask the location service each time, and no cache")
	_ = cmd.Flags().MarkHidden("direct") // it exists; experiments use it
	return cmd
}

// serverFlags adds the flags of the server's configuration.
func serverFlags(flags *pflag.FlagSet) {
	d := configs.Default()
	flags.String("data", d.Data, "`DIR` of the store (MUSTER_DATA)")
	flags.String("listen", d.Server.Listen, "`HOST:PORT` to listen on; port 0: any (MUSTER_LISTEN)")
	logFlags(flags)
}

// up serves until ctx ends or the server fails. If it is direct it has no use for the cache of
// locations.
func (a *app) up(ctx context.Context, direct bool) error {
	logger := newLogger(a.stderr, a.config.Log)
	options, err := serverOptions(a.config, logger)
	if err != nil {
		return err
	}
	options.Locations.Direct = direct
	if options.Locations.Tokens, err = a.upTokens(ctx); err != nil {
		return err
	}
	data := options.Dir
	if n := options.Datanodes.Count; n > 0 {
		data = fmt.Sprintf("%s, with %d datanodes", data, n)
	}
	s, err := server.Start(ctx, options)
	if err != nil {
		return err
	}
	if limit, ok := limitMemory(options.Namespace); ok {
		logger.Info("memory", "limit", limit)
	}
	if options.Locations.Server == "" { // else the service there decides
		sayTokens(logger, s.Addr(), options.Locations.Tokens)
	}
	if !isLoopback(s.Addr()) {
		logger.Warn("other machines can connect, and callers are believed who they say they are: trust everybody on that network, or use --listen 127.0.0.1:PORT", "address", s.Addr())
	}
	return a.serve(ctx, s, "muster", data, logger)
}

// running is a server of whatever role that has started.
type running interface {
	Addr() net.Addr
	Done() <-chan struct{}
	Shutdown(context.Context) error
}

// serve says that a server is ready, and stops it when ctx ends, unless it ends before.
func (a *app) serve(ctx context.Context, s running, name, dir string, logger *slog.Logger) error {
	if _, err := fmt.Fprintf(a.stdout, "%s is ready on %s, data in %s\n", name, s.Addr(), dir); err != nil {
		return errors.Join(err, a.stop(s))
	}
	select {
	case <-ctx.Done():
		logger.Info("stopping", "timeout", a.config.Server.StopTimeout)
	case <-s.Done():
	}
	return a.stop(s)
}

// limitMemory bounds the memory of the process by what its tree may keep, unless the environment
// says how the garbage collector shall work.
func limitMemory(o namespace.Options) (limit int64, ok bool) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return 0, false
	}
	limit = o.MemoryLimit()
	debug.SetMemoryLimit(limit)
	return limit, true
}

// isLoopback says whether only this machine can connect to addr.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// stop shuts the server down. One that has ended by itself says why.
func (a *app) stop(s running) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.config.Server.StopTimeout))
	defer cancel()
	return s.Shutdown(ctx)
}

func serverOptions(c configs.Config, logger *slog.Logger) (server.Options, error) {
	dir, err := filepath.Abs(c.Data)
	datanodes := server.LocalDatanodes{Count: c.Datanode.Count, Options: sharedDatanodeOptions(c, logger)}
	datanodes.Options.Host = c.Datanode.Host
	if c.Locations.Server != "" {
		datanodes.Count = 0
	}
	return server.Options{
		Dir:     dir,
		Listen:  c.Server.Listen,
		KeyFile: c.Cluster.KeyFile,
		Version: version(),
		Namespace: namespace.Options{
			CacheBytes:    int64(c.Namespace.CacheSize),
			ImageBytes:    int64(c.Namespace.ImageSize),
			MemTableBytes: int64(c.Namespace.MemTableSize),
			Superuser:     c.Namespace.Superuser,
			RequestAge:    time.Duration(c.Namespace.RequestAge),
			RequestMax:    c.Namespace.RequestMax,
		},
		Leases: server.Leases{Lease: time.Duration(c.Namespace.Lease)},
		Listing: listing.Config{
			MaxPaths:    c.Listing.MaxPaths,
			Limit:       c.Listing.Limit,
			MaxLimit:    c.Listing.MaxLimit,
			PageBytes:   int(c.Listing.PageSize),
			SnapshotAge: time.Duration(c.Listing.SnapshotAge),
		},
		Locations: server.Locating{
			Server:   c.Locations.Server,
			Registry: registryOptions(c.Locations),
			Cache:    locations.Options{Size: c.Locations.CacheSize, TTL: time.Duration(c.Locations.CacheTTL)},
		},
		RPC: rpc.ServerOptions{
			MaxConnections: c.Server.MaxConnections,
			MaxCalls:       c.Server.MaxCalls,
		},
		Datanodes: datanodes,
		Logger:    logger,
	}, err
}

func newLogger(w io.Writer, c configs.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level, ReplaceAttr: plainErrors}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// plainErrors keeps errors to their text: the text handler would add the stacks that some
// of them carry.
func plainErrors(_ []string, attr slog.Attr) slog.Attr {
	if err, ok := attr.Value.Any().(error); ok {
		attr.Value = slog.StringValue(err.Error())
	}
	return attr
}

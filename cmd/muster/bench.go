package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/bench"
)

func newBenchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure each idea against what it replaces",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchListingCommand(a), newBenchScaleCommand(a), newBenchWritersCommand(a), newBenchTopologyCommand(a), newBenchLocationsCommand(a), newBenchResolveCommand(a), newBenchPreadsCommand(a), newBenchDelayCommand(a), newBenchServeFileCommand(a))
	return cmd
}

// benchProgress shows a person how far a benchmark is.
func (a *app) benchProgress(ctx context.Context) bench.Progress {
	return func(title string, parts int) (func(int), func()) {
		bar := a.startBar(ctx, title, parts)
		return bar.set, bar.stop
	}
}

func newBenchDelayCommand(a *app) *cobra.Command {
	var (
		listen string
		proxy  bench.Proxy
		parent parentFlags
	)
	cmd := &cobra.Command{
		Use:   "delay --to HOST:PORT",
		Short: "Pass connections on, with a longer round trip",
		Long: `Pass connections on to another address, and add to their round-trip time as a longer wire
would: every byte arrives later by half of it, in order, and whatever is on its way
meanwhile. One line on standard output says that it is ready, and where.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(proxy.Target); err != nil {
				return usagef("--to: %q is no address; write it as HOST:PORT", proxy.Target)
			}
			if proxy.RoundTrip < 0 {
				return usagef("--round-trip %v: use 0 or more", proxy.RoundTrip)
			}
			return parent.run(cmd.Context(), a.stdin, func(ctx context.Context) error {
				return a.delay(ctx, &proxy, listen)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&proxy.Target, "to", "", "`HOST:PORT` to pass connections on to")
	flags.StringVar(&listen, "listen", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0: any")
	flags.DurationVar(&proxy.RoundTrip, "round-trip", time.Millisecond, "`TIME` to add to each round trip")
	parent.add(flags)
	return cmd
}

func (a *app) delay(ctx context.Context, proxy *bench.Proxy, listen string) error {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, "muster is ready on %s, %v away from %s\n", lis.Addr(), proxy.RoundTrip, proxy.Target); err != nil {
		return errors.Join(err, lis.Close())
	}
	return proxy.Serve(ctx, lis)
}

// refuseServer refuses the flags of other people's servers, for an experiment that has its own,
// or needs none.
func refuseServer(cmd *cobra.Command) error {
	for _, name := range []string{"server", "user", "groups"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s: this experiment is not for a server that runs already; leave the flag out", name)
		}
	}
	return nil
}

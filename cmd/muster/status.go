package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/client"
)

func newStatusCommand(a *app) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the server is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.status(cmd.Context(), output.format == formatJSON)
		},
	}
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// statusReport is what status -o json prints.
type statusReport struct {
	Server     string             `json:"server"`
	Version    string             `json:"version"`
	Started    int64              `json:"started"` // ms since the epoch
	Txid       uint64             `json:"txid"`
	Inodes     uint64             `json:"inodes"`
	Reclaiming uint64             `json:"reclaiming"`
	Requests   uint64             `json:"requests"`
	StoreBytes uint64             `json:"store_bytes"`
	Counters   map[string]float64 `json:"counters"`
}

func (a *app) status(ctx context.Context, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if !asJSON {
		return a.printStatus(s)
	}
	report := statusReport{
		Server: a.config.Client.Server, Version: s.Version, Started: s.Started.UnixMilli(), Txid: s.Txid, Inodes: s.Inodes,
		Reclaiming: s.Reclaiming, Requests: s.Requests, StoreBytes: s.StoreBytes, Counters: map[string]float64{},
	}
	for _, counter := range s.Counters {
		report.Counters[counter.Name] = counter.Value
	}
	return json.NewEncoder(a.stdout).Encode(report)
}

func (a *app) printStatus(s client.Status) error {
	up := time.Since(s.Started).Round(time.Second)
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "server\t%s, version %s\n", a.config.Client.Server, s.Version)
	fmt.Fprintf(table, "started\t%s (%s ago)\n", s.Started.Format(time.DateTime), up)
	fmt.Fprintf(table, "last transaction\t%d\n", s.Txid)
	fmt.Fprintf(table, "inodes\t%d\n", s.Inodes)
	fmt.Fprintf(table, "trees being reclaimed\t%d\n", s.Reclaiming)
	fmt.Fprintf(table, "remembered requests\t%d\n", s.Requests)
	fmt.Fprintf(table, "store on disk\t%s (%d bytes)\n", humanSize(int64(s.StoreBytes)), s.StoreBytes)
	for _, counter := range s.Counters {
		fmt.Fprintf(table, "%s\t%s\n", counter.Name, figure(counter.Value))
	}
	return table.Flush()
}

// figure writes a counter without an exponent, and of a fraction six digits at most.
func figure(value float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(value, 'f', 6, 64), "0"), ".")
}

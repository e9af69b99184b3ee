package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func newAdminCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Look after datanodes and containers",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newDatanodesCommand(a),
		newTopologyCommand(a),
		newContainerCommand(a),
		newDrainCommand(a),
		newUndrainCommand(a),
		newScrubCommand(a),
	)
	return cmd
}

func newDatanodesCommand(a *app) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "datanodes",
		Short: "List the datanodes: state, rack, containers, space, age of the last heartbeat",
		Long: `List every datanode that has ever registered. Its state is in-service, draining,
maintenance, stale (its heartbeats are late) or dead (they have ended); what operators
want of one that is stale or dead is in brackets. Space is that of its disks, but for those
that have failed: in all, used by blocks, and free for more. Why a disk has failed follows.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.datanodes(cmd.Context(), output.format == formatJSON)
		},
	}
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// answered returns an error without the name of the call, which the verb says too. What is
// not there is no file.
func answered(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if text, ok := strings.CutPrefix(err.Error(), muster.ErrNotFound.Error()+": "); ok {
		return errors.New(text)
	}
	return err
}

// nodeReport is a datanode as -o json prints it.
type nodeReport struct {
	Number   uint32 `json:"number"`
	ID       string `json:"id"`
	Host     string `json:"host"`
	Address  string `json:"address"`
	Port     uint16 `json:"port"`
	HTTPPort uint16 `json:"http_port"`
	Rack     string `json:"rack"`
	State    string `json:"state"`
}

func reportNode(n *muster.Node) nodeReport {
	return nodeReport{uint32(n.Number), n.ID, n.Host, n.Address, n.Port, n.HTTPPort, n.Rack, n.State.String()}
}

// datanodeReport is a line of datanodes -o json.
type datanodeReport struct {
	nodeReport
	Wanted       string `json:"wanted"`
	Health       string `json:"health"`
	Containers   uint64 `json:"containers"`
	Reported     bool   `json:"reported"`
	HeartbeatAge *int64 `json:"heartbeat_age_ms"` // null: none yet
	spaceReport
}

func reportDatanode(d *client.Datanode) datanodeReport {
	health := "healthy"
	if d.Health != muster.InService {
		health = d.Health.String()
	}
	r := datanodeReport{nodeReport: reportNode(&d.Node), Wanted: d.Wanted.String(), Health: health, Containers: d.Containers, Reported: d.Reported, spaceReport: reportSpace(d)}
	if d.HeartbeatAge >= 0 {
		ms := d.HeartbeatAge.Milliseconds()
		r.HeartbeatAge = &ms
	}
	return r
}

func (a *app) datanodes(ctx context.Context, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	nodes, err := c.Datanodes(ctx)
	if err != nil {
		return answered(err)
	}
	out := bufio.NewWriterSize(a.stdout, outputBuffer)
	if asJSON {
		lines := json.NewEncoder(out)
		for i := range nodes {
			if err := lines.Encode(reportDatanode(&nodes[i])); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tADDRESS\tRACK\tSTATE\tCONTAINERS\tCAPACITY\tUSED\tFREE\tDISKS\tHEARTBEAT")
	for i := range nodes {
		d := &nodes[i]
		containers := strconv.FormatUint(d.Containers, 10)
		if !d.Reported {
			containers += " so far"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", shown(d.ID), nodeAddress(&d.Node), shown(d.Rack), datanodeState(d), containers, spaceColumns(d), ago(d.HeartbeatAge))
	}
	if err := errors.Join(table.Flush(), out.Flush()); err != nil {
		return err
	}
	for i := range nodes {
		for _, k := range nodes[i].Disks {
			if k.State == muster.DiskFailed {
				a.errorf("%s: disk %s has failed: %s", shown(nodes[i].ID), shown(k.Name), shown(k.Message))
			}
		}
	}
	return nil
}

// nodeAddress is where readers dial.
func nodeAddress(n *muster.Node) string {
	host := n.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return shown(host + ":" + strconv.Itoa(int(n.Port)))
}

func datanodeState(d *client.Datanode) string {
	if d.Wanted != muster.InService && d.State != d.Wanted {
		return fmt.Sprintf("%s (%s)", d.State, d.Wanted)
	}
	return d.State.String()
}

// ago writes an age; a negative one is of what never was.
func ago(age time.Duration) string {
	switch {
	case age < 0:
		return "none yet"
	case age < 10*time.Second:
		return age.Round(100*time.Millisecond).String() + " ago"
	}
	return age.Round(time.Second).String() + " ago"
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/client"
)

func newContainerCommand(a *app) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "container ID",
		Short: "Show all that is known of a container",
		Long: `Show a container, and a line for each datanode that has to do with it: whether it was chosen
when the container was made, what it has reported, and whether readers are told of it. Blocks
are those that are committed; damaged ones are found by the datanode itself.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return usagef("%q is no container; give its number", args[0])
			}
			return a.container(cmd.Context(), id, output.format == formatJSON)
		},
	}
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// containerReport is what container -o json prints.
type containerReport struct {
	Container   uint64             `json:"container"`
	Replication string             `json:"replication"`
	State       string             `json:"state"` // open or closed
	NextLocalID uint64             `json:"next_local_id"`
	Error       string             `json:"error,omitempty"` // why readers are told nothing
	Nodes       []containerNodeRow `json:"nodes"`
}

// containerNodeRow is a datanode that has to do with a container.
type containerNodeRow struct {
	nodeReport
	Index   uint32 `json:"index"`   // erasure-coded: of the replica, from 1; else 0
	Member  bool   `json:"member"`  // chosen when the container was made
	Replica string `json:"replica"` // as reported: open, closed, or none
	Located bool   `json:"located"` // readers are told of it
	Blocks  uint64 `json:"blocks"`  // as reported: committed ones
	Bytes   uint64 `json:"bytes"`   // of them
	Damaged uint64 `json:"damaged"` // of them
	address string
}

func (a *app) container(ctx context.Context, id uint64, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	k, err := c.Container(ctx, id)
	if err != nil {
		return answered(err)
	}
	report := reportContainer(&k)
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(report)
	}
	return a.printContainer(&report)
}

func reportContainer(k *client.Container) containerReport {
	r := containerReport{Container: k.ID, Replication: k.Replication.String(), State: openOrClosed(k.Closed), NextLocalID: k.NextLocalID}
	if k.Err != nil {
		r.Error = reason(k.Err)
	}
	_, _, coded := k.Replication.Coding()
	for i := range k.Nodes {
		n := &k.Nodes[i]
		row := containerNodeRow{nodeReport: reportNode(n), Replica: "none", address: nodeAddress(n)}
		if at := slices.Index(k.Members, n.Number); at >= 0 {
			row.Member = true
			if coded {
				row.Index = uint32(at) + 1
			}
		}
		row.Located = slices.Contains(k.Located, n.Number)
		for _, replica := range k.Replicas {
			if replica.Node == n.Number {
				row.Replica, row.Index = openOrClosed(replica.Closed), replica.Index
				row.Blocks, row.Bytes, row.Damaged = replica.Blocks, replica.Bytes, replica.Damaged
			}
		}
		r.Nodes = append(r.Nodes, row)
	}
	slices.SortStableFunc(r.Nodes, func(x, y containerNodeRow) int { return int(x.Index) - int(y.Index) })
	return r
}

func openOrClosed(closed bool) string {
	if closed {
		return "closed"
	}
	return "open"
}

func (a *app) printContainer(r *containerReport) error {
	head := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(head, "container\t%d\n", r.Container)
	fmt.Fprintf(head, "replication\t%s\n", r.Replication)
	fmt.Fprintf(head, "state\t%s\n", r.State)
	fmt.Fprintf(head, "next block\t%d\n", r.NextLocalID)
	if r.Error != "" {
		fmt.Fprintf(head, "readers are told\t%s\n", r.Error)
	}
	if err := head.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "INDEX\tID\tADDRESS\tRACK\tSTATE\tCHOSEN\tREPORTED\tREADERS\tBLOCKS\tBYTES\tDAMAGED")
	for i := range r.Nodes {
		n := &r.Nodes[i]
		index := "-"
		if n.Index > 0 {
			index = strconv.Itoa(int(n.Index))
		}
		blocks, bytes, damaged := "-", "-", "-"
		if n.Replica != "none" {
			blocks, bytes, damaged = strconv.FormatUint(n.Blocks, 10), humanSize(int64(min(n.Bytes, math.MaxInt64))), strconv.FormatUint(n.Damaged, 10)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			index, shown(n.ID), n.address, shown(n.Rack), n.State, yes(n.Member), n.Replica, yes(n.Located), blocks, bytes, damaged)
	}
	return table.Flush()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func newDrainCommand(a *app) *cobra.Command {
	var output outputFlags
	wanted := muster.Draining
	var maintenance bool
	cmd := &cobra.Command{
		Use:   "drain [--maintenance] NODE...",
		Short: "Take datanodes out of service: no new blocks go there",
		Long: `Take datanodes out of service. No new blocks go to them, and what they have is copied to
others, and can be read meanwhile. They may be switched off when the location service's
counter containers_under_replicated is 0. A datanode is named by its id, or by its host if
no other is there. The state is kept until undrain takes it back, also while the datanode is
gone. Only a superuser may do this.

With --maintenance its absence is planned, and short: it comes back with what it has, and
nothing is copied meanwhile, however long it is away.`,
		Example: `  muster admin drain dn7.example
  muster admin undrain dn7.example`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeNodes(func(d *client.Datanode) bool { return d.Wanted == muster.InService }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if maintenance {
				wanted = muster.Maintenance
			}
			return a.setNodeStates(cmd.Context(), args, wanted, output.format == formatJSON)
		},
	}
	cmd.Flags().BoolVar(&maintenance, "maintenance", false, "for maintenance, and not for good")
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

func newUndrainCommand(a *app) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:               "undrain NODE...",
		Aliases:           []string{"uncordon", "recommission"},
		Short:             "Take drained datanodes back into service",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeNodes(func(d *client.Datanode) bool { return d.Wanted != muster.InService }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setNodeStates(cmd.Context(), args, muster.InService, output.format == formatJSON)
		},
	}
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// setNodeStates sets the state of each node. One that fails does not keep the others.
func (a *app) setNodeStates(ctx context.Context, nodes []string, wanted muster.NodeState, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		d, err := c.SetNodeState(ctx, node, wanted)
		switch {
		case errors.Is(err, muster.ErrPermission):
			return answered(err)
		case err != nil:
			a.fail(node, answered(err))
			continue
		case asJSON:
			err = json.NewEncoder(a.stdout).Encode(reportDatanode(&d))
		default:
			_, err = fmt.Fprintf(a.stdout, "%s is %s\n", shown(d.ID), datanodeState(&d))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

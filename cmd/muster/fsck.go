package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/client"
)

func newFsckCommand(a *app) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check the server's whole store",
		Long: `Check every record of the server's store: one line for each problem, and a summary. The
exit code is 1 if there are problems. The server goes on serving meanwhile.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.fsck(cmd.Context(), output.format == formatJSON)
		},
	}
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// fsckProblem and fsckSummary are the lines of fsck -o json.
type fsckProblem struct {
	Kind    string `json:"kind"`
	Inode   uint64 `json:"inode"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

type fsckSummary struct {
	Inodes      uint64 `json:"inodes"`
	Directories uint64 `json:"directories"`
	Files       uint64 `json:"files"`
	Links       uint64 `json:"links"`
	Reclaiming  uint64 `json:"reclaiming"`
	Problems    uint64 `json:"problems"`
}

func (a *app) fsck(ctx context.Context, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	out := json.NewEncoder(a.stdout)
	summary, err := c.Fsck(ctx, func(p client.Problem) error {
		if asJSON {
			return out.Encode(fsckProblem{p.Kind, p.ID, p.Path, p.Message})
		}
		_, err := fmt.Fprintf(a.stdout, "%s: inode %d, %s: %s\n", p.Kind, p.ID, shown(p.Path), p.Message)
		return err
	})
	if err != nil {
		return err
	}
	a.failed = summary.Problems > 0
	if asJSON {
		return out.Encode(fsckSummary{summary.Inodes, summary.Directories, summary.Files, summary.Links, summary.Reclaiming, summary.Problems})
	}
	_, err = fmt.Fprintf(a.stdout, "%d inodes (%d directories, %d files, %d links), %d being reclaimed, %d problems\n",
		summary.Inodes, summary.Directories, summary.Files, summary.Links, summary.Reclaiming, summary.Problems)
	return err
}

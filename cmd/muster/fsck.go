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
exit code is 1 if there are problems. The server goes on serving meanwhile. Only a
superuser may do this.`,
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
	summary, err := c.Fsck(ctx, func(p client.Problem) error { return a.printProblem(p, asJSON) })
	if err != nil {
		return err
	}
	return a.printChecked(summary, asJSON)
}

func (a *app) printProblem(p client.Problem, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(fsckProblem{p.Kind, p.ID, p.Path, p.Message})
	}
	_, err := fmt.Fprintf(a.stdout, "%s: inode %d, %s: %s\n", p.Kind, p.ID, shown(p.Path), p.Message)
	return err
}

// printChecked ends a check. One that found problems fails.
func (a *app) printChecked(s client.FsckSummary, asJSON bool) error {
	a.failed = s.Problems > 0
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(fsckSummary{s.Inodes, s.Directories, s.Files, s.Links, s.Reclaiming, s.Problems})
	}
	_, err := fmt.Fprintf(a.stdout, "%d inodes (%d directories, %d files, %d links), %d being reclaimed, %d problems\n",
		s.Inodes, s.Directories, s.Files, s.Links, s.Reclaiming, s.Problems)
	return err
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/client"
)

func newFsckCommand(a *app) *cobra.Command {
	var output outputFlags
	var blocks bool
	cmd := &cobra.Command{
		Use:   "fsck [--blocks [PATH]]",
		Short: "Check the server's whole store, or the blocks of files",
		Long: `Check every record of the server's store: one line for each problem, and a summary. The
exit code is 1 if there are problems of whatever kind. The server goes on serving meanwhile.
Only a superuser may do this.

With --blocks it is what the datanodes have that is checked, of all files or those below
PATH: a line for each block that is

  missing           no datanode that answers has it
  damaged           a replica is, as a datanode's scrubber found (muster admin scrub)
  length            a replica is shorter than the file says
  under-replicated  fewer replicas are whole than the file's replication says

and what else is wrong is on the same line. A datanode that is down is named once
(unreachable), if replicas on it are missed. All datanodes with blocks of the files are
asked, so this takes its time. Files that are metadata only are fine; the last block of a
file that is being written, and erasure-coded files, are not judged.`,
		Example: `  muster fsck
  muster fsck --blocks /data
  muster fsck --blocks -o json | jq 'select(.kind == "missing") | .path'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !blocks {
				return errors.New("the whole store is checked; with --blocks it may be what is below a path")
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		ValidArgsFunction: a.completeAfter(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			asJSON := output.format == formatJSON
			if !blocks {
				return a.fsck(cmd.Context(), asJSON)
			}
			path := "/"
			if len(args) > 0 {
				path = args[0]
			}
			return a.fsckBlocks(cmd.Context(), resolve(path), asJSON)
		},
	}
	cmd.Flags().BoolVar(&blocks, "blocks", false, "check what datanodes have of the files")
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// fsckProblem, and fsckSummary or blocksSummary, are the lines of fsck -o json.
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

type blocksSummary struct {
	Directories     uint64 `json:"directories"`
	Files           uint64 `json:"files"`
	Blocks          uint64 `json:"blocks"`
	Missing         uint64 `json:"missing"`
	Damaged         uint64 `json:"damaged"`
	WrongLength     uint64 `json:"length"`
	UnderReplicated uint64 `json:"under_replicated"`
	Problems        uint64 `json:"problems"`
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

func (a *app) fsckBlocks(ctx context.Context, path string, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	s, err := c.FsckBlocks(ctx, path, func(p client.Problem) error { return a.printProblem(p, asJSON) })
	if err != nil {
		return answered(err)
	}
	a.failed = s.Problems > 0
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(blocksSummary{s.Directories, s.Files, s.Blocks, s.Missing, s.Damaged, s.WrongLength, s.UnderReplicated, s.Problems})
	}
	_, err = fmt.Fprintf(a.stdout, "%d blocks of %d files in %d directories: %d missing, %d damaged, %d of wrong length, %d under-replicated; %d problems\n",
		s.Blocks, s.Files, s.Directories, s.Missing, s.Damaged, s.WrongLength, s.UnderReplicated, s.Problems)
	return err
}

func (a *app) printProblem(p client.Problem, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(fsckProblem{p.Kind, p.ID, p.Path, p.Message})
	}
	if p.ID == 0 && p.Path == "" {
		_, err := fmt.Fprintf(a.stdout, "%s: %s\n", p.Kind, shown(p.Message))
		return err
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

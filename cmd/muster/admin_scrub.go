package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// scrubFlags are those of admin scrub.
type scrubFlags struct {
	wait, status, asJSON bool
}

func newScrubCommand(a *app) *cobra.Command {
	var output outputFlags
	var flags scrubFlags
	cmd := &cobra.Command{
		Use:   "scrub [--wait | --status] [NODE...]",
		Short: "Have datanodes read all their blocks again, to find damage",
		Long: `Have datanodes read all their blocks again, and compare them with their checksums: those
named, by id, or by host if no other is there, or all that are not dead. They do that by
themselves from time to time. It goes on in the background, within the rate that the
datanodes are configured with. What they find damaged is counted here, and named by
muster fsck --blocks. Only a superuser may do this.

It prints how far each of them is: state (started, running already, or done), blocks and bytes
read, damaged blocks, and when the last run ended. The exit code is 1 if one of them does not
answer, and with --wait also if there are damaged blocks.`,
		Example: `  muster admin scrub --wait
  muster admin scrub --status dn7.example`,
		ValidArgsFunction: a.completeNodes(func(d *client.Datanode) bool { return d.Health != muster.Dead }),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.asJSON = output.format == formatJSON
			return a.scrub(cmd.Context(), args, flags)
		},
	}
	cmd.Flags().BoolVar(&flags.wait, "wait", false, "wait until they have read all")
	cmd.Flags().BoolVar(&flags.status, "status", false, "start nothing")
	cmd.MarkFlagsMutuallyExclusive("wait", "status")
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

func (a *app) scrub(ctx context.Context, nodes []string, flags scrubFlags) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	ask := c.Scrub
	if flags.status {
		ask = c.ScrubState
	}
	list, err := ask(ctx, nodes...)
	if err != nil {
		return answered(err)
	}
	if flags.wait {
		if list, err = a.awaitScrubs(ctx, c, list); err != nil {
			return answered(err)
		}
	}
	return a.printScrubs(list, flags)
}

// The pauses between two looks at scrubs that are waited for.
const (
	firstScrubPause   = 50 * time.Millisecond
	longestScrubPause = 2 * time.Second
)

// awaitScrubs waits until none of the datanodes reads any more. One that fails is not waited for.
func (a *app) awaitScrubs(ctx context.Context, c *client.Client, list []client.Scrubbed) ([]client.Scrubbed, error) {
	at := map[string]int{}
	for i := range list {
		at[list[i].Node.ID] = i
	}
	for pause := firstScrubPause; ; pause = min(2*pause, longestScrubPause) {
		var running []string
		for i := range list {
			if list[i].Err == nil && list[i].Running {
				running = append(running, list[i].Node.ID)
			}
		}
		if len(running) == 0 {
			return list, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		now, err := c.ScrubState(ctx, running...)
		if err != nil {
			return nil, err
		}
		for _, s := range now {
			if i, ok := at[s.Node.ID]; ok {
				s.Started = list[i].Started
				list[i] = s
			}
		}
	}
}

// scrubReport is a line of scrub -o json.
type scrubReport struct {
	nodeReport
	Started  bool   `json:"started"`
	Running  bool   `json:"running"`
	Blocks   uint64 `json:"blocks"`
	Bytes    uint64 `json:"bytes"`
	Damaged  uint64 `json:"damaged"`
	Finished *int64 `json:"finished"` // ms since the epoch; null: never
}

func reportScrub(s *client.Scrubbed) scrubReport {
	r := scrubReport{nodeReport: reportNode(&s.Node), Started: s.Started, Running: s.Running, Blocks: s.Blocks, Bytes: s.Bytes, Damaged: s.Damaged}
	if !s.Finished.IsZero() {
		ms := s.Finished.UnixMilli()
		r.Finished = &ms
	}
	return r
}

// scrubState is a word for it.
func scrubState(s *client.Scrubbed) string {
	switch {
	case s.Started && s.Running:
		return "started"
	case s.Running:
		return "running"
	case s.Finished.IsZero() && !s.Started:
		return "idle"
	}
	return "done"
}

// printScrubs prints how far the datanodes are, and then which could not be asked.
func (a *app) printScrubs(list []client.Scrubbed, flags scrubFlags) error {
	out := bufio.NewWriterSize(a.stdout, outputBuffer)
	table, lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), json.NewEncoder(out)
	if !flags.asJSON && slices.ContainsFunc(list, func(s client.Scrubbed) bool { return s.Err == nil }) {
		fmt.Fprintln(table, "ID\tADDRESS\tSCRUB\tBLOCKS\tBYTES\tDAMAGED\tLAST ENDED")
	}
	for i := range list {
		s := &list[i]
		if s.Err != nil {
			continue
		}
		if flags.wait && s.Damaged > 0 {
			a.failed = true
		}
		if flags.asJSON {
			if err := lines.Encode(reportScrub(s)); err != nil {
				return err
			}
			continue
		}
		ended := "never"
		if !s.Finished.IsZero() {
			ended = s.Finished.Format(time.DateTime)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%d\t%s\n", shown(s.Node.ID), nodeAddress(&s.Node), scrubState(s),
			s.Blocks, humanSize(int64(min(s.Bytes, math.MaxInt64))), s.Damaged, ended)
	}
	if err := errors.Join(table.Flush(), out.Flush()); err != nil {
		return err
	}
	for i := range list {
		if s := &list[i]; s.Err != nil {
			a.fail(s.Node.ID, scrubError(s.Err))
		}
	}
	return nil
}

// scrubError is an error of one datanode; what is not there is no file.
func scrubError(err error) error {
	return answered(fmt.Errorf("scrub: %w", err))
}

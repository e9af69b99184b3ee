package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func newTopologyCommand(a *app) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Draw the racks and their datanodes as a tree",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.topology(cmd.Context(), output.format == formatJSON)
		},
	}
	output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// topologyReport is what topology -o json prints.
type topologyReport struct {
	Boot    uint64        `json:"boot,string"` // more digits than JSON's readers keep
	Version uint64        `json:"version"`
	Warning string        `json:"warning,omitempty"`
	Levels  []levelReport `json:"levels"` // from the root to the nodes
	Nodes   []nodeReport  `json:"nodes"`
	Rules   []ruleReport  `json:"rules"`
}

type levelReport struct {
	Name    string `json:"name"`
	Cost    uint32 `json:"cost"`
	Prefix  string `json:"prefix"`
	Default string `json:"default"`
}

type ruleReport struct {
	Match string `json:"match"`
	Rack  string `json:"rack"`
}

func (a *app) topology(ctx context.Context, asJSON bool) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := c.Topology(ctx)
	if err != nil {
		return answered(err)
	}
	if asJSON {
		report := topologyReport{Boot: t.Boot, Version: t.Version, Warning: t.Warning, Levels: []levelReport{}, Nodes: []nodeReport{}, Rules: []ruleReport{}}
		for _, l := range t.Levels {
			report.Levels = append(report.Levels, levelReport(l))
		}
		for i := range t.Nodes {
			report.Nodes = append(report.Nodes, reportNode(&t.Nodes[i]))
		}
		for _, r := range t.Rules {
			report.Rules = append(report.Rules, ruleReport(r))
		}
		return json.NewEncoder(a.stdout).Encode(report)
	}
	if t.Warning != "" {
		a.errorf("the rack file cannot be used, and racks are as before: %s", t.Warning)
	}
	return a.drawTopology(&t)
}

// branch is a location of the topology: what is below it by name, and its nodes by id.
type branch struct {
	name  string
	below []*branch
	nodes []*muster.Node
}

// child returns the branch of a name below b, which it makes if there is none.
func (b *branch) child(name string) *branch {
	for _, c := range b.below {
		if c.name == name {
			return c
		}
	}
	c := &branch{name: name}
	b.below = append(b.below, c)
	return c
}

func (a *app) drawTopology(t *client.Topology) error {
	root := &branch{name: "/"}
	racks := make(map[string]*branch)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		at := racks[n.Rack]
		if at == nil {
			at = root
			for name := range strings.SplitSeq(strings.Trim(n.Rack, "/"), "/") {
				at = at.child(name)
			}
			racks[n.Rack] = at
		}
		at.nodes = append(at.nodes, n)
	}
	out := bufio.NewWriterSize(a.stdout, outputBuffer)
	fmt.Fprintln(out, root.name)
	drawBranch(out, root, "")
	fmt.Fprintf(out, "\n%s in %s\n", english(len(t.Nodes), "datanode"), english(len(racks), "rack"))
	return out.Flush()
}

// drawBranch draws what is in a branch, each line behind the branches above.
func drawBranch(out *bufio.Writer, b *branch, above string) {
	slices.SortFunc(b.below, func(x, y *branch) int { return strings.Compare(x.name, y.name) })
	slices.SortFunc(b.nodes, func(x, y *muster.Node) int { return strings.Compare(x.ID, y.ID) })
	left := len(b.below) + len(b.nodes)
	line := func(label string) (below string) {
		left--
		if left == 0 {
			fmt.Fprintf(out, "%s└── %s\n", above, label)
			return above + "    "
		}
		fmt.Fprintf(out, "%s├── %s\n", above, label)
		return above + "│   "
	}
	for _, c := range b.below {
		drawBranch(out, c, line(shown(c.name)))
	}
	for _, n := range b.nodes {
		label := shown(n.ID) + "  " + nodeAddress(n)
		if n.State != muster.InService {
			label += "  [" + n.State.String() + "]"
		}
		line(label)
	}
}

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// A person waits for a completion: it takes no longer, and looks at no more entries.
const (
	completeTime    = 2 * time.Second
	completeEntries = 20_000
)

// asking calls offer with the server, if that answers, and a context that ends soon.
func (a *app) asking(cmd *cobra.Command, offer func(context.Context, *client.Client)) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	if err := a.load(cmd); err != nil {
		return
	}
	if c, err := a.client(ctx); err == nil {
		offer(ctx, c)
	}
}

// completePaths offers the entries of the server's directory that word is in.
func (a *app) completePaths(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	cut := strings.LastIndexByte(word, '/') + 1
	parent, prefix := word[:cut], word[cut:]
	var words []cobra.Completion
	a.asking(cmd, func(ctx context.Context, c *client.Client) {
		examined := 0
		for batch, err := range c.Pages(ctx, resolve("/"+parent), client.ListOptions{Columns: rows.ColKind}) {
			if err != nil || examined > completeEntries {
				break
			}
			examined += batch.Len()
			for i := range batch.Len() {
				name := batch.Name(i)
				if !strings.HasPrefix(name, prefix) || strings.ContainsAny(name, "\n\t") {
					continue
				}
				if batch.Kind(i) == muster.Directory {
					name += "/"
					directive |= cobra.ShellCompDirectiveNoSpace
				}
				words = append(words, parent+name)
			}
		}
	})
	return words, directive
}

// completeAfter offers nothing for the first arguments, which are no paths.
func (a *app) completeAfter(first int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) < first {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.completePaths(cmd, args, word)
	}
}

// completeNodes offers the datanodes that are wanted: by host, or by id if the word is the
// beginning of that, or if several are on the host.
func (a *app) completeNodes(wanted func(*client.Datanode) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
		a.asking(cmd, func(ctx context.Context, c *client.Client) {
			nodes, _ := c.Datanodes(ctx)
			on := make(map[string]int)
			for i := range nodes {
				on[nodes[i].Host]++
			}
			for i := range nodes {
				d := &nodes[i]
				name := d.Host
				if on[d.Host] > 1 || word != "" && strings.HasPrefix(d.ID, word) {
					name = d.ID
				}
				if wanted(d) && strings.HasPrefix(name, word) && !slices.Contains(args, d.ID) && !slices.Contains(args, d.Host) {
					words = append(words, cobra.CompletionWithDesc(name, d.Rack+" "+datanodeState(d)))
				}
			}
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

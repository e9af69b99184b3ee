package main

import (
	"context"
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

// completePaths offers the entries of the server's directory that word is in.
func (a *app) completePaths(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	if err := a.load(cmd); err != nil {
		return nil, directive
	}
	c, err := a.client(ctx)
	if err != nil {
		return nil, directive
	}
	cut := strings.LastIndexByte(word, '/') + 1
	parent, prefix := word[:cut], word[cut:]
	var words []cobra.Completion
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

package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newChownCommand(a *app) *cobra.Command {
	var recursive, zero bool
	cmd := &cobra.Command{
		Use:   "chown [-R] OWNER[:GROUP] PATH...\n  muster chown [-R] :GROUP PATH...",
		Short: "Change owner and group",
		Long: `Change the owner, the group, or both. Only a superuser may change the owner; the owner may
change the group to one of the owner's own.
With - the paths are read from standard input, one on a line.`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeAfter(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, group, err := parseOwner(args[0])
			if err != nil {
				return err
			}
			set := func(path string, _ muster.Entry) muster.Command {
				return muster.SetAttr{Path: path, Owner: owner, Group: group}
			}
			return a.changeTrees(cmd.Context(), args[1:], zero, recursive, set)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&recursive, "recursive", "R", false, "change directories and all below them, but for links")
	inputFlag(flags, &zero)
	return cmd
}

// parseOwner reads OWNER, OWNER:GROUP or :GROUP; nil is left as it is.
func parseOwner(text string) (owner, group *string, err error) {
	o, g, both := strings.Cut(text, ":")
	if !utf8.ValidString(text) {
		return nil, nil, usagef("owner %q is not valid UTF-8", text)
	}
	if (o == "" && g == "") || (both && g == "") || strings.Contains(g, ":") {
		return nil, nil, usagef("owner %q: write it as OWNER, OWNER:GROUP or :GROUP", text)
	}
	if o != "" {
		owner = &o
	}
	if g != "" {
		group = &g
	}
	return owner, group, nil
}

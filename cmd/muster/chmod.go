package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newChmodCommand(a *app) *cobra.Command {
	var recursive, zero bool
	cmd := &cobra.Command{
		Use:   "chmod [-R] MODE PATH...",
		Short: "Change permissions",
		Long: `Change permissions and the sticky bit. MODE is octal, as in 755 or 1777, or symbolic, as in
u+rwx,g-w,o=r, a+X or +t. A MODE that begins with - goes after --, as in chmod -- -w /x.
With - the paths are read from standard input, one on a line.`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeAfter(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mode, err := parseMode(args[0], uint16(a.config.Client.Umask))
			if err != nil {
				return err
			}
			set := func(path string, e muster.Entry) muster.Command {
				bits := mode.apply(e.Mode, e.Kind == muster.Directory)
				return muster.SetAttr{Path: path, Mode: &bits}
			}
			return a.changeTrees(cmd.Context(), args[1:], zero, recursive, set)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&recursive, "recursive", "R", false, "change directories and all below them, but for links")
	inputFlag(flags, &zero)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w (a mode that begins with - goes after --)", err)
	})
	return cmd
}

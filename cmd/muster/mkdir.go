package main

import (
	"github.com/spf13/cobra"

	"github.com/muster-fs/muster"
)

func newMkdirCommand(a *app) *cobra.Command {
	var parents, zero bool
	var mode string
	cmd := &cobra.Command{
		Use:   "mkdir [-p] [-m MODE] DIR...",
		Short: "Make directories",
		Long: `Make directories. Their mode is 0777 less the umask (client.umask, by default 022).
With - the names are read from standard input, one on a line.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			umask := uint16(a.config.Client.Umask)
			bits := 0o777 &^ umask
			if cmd.Flags().Changed("mode") {
				change, err := parseMode(mode, umask)
				if err != nil {
					return err
				}
				bits = change.apply(0o777, true)
			}
			return a.changeEach(cmd.Context(), args, zero, func(path string) muster.Command {
				return muster.Mkdir{Path: path, Mode: bits, Parents: parents}
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&parents, "parents", "p", false, "make missing parents too, and do not mind a directory that exists")
	flags.StringVarP(&mode, "mode", "m", "", "the mode, octal or symbolic, whatever the umask")
	inputFlag(flags, &zero)
	return cmd
}

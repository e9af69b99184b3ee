package main

import "github.com/spf13/cobra"

func newConfigCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	print := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration that is in effect",
		Long: `Print the configuration that is in effect, from flags, environment, file and defaults, as a
YAML file that --config reads to the same values.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.config.Print(a.stdout) },
	}
	serverFlags(print.Flags())
	cmd.AddCommand(print)
	return cmd
}

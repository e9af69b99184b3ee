package main

import (
	"github.com/spf13/cobra"
)

func newTailCommand(a *app) *cobra.Command {
	n := byteCount{bytes: defaultCount}
	cmd := &cobra.Command{
		Use:   "tail [-c N] PATH",
		Short: "Print the end of a file",
		Long: `Write the last bytes of a file to standard output: 1 KiB, or N. With a plus, -c +N, it is all
from byte N on, of which the first is 1. Nothing before is read. N may have a suffix, as in
muster head.`,
		Example: `  muster tail /logs/today
  muster tail -c 4K /logs/today
  muster tail -c +1001 /logs/today`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.part(cmd.Context(), args[0], func(size int64) (from, to int64) {
				if n.sign == '+' {
					return min(size, max(0, n.bytes-1)), size
				}
				return max(0, size-n.bytes), size
			})
		},
	}
	cmd.Flags().VarP(&n, "bytes", "c", "`N` bytes, or with a plus all from byte N on")
	return cmd
}

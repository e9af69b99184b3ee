package main

import (
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/client"
)

func newHeadCommand(a *app) *cobra.Command {
	n := byteCount{bytes: defaultCount}
	cmd := &cobra.Command{
		Use:   "head [-c N] PATH",
		Short: "Print the beginning of a file",
		Long: `Write the first bytes of a file to standard output: 1 KiB, or N. With a minus, -c -N, it is all
but the last N. N may end in K, M, G or T, which are powers of 1,024, also written KiB, and so
on, or in kB, MB, GB or TB, which are powers of 1,000.`,
		Example: `  muster head /logs/today
  muster head -c 4K /logs/today
  muster head -c -1M /logs/today`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n.sign == '+' {
				return usagef("-c +%d is for tail; head has -c N and -c -N", n.bytes)
			}
			return a.part(cmd.Context(), args[0], func(size int64) (from, to int64) {
				if n.sign == '-' {
					return 0, max(0, size-n.bytes)
				}
				return 0, min(size, n.bytes)
			})
		},
	}
	cmd.Flags().VarP(&n, "bytes", "c", "`N` bytes, or with a minus all but the last N")
	return cmd
}

// defaultCount is that of hdfs dfs -head and -tail.
const defaultCount = 1 << 10

// byteCount is a number of bytes, as head and tail take it.
type byteCount struct {
	sign  byte // that was given: '+', '-' or 0
	bytes int64
}

// Set, String and Type make it the value of a flag.
func (c *byteCount) Set(s string) error {
	var parsed byteCount
	if s != "" && (s[0] == '+' || s[0] == '-') {
		parsed.sign, s = s[0], s[1:]
	}
	digits := strings.TrimRight(s, "KMGTkmgtiBb")
	unit, ok := countUnits[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !ok || n > math.MaxInt64/uint64(unit) {
		return errors.New("write it as 100, 4K, 1M or 2G, with - or + before it where that has a meaning")
	}
	parsed.bytes = int64(n) * unit
	*c = parsed
	return nil
}

// countUnits are the suffixes of GNU head and tail.
var countUnits = map[string]int64{
	"": 1, "b": 512,
	"K": 1 << 10, "k": 1 << 10, "KiB": 1 << 10, "kB": 1e3, "KB": 1e3,
	"M": 1 << 20, "m": 1 << 20, "MiB": 1 << 20, "MB": 1e6,
	"G": 1 << 30, "GiB": 1 << 30, "GB": 1e9,
	"T": 1 << 40, "TiB": 1 << 40, "TB": 1e12,
}

func (c *byteCount) String() string { return strconv.FormatInt(c.bytes, 10) }

// Type is the value's type in the help.
func (c *byteCount) Type() string { return "count" }

// part prints a part of a file, which may depend on its size.
func (a *app) part(ctx context.Context, arg string, part func(size int64) (from, to int64)) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	return a.print(ctx, c, resolve(arg), func(w io.Writer, f *client.File) error {
		from, to := part(f.Size())
		return printRange(w, f, from, to)
	})
}

// printRange writes the bytes from, to of a file to w. A short range is one positioned read; a
// long one is read on and on.
func printRange(w io.Writer, f *client.File, from, to int64) error {
	buffer := make([]byte, min(to-from, 1<<20))
	n, err := f.ReadAt(buffer, from)
	if _, writeErr := w.Write(buffer[:n]); writeErr != nil {
		return writeErr
	}
	if from += int64(n); err != nil || from == to {
		return err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(f, to-from), buffer)
	return err
}

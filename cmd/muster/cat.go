package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/muster-fs/muster/client"
)

func newCatCommand(a *app) *cobra.Command {
	var zero bool
	cmd := &cobra.Command{
		Use:   "cat PATH...",
		Short: "Print files",
		Long: `Write the bytes of files to standard output, one after the other. Of a file that is being
written it is what is finished of it. A link is followed. With - the paths are read from
standard input, one on a line.`,
		Example: `  muster cat /home/ann/report.csv | head
  muster find /logs -name '*.log' -print0 | muster cat -0 -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.cat(cmd.Context(), args, zero) },
	}
	inputFlag(cmd.Flags(), &zero)
	return cmd
}

// cat writes files to standard output, one after the other.
func (a *app) cat(ctx context.Context, args []string, zero bool) error {
	paths, err := a.pathArgs(args, zero)
	if err != nil {
		return err
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	for path := range paths.all(ctx) {
		err := a.print(ctx, c, path, func(w io.Writer, f *client.File) error {
			_, err := f.WriteTo(w)
			return err
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(paths.err, ctx.Err())
}

// print opens a file and has write write of it to standard output. A failure of that is an
// error; one of the file is reported.
func (a *app) print(ctx context.Context, c *client.Client, path string, write func(w io.Writer, f *client.File) error) error {
	f, err := openRemote(ctx, c, path, 0)
	if err != nil {
		a.fail(path, err)
		return ctx.Err()
	}
	defer f.Close()
	out := &stdout{w: a.stdout}
	err = write(out, f.File)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case out.err != nil:
		return out.err
	case err != nil:
		a.fail(path, err)
	}
	return nil
}

// stdout remembers why nothing more can be written.
type stdout struct {
	w   io.Writer
	err error
}

func (s *stdout) Write(p []byte) (n int, err error) {
	n, s.err = s.w.Write(p)
	return n, s.err
}

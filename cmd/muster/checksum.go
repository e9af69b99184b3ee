package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newChecksumCommand(a *app) *cobra.Command {
	c := &checksummer{app: a}
	cmd := &cobra.Command{
		Use:   "checksum PATH...",
		Short: "Print the checksums of files",
		Long: `Print the CRC-32C of all bytes of each file, as HDFS's COMPOSITE-CRC32C has it: equal files have
equal ones, whatever their blocks and replicas are. It is put together of the checksums that
datanodes keep, and no data is read. A link is followed. With - the paths are read from standard
input, one on a line.`,
		Example: `  muster checksum /a /b
  muster find /warehouse -type f -print0 | muster checksum -o json -0 -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	inputFlag(cmd.Flags(), &c.zero)
	c.output.addOutput(cmd.Flags(), formatText, formatJSON)
	return cmd
}

// checksummer is one run of checksum.
type checksummer struct {
	*app
	zero   bool
	output outputFlags
}

const checksumAlgorithm = "COMPOSITE-CRC32C"

// pathChecksum is a line of -o json.
type pathChecksum struct {
	Path      string `json:"path"`
	Algorithm string `json:"algorithm"`
	Checksum  string `json:"checksum"` // hexadecimal
	Length    int64  `json:"length"`
}

func (c *checksummer) run(ctx context.Context, args []string) error {
	paths, err := c.pathArgs(args, c.zero)
	if err != nil {
		return err
	}
	for path := range paths.all(ctx) {
		sum, length, err := c.of(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.fail(path, err)
			continue
		}
		if err := c.output.checksum(c.stdout, pathChecksum{path, checksumAlgorithm, fmt.Sprintf("%08x", sum), length}); err != nil {
			return err
		}
	}
	return errors.Join(paths.err, ctx.Err())
}

func (c *checksummer) of(ctx context.Context, path string) (sum uint32, length int64, err error) {
	client, err := c.client(ctx)
	if err != nil {
		return 0, 0, err
	}
	f, err := client.Open(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	sum, err = f.Checksum(ctx)
	return sum, f.Size(), err
}

func (o *outputFlags) checksum(w io.Writer, p pathChecksum) error {
	if o.format == formatJSON {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		return out.Encode(p)
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\n", p.Path, p.Algorithm, p.Checksum)
	return err
}

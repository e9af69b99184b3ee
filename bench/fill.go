package bench

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// The bounds of a batch of commands: well below the service's own, so that progress
// moves and other writers get their turn.
const (
	batchCommands = 4000
	batchBytes    = muster.MaxBatchBytes / 2
	commandBytes  = 128 // about what a command takes beside its path
)

// Fill makes the table by batches of commands. After each, progress is called with the
// number of partitions begun so far; it may be nil.
func Fill(ctx context.Context, c *client.Client, t Table, progress func(partitions int)) error {
	var batch []muster.Command
	size, partitions := 0, 0
	flush := func() error {
		if _, err := c.Apply(ctx, batch...); err != nil {
			return fmt.Errorf("fill %s: %w", t.Root, err)
		}
		batch, size = batch[:0], 0
		if progress != nil {
			progress(partitions)
		}
		return nil
	}
	for cmd := range t.Commands() {
		bytes := len(cmd.Subject()) + commandBytes
		if len(batch) == batchCommands || len(batch) > 0 && size+bytes > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if cmd.Verb() == (muster.Mkdir{}).Verb() {
			partitions++
		}
		batch, size = append(batch, cmd), size+bytes
	}
	if len(batch) == 0 {
		return nil
	}
	return flush()
}

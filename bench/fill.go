package bench

import (
	"context"
	"fmt"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/namespace"
)

// The bounds of a batch of commands: well below the service's own, so that progress
// moves and other writers get their turn.
const (
	batchCommands = 4000
	batchBytes    = muster.MaxBatchBytes / 2
	commandBytes  = 128 // about what a command takes beside its path
)

// Fill makes the table through a client, by batches of commands. After each, progress is
// called with the number of commands so far, of Table.Entries; it may be nil.
func Fill(ctx context.Context, c *client.Client, t Table, progress func(done int)) error {
	return fillWith(t, progress, func(batch []muster.Command) error {
		_, err := c.Apply(ctx, batch...)
		return err
	})
}

// FillTree is Fill with no server before the tree.
func FillTree(ctx context.Context, tree *namespace.Tree, caller muster.Identity, t Table, progress func(done int)) error {
	return fillWith(t, progress, func(batch []muster.Command) error {
		_, err := tree.Apply(ctx, namespace.Request{Caller: caller, Commands: batch})
		return err
	})
}

func fillWith(t Table, progress func(done int), apply func([]muster.Command) error) error {
	var batch []muster.Command
	size, done := 0, 0
	flush := func() error {
		if err := apply(batch); err != nil {
			return fmt.Errorf("fill %s: %w", t.Root, err)
		}
		done += len(batch)
		batch, size = batch[:0], 0
		if progress != nil {
			progress(done)
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
		batch, size = append(batch, cmd), size+bytes
	}
	if len(batch) == 0 {
		return nil
	}
	return flush()
}

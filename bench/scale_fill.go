package bench

import (
	"context"
	"path"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// scaleBatch is about how many commands a batch has.
const scaleBatch = 1000

// fillScale makes a table by several callers at the same time, in batches of whole partitions.
// It returns the sum of what a listing of the table reads, as part.read has it. progress is
// called with the number of commands so far.
func fillScale(ctx context.Context, c *client.Client, t Table, callers int, progress func(done int)) (sum int64, err error) {
	batches := make(chan []muster.Command)
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range callers {
		g.Go(func() error {
			for batch := range batches {
				if _, err := c.Apply(ctx, batch...); err != nil {
					return err
				}
				progress(int(done.Add(int64(len(batch)))))
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(batches)
		var batch []muster.Command
		for cmd := range t.Commands() {
			switch cmd := cmd.(type) {
			case muster.Mkdir:
				if len(batch)+t.Files < scaleBatch || len(batch) == 0 {
					break
				}
				if err := send(ctx, batches, batch); err != nil {
					return err
				}
				batch = nil
			case muster.Create:
				sum += cmd.Length + int64(len(path.Base(cmd.Path)))
			}
			batch = append(batch, cmd)
		}
		return send(ctx, batches, batch)
	})
	err = g.Wait()
	return sum, err
}

func send(ctx context.Context, batches chan<- []muster.Command, batch []muster.Command) error {
	select {
	case batches <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

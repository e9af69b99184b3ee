package bench

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fs/muster/client"
)

// Demo is what the demonstration found.
type Demo struct {
	Directories int
	Files       int
	Iterator    time.Duration // one call a directory
	Batch       time.Duration // one call in all
	RowsEqual   bool
	Sample      []client.Info // a few of the rows
}

// Ratio says how many times faster the one call was.
func (d *Demo) Ratio() float64 { return d.Iterator.Seconds() / d.Batch.Seconds() }

// sampleRows is how many rows a Demo shows.
const sampleRows = 5

// RunDemo lists the partitions of a filled table one by one and then in one call. An
// untimed listing goes first, so that both find the store as warm. progress is called
// with the partitions listed one by one so far; it may be nil.
//
// Rows are compared outside the timed part; for that they are kept, about 2 KB for each
// directory of the iterator.
func RunDemo(ctx context.Context, c *client.Client, t Table, progress func(partitions int)) (Demo, error) {
	paths := slices.Collect(t.Paths())
	if err := Stream(ctx, c, paths, func(*client.Batch) {}); err != nil {
		return Demo{}, err
	}
	one, iterator, err := timed(ctx, c, paths, Iterator, progress)
	if err != nil {
		return Demo{}, err
	}
	all, batch, err := timed(ctx, c, paths, Stream, nil)
	if err != nil {
		return Demo{}, err
	}
	d := Demo{Directories: t.Partitions, Iterator: iterator, Batch: batch}
	expected, err := digest(one)
	if err != nil {
		return Demo{}, err
	}
	got, err := digest(all)
	if err != nil {
		return Demo{}, err
	}
	d.Files, d.RowsEqual = got.Rows, got.Equal(&expected)
	d.Sample = sample(all)
	return d, nil
}

// timed runs one arm and returns its batches and how long it took.
func timed(ctx context.Context, c *client.Client, paths []string, list ListFunc, progress func(int)) ([]*client.Batch, time.Duration, error) {
	const every = 256 // batches between two reports
	var batches []*client.Batch
	start := time.Now()
	err := list(ctx, c, paths, func(b *client.Batch) {
		batches = append(batches, b)
		if progress != nil && len(batches)%every == 0 {
			progress(len(batches))
		}
	})
	took := time.Since(start)
	if progress != nil {
		progress(len(batches))
	}
	return batches, took, err
}

func digest(batches []*client.Batch) (Digest, error) {
	var d Digest
	for _, b := range batches {
		if err := d.Add(b); err != nil {
			return d, err
		}
	}
	return d, nil
}

func sample(batches []*client.Batch) []client.Info {
	var infos []client.Info
	for _, b := range batches {
		for i := range b.Len() {
			if infos = append(infos, b.Info(i)); len(infos) == sampleRows {
				return infos
			}
		}
	}
	return infos
}

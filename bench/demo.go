package bench

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
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
	paths, from := slices.Collect(t.Paths()), wire{c, rows.DefaultColumns}
	if _, err := stream(ctx, from, paths, func(part) {}); err != nil {
		return Demo{}, err
	}
	one, iterator, err := timed(ctx, from, paths, iterate, progress)
	if err != nil {
		return Demo{}, err
	}
	all, batch, err := timed(ctx, from, paths, stream, nil)
	if err != nil {
		return Demo{}, err
	}
	d := Demo{Directories: t.Partitions, Iterator: iterator, Batch: batch}
	expected, err := digestOf(one)
	if err != nil {
		return Demo{}, err
	}
	got, err := digestOf(all)
	if err != nil {
		return Demo{}, err
	}
	d.Files, d.RowsEqual = got.rows, got == expected
	d.Sample = sample(all)
	return d, nil
}

// timed runs one arm and returns its parts and how long it took.
func timed(ctx context.Context, from source, paths []string, list listFunc, progress func(int)) ([]part, time.Duration, error) {
	const every = 256 // parts between two reports
	var parts []part
	start := time.Now()
	_, err := list(ctx, from, paths, func(p part) {
		parts = append(parts, p)
		if progress != nil && len(parts)%every == 0 {
			progress(len(parts))
		}
	})
	took := time.Since(start)
	if progress != nil {
		progress(len(parts))
	}
	return parts, took, err
}

func digestOf(parts []part) (all digest, err error) {
	var h hasher
	for _, p := range parts {
		d, err := h.digestOf(p)
		if err != nil {
			return all, err
		}
		all = all.plus(d)
	}
	return all, nil
}

func sample(parts []part) []client.Info {
	var infos []client.Info
	for _, p := range parts {
		for i := range p.batch.Len() {
			if infos = append(infos, p.batch.Info(i)); len(infos) == sampleRows {
				return infos
			}
		}
	}
	return infos
}

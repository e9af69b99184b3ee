package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fs/muster"
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
	Replicas    int              // of the files' blocks, each located in both
	Sample      []client.Located // a few of the rows
}

// Ratio says how many times faster the one call was.
func (d *Demo) Ratio() float64 { return d.Iterator.Seconds() / d.Batch.Seconds() }

// sampleRows is how many rows a Demo shows.
const sampleRows = 5

// demoContainers is how many containers the files of the demonstration are dealt out to.
const demoContainers = 100

// JoinDemo has a simulated cluster join the server of a client, and deals the files of a table,
// which is not filled yet, out to containers on it, each with three replicas.
func JoinDemo(ctx context.Context, c *client.Client, addr string, clusterKey []byte, t *Table) (*Cluster, error) {
	cluster, err := JoinCluster(ctx, addr, clusterKey, ClusterOptions{})
	if err != nil {
		return nil, err
	}
	t.Containers, err = cluster.Make(ctx, muster.Replicated(3), demoContainers)
	if err == nil {
		err = awaitTopology(ctx, c, cluster.Len())
	}
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return cluster, nil
}

// RunDemo lists the partitions of a filled table, with where the files' blocks are, one by one and
// then in one call. An untimed listing goes first, so that both find the store as warm. progress
// is called with the partitions listed one by one so far; it may be nil.
//
// Rows are compared outside the timed part; for that they are kept, about 2 KB for each
// directory of the iterator.
func RunDemo(ctx context.Context, c *client.Client, t Table, progress func(partitions int)) (Demo, error) {
	paths, from := slices.Collect(t.Paths()), wire{client: c, columns: rows.DefaultColumns, located: true}
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
	d.Replicas, err = countReplicas(all)
	return d, err
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
	h := hasher{located: true}
	for _, p := range parts {
		d, err := h.digestOf(p)
		if err != nil {
			return all, err
		}
		all = all.plus(d)
	}
	return all, nil
}

// countReplicas counts those of all blocks. It fails if it is not known of one where it is.
func countReplicas(parts []part) (count int, err error) {
	for _, p := range parts {
		for i := range p.batch.Len() {
			for k := range p.batch.NumBlocks(i) {
				n := p.batch.NumReplicas(i, k)
				if n < 1 {
					return 0, fmt.Errorf("%w: it is not known where %s is", muster.ErrUnavailable, p.batch.Path(i))
				}
				count += n
			}
		}
	}
	return count, nil
}

func sample(parts []part) []client.Located {
	var all []client.Located
	for _, p := range parts {
		for i := range p.batch.Len() {
			if all = append(all, p.batch.Located(i)); len(all) == sampleRows {
				return all
			}
		}
	}
	return all
}

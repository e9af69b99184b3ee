package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster/client"
)

// The arms of writing: a file with its fsync, as many at once as a block has replicas, and a file
// through the datanodes, which are on the same disk.
const (
	oneFile     = "disk"
	threeFiles  = "disk-3"
	writtenCase = "write"
)

// measureWriting measures how files of the size are written, one after the other.
func (r *reading) measureWriting(ctx context.Context, step func()) ([]PreadsMeasurement, error) {
	equal, err := r.compareWritten(ctx)
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, r.Size)
	contentAt(buffer, 0)
	c := contest{bench: "preads", of: writtenCase, goroutines: 1, rounds: r.Rounds, roundTime: r.RoundTime}
	for _, arm := range []struct {
		name  string
		write func(context.Context, []byte, int64) error
	}{{oneFile, r.writeLocally(1)}, {threeFiles, r.writeLocally(preadsReplicas)}, {ours, r.writeFile}} {
		var written atomic.Int64
		c.entrants = append(c.entrants, entrant{name: arm.name, equal: equal, begin: func(ctx context.Context) func() error {
			return func() error { return arm.write(ctx, buffer, written.Add(1)) }
		}})
	}
	results, err := c.run(ctx, step)
	if err != nil {
		return nil, err
	}
	all := make([]PreadsMeasurement, len(results))
	for i, m := range results {
		all[i] = PreadsMeasurement{Measurement: m, Total: m.OpsPerSecond * Figure(r.Size) / 1e6, Beside: unmeasured, ToTCP: unmeasured, TotalTCP: unmeasured}
	}
	return all, nil
}

// writeLocally writes so many files at once, each durable, and removes them.
func (r *reading) writeLocally(files int) func(context.Context, []byte, int64) error {
	return func(_ context.Context, p []byte, n int64) error {
		var g errgroup.Group
		for i := range files {
			g.Go(func() error {
				path := filepath.Join(r.Dir, fmt.Sprintf("written-%d-%d-%d", files, n, i))
				file, err := os.Create(path)
				if err != nil {
					return err
				}
				_, err = file.Write(p)
				return errors.Join(err, file.Sync(), file.Close(), os.Remove(path))
			})
		}
		return g.Wait()
	}
}

// writeFile writes a file through the datanodes, and removes it.
func (r *reading) writeFile(ctx context.Context, p []byte, n int64) error {
	path := fmt.Sprintf("/bench/written-%d", n)
	w, err := r.client.CreateFile(ctx, path, r.writeOptions())
	if err != nil {
		return err
	}
	if _, err := w.Write(p); err != nil {
		return errors.Join(err, w.Abort(ctx))
	}
	if err := w.Close(); err != nil {
		return err
	}
	return r.client.Remove(ctx, path)
}

// compareWritten says whether a file that is written as the measured ones reads back.
func (r *reading) compareWritten(ctx context.Context) (equal bool, err error) {
	f, err := r.client.OpenFile(ctx, preadsFile, client.ReadOptions{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return sameContent(f, newContent(r.Size))
}

func sameContent(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errX := io.ReadFull(a, x)
		m, errY := io.ReadFull(b, y)
		if n != m || string(x[:n]) != string(y[:m]) {
			return false, nil
		}
		if errX != nil || errY != nil {
			return isEnd(errX) && isEnd(errY), nil
		}
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

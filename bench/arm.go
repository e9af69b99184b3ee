package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Arm is one way to list many directories.
type Arm struct {
	Name       string // iterator, pages-100, pages-1000 or stream
	Goroutines int    // that list at the same time
	unit       int    // directories of one call, and of a stream that is worth the name
	list       listFunc
}

// listFunc lists paths at a source, and says how many calls it made. each takes every
// part of the answer, from any of the arm's goroutines.
type listFunc func(ctx context.Context, s source, paths []string, each func(part)) (calls int, err error)

// Arms returns the ways that are compared: the iterator, alone and from 16 and 64
// goroutines, HDFS's batch with its limit of 100 and with 1,000, and the stream.
func Arms() []Arm {
	return []Arm{
		iterator(1), iterator(16), iterator(64),
		pages(100), pages(1000),
		{Name: "stream", Goroutines: 1, unit: 1000, list: stream},
	}
}

// String is the arm's name, with the number of its goroutines if there are several.
func (a Arm) String() string {
	if a.Goroutines > 1 {
		return fmt.Sprintf("%s-%d", a.Name, a.Goroutines)
	}
	return a.Name
}

// sequentialIterator says whether a is what the others are held against.
func (a Arm) sequentialIterator() bool { return a.Name == "iterator" && a.Goroutines == 1 }

// iterator lists one directory a call, and goes on by cursor in a directory that takes
// more than one page: what a planner does without a batched call. Connections are kept,
// and a page has as many entries as the server gives by itself.
func iterator(goroutines int) Arm {
	return Arm{Name: "iterator", Goroutines: goroutines, unit: 1, list: func(ctx context.Context, s source, paths []string, each func(part)) (int, error) {
		if goroutines == 1 {
			return iterate(ctx, s, paths, each)
		}
		var next, calls atomic.Int64
		g, ctx := errgroup.WithContext(ctx)
		for range goroutines {
			g.Go(func() error {
				for i := next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
					n, err := iterate(ctx, s, paths[i:i+1], each)
					if err != nil {
						return err
					}
					calls.Add(int64(n))
				}
				return nil
			})
		}
		err := g.Wait()
		return int(calls.Load()), err
	}}
}

func iterate(ctx context.Context, s source, paths []string, each func(part)) (calls int, err error) {
	for i := range paths {
		n, err := allPages(ctx, s, paths[i:i+1], 0, each)
		if err != nil {
			return 0, fmt.Errorf("iterator: %w", err)
		}
		calls += n
	}
	return calls, nil
}

// pages lists n directories a call and n entries a page: the batched listing of
// HDFS-13616.
func pages(n int) Arm {
	return Arm{Name: fmt.Sprintf("pages-%d", n), Goroutines: 1, unit: n, list: func(ctx context.Context, s source, paths []string, each func(part)) (calls int, err error) {
		for chunk := range slices.Chunk(paths, n) {
			made, err := allPages(ctx, s, chunk, n, each)
			if err != nil {
				return 0, fmt.Errorf("pages of %d: %w", n, err)
			}
			calls += made
		}
		return calls, nil
	}}
}

// allPages lists the paths of one call to their end. Limit 0 is the server's own.
func allPages(ctx context.Context, s source, paths []string, limit int, each func(part)) (calls int, err error) {
	for cursor := []byte(nil); ; {
		if cursor, err = s.page(ctx, paths, cursor, limit, each); err != nil {
			return 0, err
		}
		if calls++; len(cursor) == 0 {
			return calls, nil
		}
	}
}

// stream lists all directories in one call.
func stream(ctx context.Context, s source, paths []string, each func(part)) (int, error) {
	if err := s.stream(ctx, paths, each); err != nil {
		return 0, fmt.Errorf("stream: %w", err)
	}
	return 1, nil
}

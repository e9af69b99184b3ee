package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fs/muster/client"
)

// ListFunc lists many directories through a client. It hands over every batch as it comes;
// each may keep it.
type ListFunc func(ctx context.Context, c *client.Client, paths []string, each func(*client.Batch)) error

// Arm is one way to list many directories.
type Arm struct {
	Name string
	List ListFunc
}

// Arms returns the ways that are compared: the iterator, HDFS's batch of 100 paths and
// 100 entries a page, and the stream.
func Arms() []Arm {
	return []Arm{
		{"iterator", Iterator},
		{"pages-100", Pages(100)},
		{"stream", Stream},
	}
}

// Iterator lists one directory a call, and goes on by cursor in a directory that
// takes more than one page: what a planner does without a batched call. It keeps its
// connection, and a page has as many entries as the server gives by itself.
func Iterator(ctx context.Context, c *client.Client, paths []string, each func(*client.Batch)) error {
	for _, path := range paths {
		for b, err := range c.Pages(ctx, path, client.ListOptions{}) {
			if err != nil {
				return fmt.Errorf("iterator: %w", err)
			}
			each(b)
		}
	}
	return nil
}

// Pages lists n paths a call and n entries a page: the batched listing of HDFS-13616.
func Pages(n int) ListFunc {
	return func(ctx context.Context, c *client.Client, paths []string, each func(*client.Batch)) error {
		for chunk := range slices.Chunk(paths, n) {
			for cursor := []byte(nil); ; {
				b, err := c.Page(ctx, chunk, cursor, client.ListOptions{Limit: n})
				if err != nil {
					return fmt.Errorf("pages of %d: %w", n, err)
				}
				each(b)
				if cursor = b.Cursor; len(cursor) == 0 {
					break
				}
			}
		}
		return nil
	}
}

// Stream lists all paths in one call.
func Stream(ctx context.Context, c *client.Client, paths []string, each func(*client.Batch)) error {
	for b, err := range c.List(ctx, slices.Values(paths), client.ListOptions{}) {
		if err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		each(b)
	}
	return nil
}

package bench

import (
	"context"
	"testing"

	"github.com/muster-fs/muster/client"
)

// BenchmarkCall measures single calls over loopback: one that does nothing, a status, and
// the iterator's page of a directory with one file.
//
//	go test -run '^$' -bench Call -benchtime 2s -count 3 ./bench
func BenchmarkCall(b *testing.B) {
	c := startServer(b)
	table := Table{Root: "/t", Partitions: 100, Files: 1}
	fill(b, c, table)
	directory := []string{table.Partition(0)}
	for _, call := range []struct {
		name string
		make func(context.Context) error
	}{
		{"empty", func(ctx context.Context) error { _, err := c.Capabilities(ctx); return err }},
		{"stat", func(ctx context.Context) error { _, err := c.Stat(ctx, directory[0]); return err }},
		{"page", func(ctx context.Context) error {
			_, err := c.Page(ctx, directory, nil, client.ListOptions{})
			return err
		}},
	} {
		b.Run("call="+call.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call.make(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// exampleFile runs f with a client of a file of two blocks, who reads where the second one is.
// The datanodes are simulated.
func exampleFile(f func(ctx context.Context, c *client.Client, path, reader string)) {
	exampleServer(func(ctx context.Context, c *client.Client, s *server.Server, clusterKey []byte) {
		cluster, err := bench.JoinDemo(ctx, c, s.Addr().String(), clusterKey, new(bench.Table))
		if err != nil {
			log.Fatal(err)
		}
		defer cluster.Close()
		given, err := cluster.Allocate(ctx, muster.Replicated(3), 2)
		if err != nil {
			log.Fatal(err)
		}
		file := muster.Create{Path: "/f", Replication: muster.Replicated(3), Length: 150}
		for i, b := range given.Blocks {
			file.Blocks = append(file.Blocks, muster.Block{Container: b.Container, LocalID: b.LocalID, Length: int64(100 - 50*i)})
		}
		if _, err := c.Apply(ctx, file); err != nil {
			log.Fatal(err)
		}
		where, err := c.Lookup(ctx, file.Path)
		if err != nil {
			log.Fatal(err)
		}
		reader := where.Blocks[1].Replicas[2].Host
		near, err := client.Dial(ctx, s.Addr().String(), client.Options{User: "root", Reader: reader})
		if err != nil {
			log.Fatal(err)
		}
		defer near.Close()
		f(ctx, near, file.Path, reader)
	})
}

// Who wants a part of a file asks for the blocks that it lies in.
func ExampleClient_Locate() {
	exampleFile(func(ctx context.Context, c *client.Client, path, reader string) {
		file, err := c.Locate(ctx, path, 120, 30)
		if err != nil {
			log.Fatal(err)
		}
		for _, b := range file.Blocks {
			local := b.Replicas[0].Host == reader // the nearest comes first
			fmt.Printf("bytes %d to %d of %d: %d replicas, one here: %v\n", b.Offset, b.Offset+b.Length-1, file.Size(), len(b.Replicas), local)
		}
	})
	// Output: bytes 100 to 149 of 150: 3 replicas, one here: true
}

// A reader who finds none of a block's replicas where it was told has the server look for that
// block anew.
func ExampleClient_OpenLocated() {
	exampleFile(func(ctx context.Context, c *client.Client, path, _ string) {
		// Each block's replicas are tried in their order.
		read := func(b client.LocatedBlock) bool { return b.Offset == 0 }

		file, err := c.OpenLocated(ctx, path)
		if err != nil {
			log.Fatal(err)
		}
		var stale []client.Stale
		for _, b := range file.Blocks {
			if !read(b) {
				fmt.Println("no replica of the block at", b.Offset)
				stale = append(stale, b.Stale())
			}
		}
		file, err = c.OpenLocated(ctx, path, stale...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("once more with", len(file.Blocks), "blocks")
	})
	// Output:
	// no replica of the block at 100
	// once more with 2 blocks
}

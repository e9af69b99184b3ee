package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/server"
)

// exampleServer runs f with a client of a new server.
func exampleServer(f func(ctx context.Context, c *client.Client, s *server.Server, clusterKey []byte)) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "muster-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.Start(ctx, server.Options{Dir: dir, Namespace: namespace.Options{FS: vfs.NewMem(), Superuser: "root"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	c, err := client.Dial(ctx, s.Addr().String(), client.Options{User: "root"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	key, err := server.ClusterKey(dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		log.Fatal(err)
	}
	f(ctx, c, s, key)
}

// example runs f with a client of a server that has a small table: two partitions,
// a staging file and a link.
func example(f func(ctx context.Context, c *client.Client)) {
	exampleServer(func(ctx context.Context, c *client.Client, _ *server.Server, _ []byte) {
		fillExample(ctx, c)
		f(ctx, c)
	})
}

func fillExample(ctx context.Context, c *client.Client) {
	if _, err := c.Apply(ctx,
		muster.Create{Path: "/sales/day=1/part-0.parquet", Length: 100, Mode: 0o644, Parents: true},
		muster.Create{Path: "/sales/day=1/part-1.parquet", Length: 200, Mode: 0o644, Parents: true},
		muster.Create{Path: "/sales/day=2/part-0.parquet", Length: 300, Mode: 0o644, Parents: true},
		muster.Create{Path: "/sales/day=2/_staging", Mode: 0o644},
		muster.Symlink{Path: "/latest", Target: "sales/day=2"},
	); err != nil {
		log.Fatal(err)
	}
}

// The README's listing: every file of many directories in one call.
func Example() {
	example(func(ctx context.Context, c *client.Client) {
		partitions := []string{"/sales/day=1", "/sales/day=2"}

		for batch, err := range c.List(ctx, slices.Values(partitions), client.ListOptions{}) {
			if err != nil {
				log.Fatal(err)
			}
			for i := range batch.Len() {
				fmt.Println(batch.Path(i), batch.Length(i))
			}
		}
	})
	// Output:
	// /sales/day=1/part-0.parquet 100
	// /sales/day=1/part-1.parquet 200
	// /sales/day=2/_staging 0
	// /sales/day=2/part-0.parquet 300
}

// A path's error is a value among the outcomes; the other paths are listed all the same.
func ExampleClient_List() {
	example(func(ctx context.Context, c *client.Client) {
		paths := []string{"/sales/day=2", "/sales/day=3", "/latest"}
		o := client.ListOptions{Hidden: muster.HiddenSpark}
		for batch, err := range c.List(ctx, slices.Values(paths), o) {
			if err != nil {
				log.Fatal(err) // of the whole call
			}
			for i := range batch.Len() {
				fmt.Println("row", batch.Given(i), batch.Name(i))
			}
			for _, outcome := range batch.Outcomes {
				if err := outcome.Err(); errors.Is(err, fs.ErrNotExist) {
					fmt.Println("missing", outcome.Path)
				} else {
					fmt.Println("done", outcome.Path, outcome.Rows)
				}
			}
		}
	})
	// Unordered output:
	// row /sales/day=2 part-0.parquet
	// done /sales/day=2 1
	// missing /sales/day=3
	// row /latest part-0.parquet
	// done /latest 1
}

// Where the blocks are comes with the rows. The datanodes here are simulated.
func ExampleBatch_Replicas() {
	exampleServer(func(ctx context.Context, c *client.Client, s *server.Server, clusterKey []byte) {
		table := bench.Table{Root: "/sales", Partitions: 2, Files: 1}
		cluster, err := bench.JoinDemo(ctx, c, s.Addr().String(), clusterKey, &table)
		if err != nil {
			log.Fatal(err)
		}
		defer cluster.Close()
		if err := bench.Fill(ctx, c, table, nil); err != nil {
			log.Fatal(err)
		}

		o := client.ListOptions{Locations: muster.LocationsHint, Sorted: true, Reader: "/rack-1"}
		for batch, err := range c.List(ctx, table.Paths(), o) {
			if err != nil {
				log.Fatal(err)
			}
			for i := range batch.Len() {
				for k := range batch.NumBlocks(i) {
					racks := map[string]bool{}
					for replica := range batch.Replicas(i, k) { // the nearest first
						racks[replica.Rack] = true
					}
					fmt.Println(batch.Given(i), "block", k, "has", batch.NumReplicas(i, k), "replicas in", len(racks), "racks")
				}
			}
		}
	})
	// Output:
	// /sales/day=2023-01-01/hour=00 block 0 has 3 replicas in 2 racks
	// /sales/day=2023-01-01/hour=01 block 0 has 3 replicas in 2 racks
}

func ExampleCollect() {
	example(func(ctx context.Context, c *client.Client) {
		paths := slices.Values([]string{"/sales/day=1", "/sales/day=9"})
		infos, err := client.Collect(c.List(ctx, paths, client.ListOptions{}))
		for _, info := range infos {
			fmt.Println(info.Path, info.Size(), info.Mode())
		}
		fmt.Println("missing:", errors.Is(err, fs.ErrNotExist))
	})
	// Output:
	// /sales/day=1/part-0.parquet 100 -rw-r--r--
	// /sales/day=1/part-1.parquet 200 -rw-r--r--
	// missing: true
}

// Pages go on from a cursor, here after the first page.
func ExampleClient_Pages() {
	example(func(ctx context.Context, c *client.Client) {
		o := client.ListOptions{Limit: 1}
		for page, err := range c.Pages(ctx, "/sales/day=1", o) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("first:", page.Name(0))
			o.Cursor = page.Cursor
			break
		}
		for page, err := range c.Pages(ctx, "/sales/day=1", o) {
			if err != nil {
				log.Fatal(err)
			}
			for i := range page.Len() {
				fmt.Println("later:", page.Name(i))
			}
		}
	})
	// Output:
	// first: part-0.parquet
	// later: part-1.parquet
}

func ExampleClient_StatAll() {
	example(func(ctx context.Context, c *client.Client) {
		paths := slices.Values([]string{"/sales", "/nowhere", "/latest"})
		for stated, err := range c.StatAll(ctx, paths) {
			if err != nil {
				log.Fatal(err)
			}
			if stated.Err != nil {
				fmt.Println(stated.Path, muster.CodeOf(stated.Err).Name())
				continue
			}
			fmt.Println(stated.Path, stated.Info.Mode())
		}
	})
	// Output:
	// /sales drwxr-xr-x
	// /nowhere NOT_FOUND
	// /latest Lrwxrwxrwx
}

func ExampleClient_WalkDir() {
	example(func(ctx context.Context, c *client.Client) {
		err := c.WalkDir(ctx, "/sales", func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Name() == "day=2" {
				return fs.SkipDir
			}
			fmt.Println(path)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	})
	// Output:
	// /sales
	// /sales/day=1
	// /sales/day=1/part-0.parquet
	// /sales/day=1/part-1.parquet
}

func ExampleClient_Walk() {
	example(func(ctx context.Context, c *client.Client) {
		files, bytes := 0, int64(0)
		for batch, err := range c.Walk(ctx, "/", client.ListOptions{}) {
			if err != nil {
				log.Fatal(err)
			}
			for i := range batch.Len() {
				if batch.Kind(i) == muster.File {
					files, bytes = files+1, bytes+batch.Length(i)
				}
			}
		}
		fmt.Println(files, "files,", bytes, "bytes")
	})
	// Output:
	// 4 files, 600 bytes
}

func ExampleClient_Glob() {
	example(func(ctx context.Context, c *client.Client) {
		paths, err := c.Glob(ctx, "/sales/*/part-0.*")
		if err != nil {
			log.Fatal(err)
		}
		for _, path := range paths {
			fmt.Println(path)
		}
	})
	// Output:
	// /sales/day=1/part-0.parquet
	// /sales/day=2/part-0.parquet
}

func ExampleClient_FS() {
	example(func(ctx context.Context, c *client.Client) {
		fsys := c.FS(ctx, "/sales")
		entries, err := fs.ReadDir(fsys, "day=1")
		if err != nil {
			log.Fatal(err)
		}
		for _, entry := range entries {
			fmt.Println(entry)
		}
	})
	// Output:
	// - part-0.parquet
	// - part-1.parquet
}

// A batch of commands is applied as one, or not at all.
func ExampleClient_Apply() {
	example(func(ctx context.Context, c *client.Client) {
		_, err := c.Apply(ctx,
			muster.Mkdir{Path: "/sales/day=3", Mode: 0o755},
			muster.Rename{From: "/sales/day=9", To: "/sales/day=4"},
		)
		var refused *muster.CommandError
		if errors.As(err, &refused) {
			fmt.Println("command", refused.Index, "is refused:", muster.CodeOf(err).Name())
		}
		_, err = c.Stat(ctx, "/sales/day=3")
		fmt.Println("day 3 exists:", err == nil)
	})
	// Output:
	// command 1 is refused: NOT_FOUND
	// day 3 exists: false
}

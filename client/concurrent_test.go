package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func TestManyGoroutinesShareAClientOfFewConnections(t *testing.T) {
	c := dial(t, start(t).addr(), client.Options{Connections: 3})
	plant(t, c, names("/d/", 200)...)
	var tasks sync.WaitGroup
	for g := range 12 {
		tasks.Go(func() {
			mine := c.As(fmt.Sprint("user", g), "supergroup")
			for i := range 10 {
				path := fmt.Sprintf("/g%d-%d", g, i)
				if err := mine.Mkdir(t.Context(), path, 0o755); err != nil {
					t.Error(err)
				}
				info, err := mine.Stat(t.Context(), path)
				if err != nil || info.Entry.Owner != fmt.Sprint("user", g) {
					t.Errorf("%s belongs to %q, %v", path, info.Entry.Owner, err)
				}
				infos, err := client.Collect(mine.List(t.Context(), slices.Values([]string{"/d", path}), client.ListOptions{Limit: 50}))
				if err != nil || len(infos) != 200 {
					t.Errorf("%d rows, %v", len(infos), err)
				}
			}
		})
	}
	tasks.Wait()
}

func TestListingEndsWithItsDeadline(t *testing.T) {
	c := connect(t)
	plant(t, c, "/d/f")
	ctx, cancel := context.WithTimeout(t.Context(), 1e8)
	defer cancel()
	forever := func(yield func(string) bool) {
		for yield("/d") {
		}
	}
	var last error
	for _, err := range c.List(ctx, forever, client.ListOptions{}) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) || !errors.Is(last, muster.ErrDeadline) {
		t.Fatalf("got %v", last)
	}
}

func TestListingsInsideAListingNeedConnectionsOfTheirOwnAndGetThem(t *testing.T) {
	c := connect(t)
	plant(t, c, "/d/a/x", "/d/b/y")
	var found []string
	for outer, err := range c.List(t.Context(), slices.Values([]string{"/d"}), client.ListOptions{}) {
		must(t, err)
		for i := range outer.Len() {
			must(t, c.WalkDir(t.Context(), outer.Path(i), func(path string, _ fs.DirEntry, err error) error {
				found = append(found, path)
				return err
			}))
		}
	}
	same(t, found, []string{"/d/a", "/d/a/x", "/d/b", "/d/b/y"})
}

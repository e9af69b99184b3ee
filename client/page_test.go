package client_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func TestPagesGiveTheSameRowsAsAStreamForEveryLimitAndGoOnFromAnyCursor(t *testing.T) {
	c := connect(t)
	plant(t, c, names("/d/", 23)...)
	want := listed(t, c.List(t.Context(), slices.Values([]string{"/d"}), client.ListOptions{}))
	for limit := 1; limit <= 24; limit++ {
		o := client.ListOptions{Limit: limit}
		same(t, listed(t, c.Pages(t.Context(), "/d", o)), want)

		// Each page in an iteration of its own, as another process would go on.
		same(t, listed(t, func(yield func(*client.Batch, error) bool) {
			for o := o; ; {
				for b, err := range c.Pages(t.Context(), "/d", o) {
					if !yield(b, err) || len(b.Cursor) == 0 {
						return
					}
					if b.Len() > limit {
						t.Errorf("page of %d rows, limit %d", b.Len(), limit)
					}
					o.Cursor = b.Cursor
					break
				}
			}
		}), want)
	}
}

func TestPageRefusesAForeignCursorAndTooManyPaths(t *testing.T) {
	c, ctx := connect(t), t.Context()
	plant(t, c, names("/d/", 5)...)
	b, err := c.Page(ctx, []string{"/d"}, nil, client.ListOptions{Limit: 2})
	must(t, err)
	damaged := slices.Clone(b.Cursor)
	damaged[len(damaged)/2] ^= 1
	_, errDamaged := c.Page(ctx, []string{"/d"}, damaged, client.ListOptions{Limit: 2})
	_, errOther := c.Page(ctx, []string{"/"}, b.Cursor, client.ListOptions{Limit: 2})
	_, errOptions := c.Page(ctx, []string{"/d"}, b.Cursor, client.ListOptions{Limit: 3})
	for name, err := range map[string]error{"damaged": errDamaged, "another path's": errOther, "other options'": errOptions} {
		if !errors.Is(err, muster.ErrCursor) {
			t.Errorf("%s cursor: %v", name, err)
		}
	}
	caps, err := c.Capabilities(ctx)
	must(t, err)
	if _, err := c.Page(ctx, names("/d/", caps.MaxPaths+1), nil, client.ListOptions{}); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("too many paths: %v", err)
	}
	long := []string{"/" + strings.Repeat("x", 7990), "/" + strings.Repeat("y", 7990)}
	if _, err := c.Page(ctx, slices.Repeat(long, caps.MaxPaths/2), nil, client.ListOptions{}); !errors.Is(err, muster.ErrLimit) {
		t.Errorf("paths of too many bytes: %v", err)
	}
}

func TestBatchOfAPageDoesNotChangeWithTheCallersPaths(t *testing.T) {
	c := connect(t)
	plant(t, c, "/d/f")
	paths := []string{"/d"}
	b, err := c.Page(t.Context(), paths, nil, client.ListOptions{})
	must(t, err)
	paths[0] = "/other"
	if b.Path(0) != "/d/f" {
		t.Errorf("the row's path became %s", b.Path(0))
	}
}

func TestBatchOfAPageDoesNotChangeWithLaterCalls(t *testing.T) {
	c, ctx := connect(t), t.Context()
	plant(t, c, names("/d/", 40)...)
	o := client.ListOptions{Limit: 3}
	var pages []*client.Batch
	for b, err := range c.Pages(ctx, "/d", o) {
		must(t, err)
		pages = append(pages, b)
	}
	for i, b := range pages[:len(pages)-1] { // their cursors are older than the last calls
		next, err := c.Page(ctx, []string{"/d"}, b.Cursor, o)
		must(t, err)
		if got, want := next.Path(0), pages[i+1].Path(0); got != want {
			t.Errorf("after page %d comes %s, want %s", i, got, want)
		}
	}
}

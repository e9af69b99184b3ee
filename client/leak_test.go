package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// cuts are the ways in which a listing can end before its end. Each is done after a
// number of messages, and says whether the loop is left at once. Otherwise it goes on and
// ends with an error, or with the rest if that was on its way.
var cuts = map[string]struct {
	do    func(cancel context.CancelFunc, c *client.Client, p *proxy)
	leave bool
}{
	"the loop is left":         {func(context.CancelFunc, *client.Client, *proxy) {}, true},
	"the context is cancelled": {func(cancel context.CancelFunc, _ *client.Client, _ *proxy) { cancel() }, false},
	"the client is closed":     {func(_ context.CancelFunc, c *client.Client, _ *proxy) { _ = c.Close() }, false},
	"the server is gone":       {func(_ context.CancelFunc, _ *client.Client, p *proxy) { p.cutEach(0) }, false},
	"both":                     {func(cancel context.CancelFunc, _ *client.Client, p *proxy) { p.cutEach(0); cancel() }, true},
}

// TestAListingThatIsCutAtAnyMessageLeavesNothing runs no more goroutines after it than
// before it, of client and server, and gives its connection back or closes it.
func TestAListingThatIsCutAtAnyMessageLeavesNothing(t *testing.T) {
	in := start(t)
	paths := slices.Repeat(orchard(t, dial(t, in.addr(), client.Options{})), 4)
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			for after := 0; ; after++ {
				before := goleak.IgnoreCurrent()
				p := newProxy(t, in.addr())
				c, err := client.Dial(t.Context(), p.addr(), client.Options{User: "root", Attempts: 2})
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				messages := 0
				for b, err := range c.List(ctx, slices.Values(paths), client.ListOptions{}) {
					if messages == after {
						if cut.do(cancel, c, p); cut.leave {
							break
						}
					}
					if err != nil {
						if !errors.Is(err, muster.ErrUnavailable) && !errors.Is(err, muster.ErrCancelled) {
							t.Errorf("after %d messages: %v", after, err)
						}
						break
					}
					look(b)
					messages++
				}
				cancel()
				must(t, c.Close())
				p.close()
				goleak.VerifyNone(t, before)
				if messages < after {
					return // it has no more messages than that
				}
			}
		})
	}
}

// TestPathsThatBlockDoNotHoldUpTheEnd leaves a listing whose paths wait for its context.
func TestPathsThatBlockDoNotHoldUpTheEnd(t *testing.T) {
	c := connect(t)
	plant(t, c, "/d/a")
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	paths := func(yield func(string) bool) {
		for range 3 {
			if !yield("/d") {
				return
			}
		}
		<-ctx.Done()
	}
	rows := 0
	for b, err := range c.List(ctx, paths, client.ListOptions{}) {
		if err != nil {
			if !errors.Is(err, muster.ErrCancelled) {
				t.Fatal(err)
			}
			break
		}
		if rows += b.Len(); rows == 3 {
			cancel()
		}
	}
	if rows != 3 {
		t.Fatalf("%d rows of paths that came", rows)
	}
	cancel()
	goleak.VerifyNone(t, before)
}

package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/muster-fs/muster/rpc"
)

// The pauses between attempts double from minPause to maxPause. Half of each is random,
// so that clients that lost the same server do not all return at once.
const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// backoff counts attempts without progress.
type backoff struct {
	attempts int // that failed since the last progress
}

// wait pauses before the next attempt, or returns the context's error.
func (b *backoff) wait(ctx context.Context) error {
	pause := min(minPause<<min(b.attempts, 10), maxPause)
	b.attempts++
	t := time.NewTimer(pause/2 + rand.N(pause/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again waits before another attempt of a call that only reads, and says whether
// there is one: not after too many, nor when the caller has gone.
func (c *Client) again(ctx context.Context, b *backoff) bool {
	return b.attempts+1 < c.options.Attempts && b.wait(ctx) == nil
}

// context adds the client's identity to a call.
func (c *Client) context(ctx context.Context) context.Context {
	return rpc.ClientContext(ctx, c.identity)
}

// retry makes a call that only reads until it works, fails for good, or has failed
// too often.
func retry[T any](ctx context.Context, c *Client, call func(context.Context) (T, error)) (T, error) {
	for b := (backoff{}); ; {
		value, err := call(c.context(ctx))
		if err == nil {
			return value, nil
		}
		err = rpc.FromWire(err)
		if ctx.Err() != nil {
			return value, ended(ctx)
		}
		if !retriable(err) || !c.again(ctx, &b) {
			return value, err
		}
	}
}

package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/muster-fs/muster/rpc"
)

// The first attempt after a failure is made at once: most often it is the connection
// that has gone, not the server. Then pauses double from minPause to maxPause. Half of
// each is random, so that clients of the same server do not all return at one time.
const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// maxUnsent is how long a call that only reads is tried without being sent. A call
// that has waited this long for one of the connections would only wait again.
const maxUnsent = time.Minute

// backoff counts attempts without progress.
type backoff struct {
	attempts int       // that failed since the last progress
	since    time.Time // the beginning of the first of them
}

// newBackoff begins to count.
func newBackoff() backoff { return backoff{since: time.Now()} }

// wait pauses before the next attempt, or returns the context's error.
func (b *backoff) wait(ctx context.Context) error {
	b.attempts++
	if b.attempts == 1 {
		return ctx.Err()
	}
	pause := min(minPause<<min(b.attempts-2, 10), maxPause)
	t := time.NewTimer(pause/2 + rand.N(pause/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again waits before another attempt of a call that only reads. It returns err, of the
// last attempt, if there is none: because it is of no use, after too many, or because
// the caller has gone.
func (c *Client) again(ctx context.Context, b *backoff, err error) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case !retriable(err) || b.attempts+1 >= c.options.Attempts || rpc.Unsent(err) && time.Since(b.since) >= maxUnsent:
		return err
	case b.wait(ctx) != nil:
		return fmt.Errorf("%w, after: %w", ended(ctx), err)
	}
	return nil
}

// context adds the client's identity to a call.
func (c *Client) context(ctx context.Context) context.Context {
	return c.credentials.Context(ctx)
}

// retry makes a call that only reads until it works, fails for good, or has failed
// too often.
func retry[T any](ctx context.Context, c *Client, call func(context.Context) (T, error)) (value T, err error) {
	err = ended(ctx)
	for b := newBackoff(); err == nil; {
		if value, err = call(c.context(ctx)); err == nil {
			break
		}
		err = c.again(ctx, &b, err)
	}
	return value, err
}

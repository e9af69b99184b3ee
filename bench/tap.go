package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/muster-fs/muster/locations"
)

// Tap is a location service whose calls are counted, and can be delayed, failed, or answered in
// part. It stands between the cache and the service: see server.Locating.Wrap. It is safe for
// concurrent use.
type Tap struct {
	source locations.Source

	mu     sync.Mutex // guards what follows; never held over a call
	calls  [][]uint64 // the containers of each, in the order asked
	delay  time.Duration
	failed error
	spoil  func(container uint64) error
}

// NewTap returns a tap that passes all on.
func NewTap(s locations.Source) *Tap { return &Tap{source: s} }

// Delay has calls from now on take so much longer; 0: no longer.
func (t *Tap) Delay(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay = d
}

// Fail has calls from now on fail as a whole with err, after the delay; nil: not any more.
func (t *Tap) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = err
}

// Spoil has calls from now on answer a container with an error, if spoil returns one; nil: none.
func (t *Tap) Spoil(spoil func(container uint64) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spoil = spoil
}

// Calls is how many calls there were since Take.
func (t *Tap) Calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}

// Take returns the containers of each call since it was called last, in the order asked.
func (t *Tap) Take() [][]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

// Lookup is a call to the service.
func (t *Tap) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	t.mu.Lock()
	t.calls = append(t.calls, slices.Clone(containers))
	delay, failed, spoil := t.delay, t.failed, t.spoil
	t.mu.Unlock()
	if pause(ctx, delay); delay > 0 && ctx.Err() != nil {
		return locations.Answer{}, fmt.Errorf("look up %d containers: %w", len(containers), ctx.Err())
	}
	if failed != nil {
		return locations.Answer{}, failed
	}
	answer, err := t.source.Lookup(ctx, containers)
	if err != nil || spoil == nil {
		return answer, err
	}
	for i, id := range containers {
		if err := spoil(id); err != nil {
			answer.Outcomes[i] = locations.Outcome{Err: err}
		}
	}
	return answer, nil
}

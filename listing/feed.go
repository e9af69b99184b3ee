package listing

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sourcegraph/conc/panics"
)

// feed takes the chunks of paths of a stream in a goroutine of its own, so that paths
// arrive while others are listed.
type feed struct {
	chunks chan []string // closed after the last
	failed error         // what next failed with; read it after chunks is closed
	ended  chan struct{} // closed when the goroutine is gone
	panics panics.Catcher
}

func startFeed(ctx context.Context, next func(context.Context) ([]string, error)) *feed {
	f := &feed{chunks: make(chan []string, 1), ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer close(f.chunks)
		f.failed = errors.New("panic while paths were received")
		f.panics.Try(func() { f.failed = f.run(ctx, next) })
	}()
	return f
}

func (f *feed) run(ctx context.Context, next func(context.Context) ([]string, error)) error {
	for {
		chunk, err := next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive paths: %w", err)
		}
		select {
		case f.chunks <- chunk:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait waits for the goroutine to end; a panic of next goes on in the caller.
func (f *feed) wait() {
	<-f.ended
	f.panics.Repanic()
}

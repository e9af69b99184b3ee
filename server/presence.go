package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// The times between attempts to reach a service that is away.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// presence is whether a service is there. Once a call has found it away no further ones are
// made, but by one goroutine, which asks now and then whether it is back.
type presence struct {
	patience time.Duration                   // for an answer
	ask      func(ctx context.Context) error // whether the service is there
	asking   context.Context                 // ends with stop
	end      context.CancelFunc
	watching sync.WaitGroup

	mu   sync.Mutex // guards what follows
	err  error      // why it is away; nil: it is there
	last time.Time  // that it answered
}

func (p *presence) start(patience time.Duration, ask func(ctx context.Context) error) {
	p.patience, p.ask = patience, ask
	p.asking, p.end = context.WithCancel(context.Background())
}

// stop ends the goroutine.
func (p *presence) stop() {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.watching.Wait()
}

// away returns why the service is away; nil: it is there, as far as is known.
func (p *presence) away() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// answered notes that the service is there.
func (p *presence) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// lost notes that a call found the service away. One that began before the service answered
// another proves nothing.
func (p *presence) lost(err error, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.last.After(began) || p.asking.Err() != nil {
		return
	}
	p.err = err
	p.watching.Go(p.watch)
}

// watch asks until the service answers: first at once, since the service may have been heard late by
// a server that was held up itself.
func (p *presence) watch() {
	for pause := time.Duration(0); ; pause = min(max(firstPause, 2*pause), longestPause) {
		select {
		case <-time.After(pause):
		case <-p.asking.Done():
			return
		}
		if p.note(p.probe()) == nil {
			return
		}
	}
}

// note notes how an attempt went.
func (p *presence) note(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err == nil {
		p.last = time.Now()
	}
	return err
}

// probe asks once, and returns why the service is still away.
func (p *presence) probe() error {
	ctx, cancel := context.WithTimeout(p.asking, p.patience)
	defer cancel()
	switch err := p.ask(ctx); {
	case err != nil && ctx.Err() != nil:
		return p.silence()
	case isOutage(err):
		return err
	}
	return nil
}

// silence is why a service is away that does not answer.
func (p *presence) silence() error {
	return fmt.Errorf("%w: no answer for %v", muster.ErrUnavailable, p.patience)
}

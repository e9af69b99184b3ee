package listing

import (
	"context"
	"errors"
	"fmt"

	"github.com/sourcegraph/conc/panics"
)

// ringMessages is how many messages a stream has: one is sent while the next one waits.
// What is gathered meanwhile needs none yet. So a client that reads slowly holds up its
// stream, and nobody else.
const ringMessages = 2

// ring has the messages of a stream; their buffers have grown.
type ring [ringMessages]Message

// pipe hands messages from the goroutine that makes them, which it owns, to the one that
// sends them, in order. Each message is in one of the channels or in one goroutine's
// hands; the channels have room for all, so that giving never waits.
type pipe struct {
	free  chan *Message // to be filled
	ready chan *Message // to be sent; closed when the goroutine has made its last

	lister *Lister
	ring   *ring
	failed error         // why it made no more; read it after ready is closed
	ended  chan struct{} // closed when the goroutine is gone
	panics panics.Catcher
}

func (l *Lister) newPipe() *pipe {
	r, ok := l.rings.Get().(*ring)
	if !ok {
		r = new(ring)
	}
	l.lent.Add(1)
	p := &pipe{free: make(chan *Message, ringMessages), ready: make(chan *Message, ringMessages), lister: l, ring: r, ended: make(chan struct{})}
	for i := range r {
		p.free <- &r[i]
	}
	return p
}

// start runs produce in a goroutine. Its failure ends the stream's context.
func (p *pipe) start(ctx context.Context, end context.CancelCauseFunc, produce func(context.Context) error) {
	go func() {
		defer close(p.ended)
		defer close(p.ready)
		p.failed = errors.New("panic while paths were listed")
		p.panics.Try(func() { p.failed = produce(ctx) })
		if p.failed != nil {
			end(p.failed)
		}
	}()
}

// deliver sends the messages in the calling goroutine until the last one is sent or the
// stream's context ends.
func (p *pipe) deliver(ctx context.Context, send func(*Message) error) error {
	for {
		select {
		case m, ok := <-p.ready:
			if !ok {
				return p.failed
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := send(m); err != nil {
				return fmt.Errorf("send rows: %w", err)
			}
			p.free <- m
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait waits for the goroutine to end and gives the buffers back; a panic of its goes on
// in the caller.
func (p *pipe) wait() {
	<-p.ended
	for i := range p.ring {
		clear(p.ring[i].Nodes[:cap(p.ring[i].Nodes)])
	}
	p.lister.lent.Add(-1)
	p.lister.rings.Put(p.ring)
	p.panics.Repanic()
}

package store

import (
	"fmt"
	"sync"

	"github.com/muster-fs/muster"
)

// gate lets calls in until it is closed.
type gate struct {
	mu     sync.Mutex // guards what follows; held for a few steps
	inside int
	closed bool
	empty  chan struct{} // made by close, closed when the last call left
}

// enter begins a call, which ends with leave.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("%w: the store of blocks is closed", muster.ErrUnavailable)
	}
	g.inside++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more, and waits for those inside. It is called once.
func (g *gate) close() {
	g.mu.Lock()
	g.closed, g.empty = true, make(chan struct{})
	if g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	<-g.empty
}

package client_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// restarts are what restarts the server, and its location service.
func (p *pair) restarts(t *testing.T) map[string]func() {
	return map[string]func(){
		"server":           func() { p.kill(); p.up() },
		"location service": func() { p.killService(); p.upService(t) },
	}
}

// TestAThousandLocatedCallsGoOnThroughRestartsOfEither: none fails, each tells where all blocks
// are, or in a status that it is not known, and none tells anything wrong.
func TestAThousandLocatedCallsGoOnThroughRestartsOfEither(t *testing.T) {
	p := startPair(t)
	c, _, where := p.fill(t)
	files := slices.Sorted(maps.Keys(where))
	const calls = 1000
	made := make(chan bool, 4*calls) // never blocks
	var callers sync.WaitGroup
	for name, call := range callsOf(c) {
		callers.Go(func() {
			for i := range calls {
				l, err := call(t.Context(), files[i%len(files)])
				if err == nil {
					err = where.check(&l, name != "stat")
				}
				if err != nil {
					t.Errorf("%s, call %d: %v", name, i, err)
				}
				made <- true
			}
		})
	}
	go func() {
		callers.Wait()
		close(made)
	}()
	for going := true; going; {
		for _, restart := range p.restarts(t) {
			for range 200 {
				_, going = <-made
			}
			restart()
		}
	}
}

// TestALocatedStreamGoesOnAfterARestartOfEither in its middle.
func TestALocatedStreamGoesOnAfterARestartOfEither(t *testing.T) {
	p := startPair(t)
	c, dirs, where := p.fill(t)
	for name, restart := range p.restarts(t) {
		restarted, rows := make(chan struct{}), map[string]bool{}
		held := func(yield func(string) bool) {
			for i, dir := range dirs {
				if i == len(dirs)/2 {
					<-restarted
				}
				if !yield(dir) {
					return
				}
			}
		}
		for b, err := range c.List(t.Context(), held, client.ListOptions{Limit: 3, Locations: muster.LocationsHint, Sorted: true}) {
			must(t, err)
			if len(rows) == 0 {
				restart()
				close(restarted)
			}
			for i := range b.Len() {
				l := b.Located(i)
				if err := where.check(&l, false); err != nil || rows[l.Path] {
					t.Errorf("restart of the %s: %s (again: %v): %v", name, l.Path, rows[l.Path], err)
				}
				rows[l.Path] = true
			}
		}
		if len(rows) != len(where) {
			t.Errorf("restart of the %s: %d of %d rows", name, len(rows), len(where))
		}
	}
}

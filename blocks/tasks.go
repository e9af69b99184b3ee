package blocks

import "sync/atomic"

// tasks counts the goroutines of a file, so that Close can wait for them. There is no lock,
// since positioned reads begin some.
type tasks struct {
	state atomic.Int64  // how many there are, and ending
	idle  chan struct{} // closed when there are none, and no more can begin
}

const ending = 1 << 32

// start runs do in a goroutine. It is false after end.
func (t *tasks) start(do func()) bool {
	for {
		n := t.state.Load()
		if n&ending != 0 {
			return false
		}
		if t.state.CompareAndSwap(n, n+1) {
			break
		}
	}
	go func() {
		defer t.stop()
		do()
	}()
	return true
}

func (t *tasks) stop() {
	if t.state.Add(-1) == ending {
		close(t.idle)
	}
}

// end lets no more begin and waits for those that run. It is called once.
func (t *tasks) end() {
	if t.state.Add(ending) == ending {
		return
	}
	<-t.idle
}

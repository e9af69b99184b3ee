package locations

import "fmt"

// Check recounts what the cache believes of itself. Idle: nobody calls and nothing is in
// flight.
func (c *Cache) Check(idle bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ring := c.clock.ring
	if len(ring) > c.opts.Size {
		return fmt.Errorf("%d entries, at most %d", len(ring), c.opts.Size)
	}
	for i, e := range ring {
		if int(e.slot) != i || c.index.find(e.placement.Container) != e {
			return fmt.Errorf("slot %d has the entry of container %d, whose slot is %d", i, e.placement.Container, e.slot)
		}
		if !e.placement.Usable() || e.sequence > c.sequence {
			return fmt.Errorf("kept %+v of load %d, the newest is %d", e.placement, e.sequence, c.sequence)
		}
	}
	chained := 0
	for i := range c.index.chains {
		for e := c.index.chains[i].Load(); e != nil; e = e.next.Load() {
			chained++
		}
	}
	if chained != len(ring) {
		return fmt.Errorf("%d entries in chains, %d in the clock", chained, len(ring))
	}
	for id, f := range c.flights {
		if f.loads < 1 || f.last != nil && f.last.ids[f.at] != id {
			return fmt.Errorf("flight of container %d: %+v", id, f)
		}
	}
	if idle && (len(c.flights) > 0 || len(c.queue) > 0 || c.running > 0 || c.count.Loading > 0) {
		return fmt.Errorf("idle, with %d flights, %d queued, %d workers, %d loading", len(c.flights), len(c.queue), c.running, c.count.Loading)
	}
	return nil
}

// Longest returns the length of the longest chain of the index.
func (c *Cache) Longest() (n int) {
	for i := range c.index.chains {
		length := 0
		for e := c.index.chains[i].Load(); e != nil; e = e.next.Load() {
			length++
		}
		n = max(n, length)
	}
	return n
}

// Passed returns the number of entries with less readings noted than there can be: those
// that the hand has passed, if all were read often.
func (c *Cache) Passed() (n int) {
	for _, e := range c.clock.ring {
		if e.used.Load() < mostUsed {
			n++
		}
	}
	return n
}

// Locked runs f while the cache's lock is held.
func (c *Cache) Locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

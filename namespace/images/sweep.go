package images

// trim brings the cache back under its budget after size bytes were put. It begins
// when a sixteenth of the budget is left, at a pace that finds what is not in use
// before that is gone, and yet is a matter of microseconds. mu is held.
func (c *Cache) trim(size int) {
	work := min(16*size, max(c.slabs.size, 2*size))
	for work > 0 && c.bytes() > c.budget-c.budget/16 {
		n := c.sweep(true)
		if n == 0 {
			return
		}
		work -= n
	}
	for c.bytes() > c.budget && c.sweep(false) != 0 {
	}
}

// sweep looks at the next of the oldest items: it moves on if it was read and there is
// mercy, else it is evicted. Sweep returns the size of what it looked at, 0 if there is
// nothing. mu is held.
func (c *Cache) sweep(mercy bool) int {
	s := c.victim
	if s == nil {
		if s = c.oldest(); s == nil {
			return 0
		}
		s.queue.remove(s)
		c.victim, c.hand = s, 0
	}
	if s.live == 0 { // it was open, so that it outlived its items
		c.free(s)
		return itemHeader
	}
	offset := c.hand
	key, since, item := s.item(offset)
	c.hand += itemSize(len(item))
	h := hash(key)
	if e, w := c.index.live(h, key); e != nil && w&^referenced == s.at(offset) {
		if mercy && w&referenced != 0 {
			c.promote(e, s, key, since, item)
		} else {
			c.evict(h, key, e, w)
		}
	}
	return itemSize(len(item))
}

// oldest is the slab to look at next: of probation if that has more than its tenth.
func (c *Cache) oldest() *slab {
	if c.main.head == nil || c.probation.bytes > c.budget/10 {
		return c.probation.head
	}
	return c.main.head
}

// promote moves an item of the victim s to the end of the main queue.
func (c *Cache) promote(e *slot, s *slab, key, since uint64, item []byte) {
	c.count.promotions++
	size := itemSize(len(item))
	if c.slabs.alone(size) { // all that is in s: no need to copy
		e.loc.And(^uint64(referenced))
		c.victim = nil
		c.main.push(s)
		return
	}
	w, ok := c.append(&c.main, key, since, item)
	if !ok {
		c.evict(hash(key), key, e, location(e.loc.Load()))
		return
	}
	e.loc.Store(uint64(w))
	c.left(s, size)
}

// evict removes an item for want of memory. The ghost remembers what could not prove
// itself in probation, and what was in use.
func (c *Cache) evict(h, key uint64, e *slot, w location) {
	if w&referenced != 0 || c.slabs.at(w).queue == &c.probation {
		c.ghost.add(h, key)
	}
	c.kill(h, e)
	c.count.evictions++
}

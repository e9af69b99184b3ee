package images

// queue is slabs, oldest first. Cache.mu guards it.
type queue struct {
	head, tail *slab
	open       *slab // takes further items; nil: none
	bytes      int64
}

func (q *queue) push(s *slab) {
	s.queue, s.prev, s.next = q, q.tail, nil
	if q.tail == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
	q.bytes += int64(len(s.buf))
}

func (q *queue) remove(s *slab) {
	if s.prev == nil {
		q.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	if q.open == s {
		q.open = nil
	}
	q.bytes -= int64(len(s.buf))
}

// append writes an item to the end of q; not ok: there is no slab left. mu is held.
func (c *Cache) append(q *queue, key, since uint64, item []byte) (w location, ok bool) {
	size := itemSize(len(item))
	s := q.open
	switch {
	case c.slabs.alone(size):
		s = c.slabs.add(size)
	case s == nil || !s.room(size):
		s = c.slabs.add(c.slabs.size)
	}
	if s == nil {
		return 0, false
	}
	if s.queue == nil {
		q.push(s)
		if !c.slabs.alone(size) {
			c.seal(q)
			q.open = s
		}
	}
	c.count.items++
	c.count.live += int64(size)
	return s.add(key, since, item), true
}

// seal ends the filling of q's open slab. mu is held.
func (c *Cache) seal(q *queue) {
	s := q.open
	q.open = nil
	if s != nil && s.live == 0 {
		c.free(s)
	}
}

// free takes a slab out of the cache. mu is held.
func (c *Cache) free(s *slab) {
	if c.victim == s {
		c.victim = nil
	} else {
		s.queue.remove(s)
	}
	c.slabs.remove(s)
}

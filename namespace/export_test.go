package namespace

// SmallImages makes images of so few rows that small directories are held in ranges.
func (o Options) SmallImages(rows int) Options {
	o.imageRows = rows
	return o
}

// EvictImages drops the images that pick chooses, as if memory had run out.
func (t *Tree) EvictImages(pick func(key uint64) bool) int { return t.loads.cache.Evict(pick) }

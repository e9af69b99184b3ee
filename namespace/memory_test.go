package namespace

import (
	"runtime/debug"
	"testing"
)

func TestMemoryLimitHoldsWhatATreeKeeps(t *testing.T) {
	const gib = 1 << 30
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 * gib)) // of which the defaults are a part
	for name, test := range map[string]struct {
		o           Options
		least, most int64
	}{
		"defaults":     {Options{}, 2*gib - gib/8, 2*gib + gib/2},
		"no images":    {Options{ImageBytes: 1}, gib / 4, gib * 3 / 4},
		"large images": {Options{ImageBytes: 8 * gib, CacheBytes: gib}, 9 * gib, 11 * gib},
		"too large":    {Options{ImageBytes: 100 * gib}, 57 * gib, 58 * gib},
	} {
		if got := test.o.MemoryLimit(); got < test.least || got > test.most {
			t.Errorf("%s: %d MiB", name, got>>20)
		}
	}
}

package namespace

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestHowADirectoryIsPartedIsBounded: what says so begins anew when it is large, and the directory is
// listed as ever.
func TestHowADirectoryIsPartedIsBounded(t *testing.T) {
	const files = 1000
	tree := openMem(t, Options{ImageBytes: 64 << 20, imageRows: 16})
	load(t, tree, "/t", 1, files)
	id := idOf(t, tree, "/t/d000000")
	parts := []part{{}}
	for i := range maxRanges / (8 + 4 + 40) {
		parts = append(parts, part{0, fmt.Appendf(nil, "g%039d", i)})
	}
	tree.loads.mu.Lock()
	tree.loads.cache.Put(id, 0, appendRanges(nil, parts))
	tree.loads.mu.Unlock()
	for range 2 {
		if got := names(t, tree, "/t/d000000"); len(got) != files || !slices.IsSorted(got) {
			t.Fatalf("%d names", len(got))
		}
	}
	item, _, ok := tree.loads.cache.Get(id, math.MaxUint64)
	if !ok || item[0] != itemRanges || len(item) > maxRanges/4 {
		t.Errorf("%d bytes", len(item))
	}
	before := tree.Stats().Images.Loads
	names(t, tree, "/t/d000000")
	if n := tree.Stats().Images.Loads - before; n > 0 {
		t.Errorf("%d loads of what is in memory", n)
	}
	for _, s := range [][]part{tree.loads.old, tree.loads.parts} {
		for _, p := range s[:cap(s)] {
			if p.low != nil {
				t.Fatalf("scratch keeps %q", p.low)
			}
		}
	}
}

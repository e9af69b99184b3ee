package namespace

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAnOverlayTakesBackRequests holds an overlay against plain maps, of which one is copied when a
// request begins.
func TestAnOverlayTakesBackRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o overlay[int, int]
		o.reset()
		now, begun := map[int]int{}, map[int]int{}
		key := rapid.IntRange(0, 20)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { sameOverlay(t, &o, now) },
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
				o.set(k, v)
				now[k] = v
			},
			"begin": func(*rapid.T) {
				o.begin()
				begun = maps.Clone(now)
			},
			"rollback": func(*rapid.T) {
				o.rollback()
				now = maps.Clone(begun)
			},
			"reset": func(*rapid.T) {
				o.reset()
				now, begun = map[int]int{}, map[int]int{}
			},
		})
	})
}

func sameOverlay(t *rapid.T, o *overlay[int, int], want map[int]int) {
	for k := range 21 {
		got, ok := o.get(k)
		if v, known := want[k]; got != v || ok != known {
			t.Fatalf("key %d: %d, %v; want %d, %v", k, got, ok, v, known)
		}
	}
	var keys []int
	for e := range o.sorted(func(a, b *int) int { return cmp.Compare(*a, *b) }) {
		keys = append(keys, e.key)
		if e.value != want[e.key] {
			t.Fatalf("sorted: key %d: %d, want %d", e.key, e.value, want[e.key])
		}
	}
	if !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("sorted: %d", keys)
	}
}

// TestALargeOverlayIsNotKept: a group of many writes does not make all later ones slow.
func TestALargeOverlayIsNotKept(t *testing.T) {
	var o overlay[int, []byte]
	for _, n := range []int{keptEntries + 1, 10} {
		o.reset()
		o.begin()
		for i := range n {
			o.set(i, nil)
		}
	}
	if cap(o.entries) > keptEntries {
		t.Errorf("room for %d entries", cap(o.entries))
	}
}

package client_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/muster-fs/muster/client"
)

// Server and client are in this process, so what is live is what both hold. A call that
// kept its paths, or their outcomes, would hold more than 46 MB at the end.
func TestBothSidesOfALongCallHoldLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("400,000 paths take seconds")
	}
	const n, most = 400_000, 24 << 20
	c := connect(t)
	dir := "/" + strings.Repeat("d", 92) // paths of 100 bytes
	plant(t, c, names(dir+"/", 10)...)   // ten of which are files
	before := liveBytes()
	paths := func(yield func(string) bool) {
		for i := range n {
			if !yield(fmt.Sprintf("%s/%06d", dir, i%1000)) {
				return
			}
		}
	}
	finished, checked := 0, 0
	for b, err := range c.List(t.Context(), paths, client.ListOptions{}) {
		must(t, err)
		if finished += len(b.Outcomes); finished/(n/10) == checked {
			continue
		}
		checked = finished / (n / 10)
		if held := liveBytes() - before; held > most {
			t.Fatalf("%d MiB are held after %d paths", held>>20, finished)
		}
	}
	if finished != n || checked != 10 {
		t.Fatalf("%d outcomes, looked %d times", finished, checked)
	}
}

// liveBytes returns the size of all that is reachable.
func liveBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

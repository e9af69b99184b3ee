package namespace_test

import (
	"runtime"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Pebble leaves its log's goroutine behind when opening a store fails. A store that is not
	// closed shows by its other goroutines.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/record.(*LogWriter).flushLoop"))
}

// bubble runs f in a bubble of synctest and with a store in it. Pebble keeps channels in
// pools, and nobody outside may use those of a bubble: two collections empty the pools.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer func() {
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, f)
}

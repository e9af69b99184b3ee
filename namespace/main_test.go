package namespace_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Pebble leaves its log's goroutine behind when opening a store fails. A store that is not
	// closed shows by its other goroutines.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/record.(*LogWriter).flushLoop"))
}

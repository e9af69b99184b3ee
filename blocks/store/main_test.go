package store_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Pebble leaves its log's goroutine behind when opening a store fails.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/record.(*LogWriter).flushLoop"))
}

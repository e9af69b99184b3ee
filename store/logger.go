package store

import (
	"fmt"
	"log/slog"
)

// storeLogger passes on what the store says. What the store calls fatal stops all writing
// instead of the process.
type storeLogger struct {
	log *slog.Logger
	fs  *failStop
}

// Infof implements pebble.Logger.
func (l storeLogger) Infof(format string, args ...any) {
	l.log.Debug("store: " + fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (l storeLogger) Errorf(format string, args ...any) {
	l.log.Error("store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It returns, and what follows finds a disk that refuses.
func (l storeLogger) Fatalf(format string, args ...any) { l.fs.trip(fmt.Sprintf(format, args...)) }

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// temporaryFolder makes a folder that its caller removes. From now on a reader of standard output
// that goes away, as head does, fails a write: ended by a signal, nobody would remove the folder.
func temporaryFolder(pattern string) (string, error) {
	signal.Ignore(syscall.SIGPIPE)
	return os.MkdirTemp("", pattern)
}

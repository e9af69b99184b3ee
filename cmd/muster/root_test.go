package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
)

// fullDisk is an output that cannot be written.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	a := startApp(t)
	t.Setenv("MUSTER_SERVER", a.config.Client.Server)
	for _, args := range [][]string{
		{"version"}, {"config", "print"}, {"status"}, {"status", "-o", "json"}, {"fsck"}, {"fsck", "-o", "json"}, {"import", t.TempDir(), "/x"},
	} {
		var stderr bytes.Buffer
		if code := run(args, strings.NewReader(""), fullDisk{}, &stderr); code != exitFailed {
			t.Errorf("%v: exit code %d, want %d; %s", args, code, exitFailed, &stderr)
		}
		if want := "muster: " + args[0]; !strings.HasPrefix(stderr.String(), want) || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: it says %s", args, &stderr)
		}
	}
}

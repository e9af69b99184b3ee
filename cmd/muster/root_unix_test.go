//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

func TestInterruptEndsARunThatWaitsForInput(t *testing.T) {
	a := startApp(t)
	t.Setenv("MUSTER_SERVER", a.config.Client.Server)
	// The run stops listening to signals at the first one; the test must survive too.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)

	for _, args := range [][]string{
		{"mkdir", "-"}, {"ls", "-"}, {"ls", "-1", "-"}, {"find", "-"}, {"du", "-"}, {"count", "-"}, {"tree", "-"},
		{"stat", "-"}, {"stat", "-L", "-"},
	} {
		in, typing := io.Pipe()
		var stdout, stderr bytes.Buffer
		code := make(chan int)
		go func() { code <- run(args, in, &stdout, &stderr) }()
		line := "/\n"
		if args[0] == "mkdir" {
			line = "/a\n"
		}
		if _, err := io.WriteString(typing, line); err != nil { // returns when it was read
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if got := <-code; got != exitInterrupted {
			t.Errorf("%v: exit code %d, want %d; %s", args, got, exitInterrupted, &stderr)
		}
		if args[0] == "mkdir" && stdout.Len() > 0 || stderr.Len() > 0 {
			t.Errorf("%v: it printed %s%s", args, &stdout, &stderr)
		}
		<-signals // or the next run may be hit by it
		if err := typing.Close(); err != nil {
			t.Error(err)
		}
	}
}

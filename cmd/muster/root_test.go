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

	in, typing := io.Pipe()
	var stdout, stderr bytes.Buffer
	code := make(chan int)
	go func() { code <- run([]string{"mkdir", "-"}, in, &stdout, &stderr) }()
	if _, err := io.WriteString(typing, "/a\n"); err != nil { // returns when it was read
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != exitInterrupted {
		t.Errorf("exit code %d, want %d; %s", got, exitInterrupted, &stderr)
	}
	if stdout.Len()+stderr.Len() > 0 {
		t.Errorf("it printed %s%s", &stdout, &stderr)
	}
	if err := typing.Close(); err != nil {
		t.Error(err)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/configs"
)

func TestAServerWhoseDiskIsFullExitsAndKeepsWhatItAcknowledged(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	// Files that may not grow fail in writes, as on a full disk.
	up := exec.Command(shell, "-c", `ulimit -f 256 && exec muster up --data "$0" --listen 127.0.0.1:0`, dir)
	var log bytes.Buffer
	up.Stderr = &log
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	ready := readyLine.FindStringSubmatch(line)
	if ready == nil {
		t.Fatalf("ready line %q, %v; %v; log:\n%s", line, err, up.Wait(), &log)
	}

	ctx, cancel := context.WithCancel(t.Context())
	acknowledged := make(chan int)
	go func() { acknowledged <- fillUntilRefused(ctx, t, ready[1]) }()
	err = up.Wait()
	cancel() // the client would try for a minute more
	made := <-acknowledged
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("up ended with %v, want exit code %d", err, exitFailed)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "muster: up: ") || strings.Count(last, "the store failed: write ") != 1 {
		t.Errorf("the last line is %s", last)
	}
	if strings.Contains(log.String(), ".go:") {
		t.Errorf("the log has a stack:\n%s", &log)
	}

	a := startAppIn(t, dir)
	names, err := mustClient(t, a).ReadDir(t.Context(), "/")
	if err != nil || len(names) < made {
		t.Errorf("%d of %d acknowledged directories are there, %v", len(names), made, err)
	}
}

// fillUntilRefused makes directories until the server fails, and returns how many it
// has acknowledged.
func fillUntilRefused(ctx context.Context, t *testing.T, address string) (made int) {
	a := &app{config: configs.Default()}
	a.config.Client.Server = address
	c, err := a.client(ctx)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = c.Close() }()
	pad := strings.Repeat("x", muster.MaxNameBytes-10)
	for {
		if _, err := c.Apply(ctx, muster.Mkdir{Path: fmt.Sprintf("/%s%d", pad, made), Mode: 0o755}); err != nil {
			return made
		}
		made++
	}
}

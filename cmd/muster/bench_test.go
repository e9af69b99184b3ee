package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fs/muster/bench"
)

func TestOtherRowsFailABenchmark(t *testing.T) {
	good := bench.Result{Shape: "30000x1", Place: "loopback", Arm: "stream", Goroutines: 1, Statuses: 30_000, Calls: 1, RowsEqual: true}
	if err := judge([]bench.Result{good, good}); err != nil {
		t.Error(err)
	}
	bad := good
	bad.Arm, bad.RowsEqual = "pages-100", false
	err := judge([]bench.Result{good, bad, good})
	if err == nil || !strings.Contains(err.Error(), "30000x1, loopback: pages-100") {
		t.Errorf("an arm that saw other rows: %v", err)
	}
	var out, stderr bytes.Buffer
	a := &app{stdout: &out, stderr: &stderr, verb: "bench listing"}
	if err := a.printListing([]bench.Result{good, bad}, false); err != nil || strings.Count(out.String(), "DIFFER") != 1 {
		t.Errorf("%v; the table is\n%s", err, &out)
	}
	if code := a.exitCode(t.Context(), err); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
}

// TestABenchmarkWhoseReaderGoesAwayLeavesNoFolder: as with head.
func TestABenchmarkWhoseReaderGoesAwayLeavesNoFolder(t *testing.T) {
	temp := t.TempDir()
	cmd := exec.Command("muster", "bench", "listing", "--place", "loopback", "--arm", "stream", "--shape", "10x1", "--rounds", "1", "--round-time", "5ms", "-o", "json")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := stdout.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("%v, want exit code %d", err, exitFailed)
	}
	if left, err := filepath.Glob(temp + "/*"); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

// TestABenchmarkThatEndsEarlyLeavesNoProcess: its processes have its standard error too, so that
// this ends when the last of them has.
func TestABenchmarkThatEndsEarlyLeavesNoProcess(t *testing.T) {
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "terminated": syscall.SIGTERM, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			// The first line comes when one shape is done, in the last place; others are to follow.
			cmd := exec.Command("muster", "bench", "listing", "--place", "loopback+1ms", "--arm", "stream",
				"--shape", "10x1,20x1,30x1,40x1,50x1,60x1", "--rounds", "20", "--round-time", "50ms", "-o", "json")
			cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			if _, err := log.ReadFrom(stderr); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if signal == os.Kill {
				return // nobody could remove its folder
			}
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || log.Len() > 0 {
				t.Errorf("exit code %d, want %d; it said %q", code, exitInterrupted, &log)
			}
			if left, err := filepath.Glob(temp + "/*"); err != nil || len(left) > 0 {
				t.Errorf("%q is left, %v", left, err)
			}
		})
	}
}

package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// checked runs the tests and then looks for goroutines that they left behind.
type checked struct{ *testing.M }

func (m checked) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){
		"muster": main,
	})
}

// TestScripts runs the transcripts of testdata/script. Beside the commands of
// testscript they have
//
//	server [FLAG...]   starts muster up on $WORK/data and sets MUSTER_SERVER
//	stop-server        stops it, which must go well
//	kill-server        kills it, as a crash would
//	datanodes COUNT    makes datanodes join it: dn0 in rack /r0, dn1 in /r1 ...
//	put PATH REPLICATION BLOCKS
//	                   makes a file of blocks of 100 bytes on them
//
// and the condition [root].
func TestScripts(t *testing.T) { testscript.Run(t, scriptParams()) }

func scriptParams() testscript.Params {
	return testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey{}] = new(testServer)
			// Under the race detector each program would sleep for a second when it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("unknown condition %s", cond)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":      startServer,
			"stop-server": stopServer,
			"kill-server": killServer,
			"datanodes":   joinNodes,
			"put":         putFile,
		},
	}
}

// testServer is the server of one script.
type testServer struct {
	cmd *exec.Cmd // nil: none is running
}

type serverKey struct{}

var readyLine = regexp.MustCompile(`^muster is ready on (\S+), data in `)

func startServer(ts *testscript.TestScript, neg bool, flags []string) {
	server := ts.Value(serverKey{}).(*testServer)
	if neg || server.cmd != nil {
		ts.Fatalf("server: one at a time, and it must start")
	}
	binary, err := exec.LookPath("muster")
	ts.Check(err)
	args := append([]string{"up", "--data", ts.MkAbs("data"), "--listen", "127.0.0.1:0"}, flags...)
	cmd := exec.Command(binary, args...)
	cmd.Dir = ts.Getenv("WORK")
	stderr, err := os.Create(filepath.Join(cmd.Dir, "server.log"))
	ts.Check(err)
	defer stderr.Close()
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	server.cmd = cmd
	ts.Defer(func() { stopServer(ts, false, nil) })

	line, err := bufio.NewReader(stdout).ReadString('\n')
	match := readyLine.FindStringSubmatch(line)
	if match == nil {
		ts.Fatalf("server: ready line %q, %v; log:\n%s", line, err, ts.ReadFile("server.log"))
	}
	ts.Setenv("MUSTER_SERVER", match[1])
}

func stopServer(ts *testscript.TestScript, neg bool, args []string) {
	if err := endServer(ts, neg, args, syscall.SIGTERM); err != nil {
		ts.Fatalf("server: %v; log:\n%s", err, ts.ReadFile("server.log"))
	}
}

func killServer(ts *testscript.TestScript, neg bool, args []string) {
	if err := endServer(ts, neg, args, syscall.SIGKILL); err == nil {
		ts.Fatalf("no server was running, or it ended before it was killed")
	}
}

// endServer returns how the script's server ended; nil if there is none.
func endServer(ts *testscript.TestScript, neg bool, args []string, signal os.Signal) error {
	server := ts.Value(serverKey{}).(*testServer)
	if neg || len(args) > 0 {
		ts.Fatalf("stop-server and kill-server take no arguments, and must go well")
	}
	if server.cmd == nil {
		return nil
	}
	cmd := server.cmd
	server.cmd = nil
	ts.Check(cmd.Process.Signal(signal))
	return cmd.Wait()
}

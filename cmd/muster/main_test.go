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
	"time"

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
//	locations [FLAG...]
//	                   starts muster locations on $WORK/locations and sets LOCATIONS; its key is
//	                   in $WORK/cluster.key
//	stop-locations     stops it, which must go well
//	datanodes COUNT    makes datanodes join it, or else the server: dn0 in rack /r0, dn1 in /r1 ...
//	datanode ID HOST ADDRESS
//	                   makes one more join, which leaves its rack to the rack file
//	put PATH REPLICATION BLOCKS
//	                   makes a file of blocks of 100 bytes on them
//	await PATTERN COMMAND [ARG...]
//	                   runs a command again and again until its output matches
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
			env.Values[locationsKey{}] = new(testServer)
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

			"locations":      startLocations,
			"stop-locations": stopLocations,
			"datanodes":      joinNodes,
			"datanode":       joinNode,
			"put":            putFile,

			"await": await,
		},
	}
}

// await runs a command until its standard output matches, as it does when the servers have
// found out what changed.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%v: no output matches %#q; the last: %v", args[1:], args[0], err)
		}
	}
}

// testServer is a server of one script.
type testServer struct {
	cmd *exec.Cmd // nil: none is running
}

type serverKey struct{}

var readyLine = regexp.MustCompile(`^muster (?:locations |datanode )?is ready on (\S+), data in `)

func startServer(ts *testscript.TestScript, neg bool, flags []string) {
	args := append([]string{"up", "--data", ts.MkAbs("data"), "--listen", "127.0.0.1:0", "--datanodes", "0"}, flags...)
	ts.Value(serverKey{}).(*testServer).start(ts, neg, args, "server.log", "MUSTER_SERVER")
	ts.Defer(func() { stopServer(ts, false, nil) })
}

// start starts a server, and sets the variable to its address.
func (server *testServer) start(ts *testscript.TestScript, neg bool, args []string, log, variable string) {
	if neg || server.cmd != nil {
		ts.Fatalf("%s: one at a time, and it must start", args[0])
	}
	binary, err := exec.LookPath("muster")
	ts.Check(err)
	cmd := exec.Command(binary, args...)
	cmd.Dir = ts.Getenv("WORK")
	stderr, err := os.Create(filepath.Join(cmd.Dir, log))
	ts.Check(err)
	defer stderr.Close()
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	server.cmd = cmd
	line, err := bufio.NewReader(stdout).ReadString('\n')
	match := readyLine.FindStringSubmatch(line)
	if match == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		server.cmd = nil
		ts.Fatalf("%s: ready line %q, %v; log:\n%s", args[0], line, err, ts.ReadFile(log))
	}
	ts.Setenv(variable, match[1])
}

func stopServer(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Value(serverKey{}).(*testServer).end(ts, neg, args, syscall.SIGTERM); err != nil {
		ts.Fatalf("server: %v; log:\n%s", err, ts.ReadFile("server.log"))
	}
}

func killServer(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Value(serverKey{}).(*testServer).end(ts, neg, args, syscall.SIGKILL); err == nil {
		ts.Fatalf("no server was running, or it ended before it was killed")
	}
}

// end ends the server and returns how that went; nil if there is none.
func (server *testServer) end(ts *testscript.TestScript, neg bool, args []string, signal os.Signal) error {
	if neg || len(args) > 0 {
		ts.Fatalf("what ends a server takes no arguments, and must go well")
	}
	if server.cmd == nil {
		return nil
	}
	cmd := server.cmd
	server.cmd = nil
	ts.Check(cmd.Process.Signal(signal))
	return cmd.Wait()
}

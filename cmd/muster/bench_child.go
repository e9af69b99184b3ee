package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fs/muster/bench"
)

// childGrace is how long a process that was told to stop may take before it is killed.
const childGrace = 15 * time.Second

// ready is the line of a process that listens.
var ready = regexp.MustCompile(`^muster (?:locations |datanode )?is ready on (\S+), `)

// startChild starts this program again, as a process of its own that ends with this one,
// and returns when it is ready. When ctx ends it stops by itself.
func (a *app) startChild(ctx context.Context, args ...string) (*bench.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// The pipe on its standard input is its lifeline: it stops when that is closed, by us
	// or because we are gone.
	args = slices.Concat(args, []string{"--stop-with-stdin"})
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = withoutConfiguration(os.Environ())
	cmd.Stderr = a.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel, cmd.WaitDelay = stdin.Close, childGrace
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	verbs := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	name := "muster " + strings.Join(args[:verbs], " ")
	wait := sync.OnceValue(cmd.Wait)
	stop := func() error {
		_ = stdin.Close()
		defer time.AfterFunc(childGrace, func() { _ = cmd.Process.Kill() }).Stop()
		err := wait()
		if err == nil || ctx.Err() != nil {
			return nil // it was told to, and perhaps before it was ready
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	match := ready.FindStringSubmatch(line)
	if match == nil {
		if errors.Is(err, io.EOF) {
			err = nil // how it ended says more
		}
		return nil, errors.Join(fmt.Errorf("%s did not start", name), err, stop(), ctx.Err())
	}
	return &bench.Process{Addr: match[1], Stop: stop, Kill: func() error {
		err := cmd.Process.Kill()
		_ = wait() // it says that it was killed
		return err
	}}, nil
}

// withoutConfiguration returns an environment without what configures Muster: an
// experiment's processes are as their flags say.
func withoutConfiguration(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		if !strings.HasPrefix(variable, "MUSTER_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// parentFlags are for processes that another one has started for its own use.
type parentFlags struct {
	stopWithStdin bool
	cpuProfile    string
}

func (p *parentFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&p.stopWithStdin, "stop-with-stdin", false, "stop when standard input ends")
	flags.StringVar(&p.cpuProfile, "cpu-profile", "", "write a CPU profile to this `FILE`")
	for _, name := range []string{"stop-with-stdin", "cpu-profile"} {
		_ = flags.MarkHidden(name) // it exists
	}
}

// run calls serve, whose context ends as the flags say.
func (p *parentFlags) run(ctx context.Context, stdin io.Reader, serve func(context.Context) error) (err error) {
	if p.cpuProfile != "" {
		var f *os.File
		if f, err = os.Create(p.cpuProfile); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if p.stopWithStdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() { // ends with the process at the latest
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	return serve(ctx)
}

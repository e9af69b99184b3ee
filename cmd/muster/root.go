package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/configs"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// app is what the verbs of one run share. It is used by one goroutine: a verb that
// starts others collects their failures itself.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	config configs.Config // loaded before a verb runs
	reader string         // what --reader says, which config.Client.Reader is then

	verb    string // the running verb; empty while the command line is parsed
	failed  bool   // a path failed
	dialled *client.Client
}

// run runs one command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills

	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if a.dialled != nil {
		err = errors.Join(err, a.dialled.Close())
	}
	return a.exitCode(ctx, err)
}

// newRootCommand builds the whole command line around a.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "A file-system metadata service that lists thousands of directories in one call",
		Long: `Muster keeps the metadata of a file system (names, sizes, times, owners, blocks)
and lists thousands of directories in one call.

  muster up --data DIR             start a server
  muster import SRC /dst           bring in a real tree
  muster find /dst -type d -print0 | muster ls -0 -
                                   list every directory of it in one call

Paths are absolute; what is given without a leading slash is taken from the root.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate(versionLine())
	flags := root.PersistentFlags()
	flags.String("config", "", "read the configuration from this `FILE` (MUSTER_CONFIG)")
	flags.String("server", "", "`HOST:PORT` of the server (MUSTER_SERVER)")
	flags.String("user", "", "act as this `USER` (MUSTER_USER)")
	flags.StringSlice("groups", nil, "with --user: the user's `GROUPS`, separated by commas (MUSTER_GROUPS)")

	a.addGroup(root, "The server", nil,
		newDemoCommand(a),
		newBenchCommand(a),
		newUpCommand(a),
		newLocationsCommand(a),
		newDatanodeCommand(a),
		newAdminCommand(a),
		newStatusCommand(a),
		newFsckCommand(a),
		newConfigCommand(a),
	)
	a.addGroup(root, "Read the tree", a.completePaths,
		newLsCommand(a),
		newFindCommand(a),
		newDuCommand(a),
		newCountCommand(a),
		newTreeCommand(a),
		newStatCommand(a),
		newLocateCommand(a),
	)
	a.addGroup(root, "Change the tree", a.completePaths,
		newImportCommand(a),
		newMkdirCommand(a),
		newTouchCommand(a),
		newLnCommand(a),
		newMvCommand(a),
		newRmCommand(a),
		newChmodCommand(a),
		newChownCommand(a),
	)
	a.addGroup(root, "Read and write files", a.completePaths,
		newPutCommand(a),
		newGetCommand(a),
		newCatCommand(a),
		newHeadCommand(a),
		newTailCommand(a),
		newCpCommand(a),
		newChecksumCommand(a),
	)
	root.AddCommand(newVersionCommand(a)) // works whatever the configuration
	refuseUnknownTopics(root)
	return root
}

// refuseUnknownTopics makes help and completion, which cobra adds, refuse what they do not
// know: they would print their usage and call that a success.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		case "completion": // arguments are checked of what runs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// addGroup adds verbs to root under a common heading of the help. Their arguments are
// completed by complete, if the verb does not say otherwise.
func (a *app) addGroup(root *cobra.Command, heading string, complete cobra.CompletionFunc, verbs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading + ":"})
	for _, verb := range verbs {
		verb.GroupID = heading
		if verb.ValidArgsFunction == nil {
			verb.ValidArgsFunction = complete
		}
		a.prepare(verb)
	}
	root.AddCommand(verbs...)
}

// prepare wraps cmd and the commands below it: before one runs, the configuration is
// loaded. All that fails up to there is wrong usage.
func (a *app) prepare(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	for _, sub := range cmd.Commands() {
		a.prepare(sub)
	}
	runE := cmd.RunE
	if runE == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		a.verb = strings.TrimPrefix(cmd.CommandPath(), "muster ")
		return runE(cmd, args)
	}
}

// load loads the configuration for cmd.
func (a *app) load(cmd *cobra.Command) (err error) {
	file, _ := cmd.Flags().GetString("config")
	a.config, err = configs.Load(configs.Sources{File: file, Flags: cmd.Flags(), Role: cmd.Annotations[roleAnnotation]})
	return err
}

// client returns the connection to the server, dialled at the first call.
func (a *app) client(ctx context.Context) (*client.Client, error) {
	if a.dialled != nil {
		return a.dialled, nil
	}
	c := a.config.Client
	dialled, err := client.Dial(ctx, c.Server, client.Options{
		User:        c.User,
		Groups:      c.Groups,
		Connections: c.Connections,
		Reader:      c.Reader,
		Umask:       client.NoUmask, // verbs take the configured one away themselves
	})
	if errors.Is(err, muster.ErrUnavailable) {
		return nil, fmt.Errorf("%w (muster up starts a server, --server names another)", err)
	}
	if err != nil {
		return nil, err
	}
	a.dialled = dialled
	return dialled, nil
}

// fail reports that path failed: the others go on, and the exit code will be 1. What
// fails because the run was interrupted is not reported.
func (a *app) fail(path string, err error) {
	a.failed = true
	if !errors.Is(err, context.Canceled) {
		a.errorf("%s: %s", shown(path), reason(err))
	}
}

// errorf prints a line that names the running verb to standard error.
func (a *app) errorf(format string, args ...any) {
	prefix := "muster: "
	if a.verb != "" {
		prefix += a.verb + ": "
	}
	fmt.Fprintf(a.stderr, prefix+format+"\n", args...)
}

// exitCode prints err and returns the run's exit code.
func (a *app) exitCode(ctx context.Context, err error) int {
	var usage *usageError
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	case err != nil && a.verb == "", errors.As(err, &usage):
		a.errorf("%v", err)
		return exitUsage
	case err != nil:
		a.errorf("%s", strings.TrimPrefix(err.Error(), a.verb+": ")) // the client names its call
		return exitFailed
	case a.failed && ctx.Err() != nil:
		return exitInterrupted
	case a.failed:
		return exitFailed
	}
	return exitOK
}

// usageError is wrong usage that a verb found itself.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// usagef returns an error that makes the exit code 2.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// isTerminal says whether a person sees what is written to w, or types what is read.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

package client_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// must fails the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryCommandDoesWhatItsNameInOsDoes(t *testing.T) {
	c, ctx := connect(t), t.Context()
	must(t, c.Mkdir(ctx, "/d", 0o777))
	must(t, c.MkdirAll(ctx, "/d/e/f", 0o700))
	must(t, c.MkdirAll(ctx, "/d/e/f", 0o755)) // exists: no error, no change
	when := time.UnixMilli(1_700_000_000_123).UTC()
	id, err := c.CreateEntry(ctx, "/d/file", client.CreateOptions{
		Length: 300, BlockSize: 200, Replication: muster.Replicated(3), MTime: when, ATime: when.Add(time.Second),
		Blocks: []muster.Block{{Container: 1, LocalID: 2, Length: 200}, {Container: 3, LocalID: 4, Length: 100}},
		Owner:  "ada", Group: "staff",
	})
	must(t, err)
	must(t, c.Symlink(ctx, "file", "/d/link"))

	info, err := c.Stat(ctx, "/d//link/")
	must(t, err)
	if info.Path != "/d/link" || info.Name() != "link" || info.Size() != 300 || info.Mode() != 0o644 || info.Entry.ID != id ||
		!info.ModTime().Equal(when) || info.Entry.Owner != "ada" || info.Entry.Group != "staff" || len(info.Entry.Blocks) != 2 {
		t.Errorf("stat through a link: %+v", info)
	}
	info, err = c.Lstat(ctx, "/d/link")
	must(t, err)
	if info.Mode().Type() != fs.ModeSymlink || info.Entry.Target != "file" {
		t.Errorf("lstat of a link: %+v", info)
	}
	if target, err := c.ReadLink(ctx, "/d/link"); err != nil || target != "file" {
		t.Errorf("readlink: %q, %v", target, err)
	}

	must(t, c.Chmod(ctx, "/d", 0o777|fs.ModeSticky))
	must(t, c.Chown(ctx, "/d", "bob", ""))
	must(t, c.Chtimes(ctx, "/d/file", time.Time{}, when.Add(time.Minute)))
	info, err = c.Stat(ctx, "/d")
	must(t, err)
	if info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 || info.Entry.Owner != "bob" || !info.IsDir() || info.Size() != 0 {
		t.Errorf("after chmod and chown: %+v", info)
	}
	info, err = c.Stat(ctx, "/d/file")
	must(t, err)
	if !info.ModTime().Equal(when.Add(time.Minute)) || info.Entry.ATime != when.Add(time.Second).UnixMilli() {
		t.Errorf("after chtimes: %+v", info)
	}

	must(t, c.Rename(ctx, "/d/file", "/d/moved", client.RenameOptions{}))
	must(t, c.Remove(ctx, "/d/link"))
	must(t, c.RemoveAll(ctx, "/d/e"))
	must(t, c.RemoveAll(ctx, "/d/e"))
	entries, err := c.ReadDir(ctx, "/d")
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "moved" {
		t.Errorf("left in /d: %v", entries)
	}
}

func TestErrorsAreThoseOfOsAndNameOperationAndPath(t *testing.T) {
	c, ctx := connect(t), t.Context()
	must(t, c.MkdirAll(ctx, "/d/sub", 0o755))
	_, err := c.CreateEntry(ctx, "/d/file", client.CreateOptions{})
	must(t, err)
	must(t, c.Mkdir(ctx, "/closed", 0o700))
	other := c.As("nobody")
	stat := func(c *client.Client, path string) error { _, err := c.Stat(ctx, path); return err }
	create := func(path string) error { _, err := c.CreateEntry(ctx, path, client.CreateOptions{}); return err }
	readLink := func(path string) error { _, err := c.ReadLink(ctx, path); return err }
	readDir := func(path string) error { _, err := c.ReadDir(ctx, path); return err }
	glob := func(pattern string) error { _, err := c.Glob(ctx, pattern); return err }
	for _, test := range []struct {
		name string
		err  error
		code muster.Code
		std  error
		op   string
		path string
	}{
		{"stat of nothing", stat(c, "/no"), muster.ErrNotFound, fs.ErrNotExist, "stat", "/no"},
		{"stat below a file", stat(c, "/d/file/x"), muster.ErrNotDirectory, nil, "stat", "/d/file/x"},
		{"stat without a right", stat(other, "/closed/x"), muster.ErrPermission, fs.ErrPermission, "stat", "/closed/x"},
		{"relative path", stat(c, "d"), muster.ErrInvalid, fs.ErrInvalid, "stat", "d"},
		{"path with dots", stat(c, "/d/../d"), muster.ErrInvalid, fs.ErrInvalid, "stat", "/d/../d"},
		{"readlink of a file", readLink("/d/file"), muster.ErrInvalid, fs.ErrInvalid, "readlink", "/d/file"},
		{"readdir of a file", readDir("/d/file"), muster.ErrNotDirectory, nil, "readdir", "/d/file"},
		{"readdir of nothing", readDir("/no"), muster.ErrNotFound, fs.ErrNotExist, "readdir", "/no"},
		{"mkdir over a file", c.Mkdir(ctx, "/d/file", 0o755), muster.ErrExists, fs.ErrExist, "mkdir", "/d/file"},
		{"mkdir without parent", c.Mkdir(ctx, "/no/x", 0o755), muster.ErrNotFound, fs.ErrNotExist, "mkdir", "/no/x"},
		{"mkdir without a right", other.Mkdir(ctx, "/d/x", 0o755), muster.ErrPermission, fs.ErrPermission, "mkdir", "/d/x"},
		{"create over a file", create("/d/file"), muster.ErrExists, fs.ErrExist, "create", "/d/file"},
		{"remove of a full directory", c.Remove(ctx, "/d"), muster.ErrNotEmpty, fs.ErrExist, "remove", "/d"},
		{"remove of nothing", c.Remove(ctx, "/no"), muster.ErrNotFound, fs.ErrNotExist, "remove", "/no"},
		{"removeall without a right", other.RemoveAll(ctx, "/d/sub"), muster.ErrPermission, fs.ErrPermission, "removeall", "/d/sub"},
		{"chmod of nothing", c.Chmod(ctx, "/no", 0), muster.ErrNotFound, fs.ErrNotExist, "chmod", "/no"},
		{"chown without a right", other.Chown(ctx, "/d", "nobody", ""), muster.ErrPermission, fs.ErrPermission, "chown", "/d"},
		{"chtimes of nothing", c.Chtimes(ctx, "/no", time.Now(), time.Now()), muster.ErrNotFound, fs.ErrNotExist, "chtimes", "/no"},
		{"glob of a relative pattern", glob("d/*"), muster.ErrInvalid, fs.ErrInvalid, "glob", "d/*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var at *fs.PathError
			if !errors.As(test.err, &at) {
				t.Fatalf("got %v", test.err)
			}
			if at.Op != test.op || at.Path != test.path {
				t.Errorf("error of %s %s: %v", at.Op, at.Path, test.err)
			}
			if !errors.Is(test.err, test.code) || test.std != nil && !errors.Is(test.err, test.std) {
				t.Errorf("%v is not %v", test.err, test.code)
			}
			if len(test.path) > 1 && strings.Count(test.err.Error(), test.path) > 2 {
				t.Errorf("the path is told again and again: %v", test.err)
			}
		})
	}
}

func TestErrorsAboutTwoPathsNameBoth(t *testing.T) {
	c, ctx := connect(t), t.Context()
	must(t, c.MkdirAll(ctx, "/d/sub", 0o755))
	for _, test := range []struct {
		err      error
		code     muster.Code
		old, new string
	}{
		{c.Rename(ctx, "/no", "/x", client.RenameOptions{}), muster.ErrNotFound, "/no", "/x"},
		{c.Rename(ctx, "/d/sub", "/d", client.RenameOptions{}), muster.ErrExists, "/d/sub", "/d"},
		{c.Rename(ctx, "/d", "/d/sub/x", client.RenameOptions{}), muster.ErrInvalid, "/d", "/d/sub/x"},
		{c.Symlink(ctx, "/target", "/d"), muster.ErrExists, "/target", "/d"},
	} {
		var at *os.LinkError
		if !errors.As(test.err, &at) || at.Old != test.old || at.New != test.new || !errors.Is(test.err, test.code) {
			t.Errorf("got %v, want %v of %s and %s", test.err, test.code, test.old, test.new)
		}
	}
}

func TestUmaskIsAppliedToNewEntriesOnly(t *testing.T) {
	in, ctx := start(t), t.Context()
	for _, test := range []struct {
		umask     fs.FileMode
		dir, file fs.FileMode
	}{
		{0, 0o755, 0o644},
		{0o077, 0o700, 0o600},
		{client.NoUmask, 0o777, 0o666},
	} {
		c := dial(t, in.addr(), client.Options{Umask: test.umask})
		must(t, c.Mkdir(ctx, "/d", 0o777))
		_, err := c.CreateEntry(ctx, "/d/f", client.CreateOptions{})
		must(t, err)
		dir, err := c.Stat(ctx, "/d")
		must(t, err)
		file, err := c.Stat(ctx, "/d/f")
		must(t, err)
		if dir.Mode().Perm() != test.dir || file.Mode() != test.file {
			t.Errorf("umask %v: directory %v, file %v", test.umask, dir.Mode(), file.Mode())
		}
		must(t, c.Chmod(ctx, "/d/f", 0o666))
		if file, err = c.Stat(ctx, "/d/f"); err != nil || file.Mode() != 0o666 {
			t.Errorf("umask %v: chmod 0666 gives %v, %v", test.umask, file.Mode(), err)
		}
		must(t, c.RemoveAll(ctx, "/d"))
	}
}

func TestAsMakesCallsAsAnotherUserOnTheSameConnections(t *testing.T) {
	c, ctx := connect(t), t.Context()
	must(t, c.Mkdir(ctx, "/shared", 0))
	must(t, c.Chmod(ctx, "/shared", 0o770))
	must(t, c.Chown(ctx, "/shared", "root", "team"))
	member, stranger := c.As("eve", "team"), c.As("mallory")
	must(t, member.Mkdir(ctx, "/shared/eve", 0o755))
	if err := stranger.Mkdir(ctx, "/shared/mallory", 0o755); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a stranger's mkdir: %v", err)
	}
	info, err := c.Stat(ctx, "/shared/eve")
	must(t, err)
	if info.Entry.Owner != "eve" || info.Entry.Group != "team" {
		t.Errorf("owned by %s:%s", info.Entry.Owner, info.Entry.Group)
	}
	caps, err := member.Capabilities(ctx)
	must(t, err)
	if caps.User != "eve" || caps.Superuser {
		t.Errorf("eve is known as %q, superuser %v", caps.User, caps.Superuser)
	}
	if id := member.Identity(); id.User != "eve" || !slices.Equal(id.Groups, []string{"team"}) {
		t.Errorf("identity %+v", id)
	}
}

func TestBatchIsAppliedWholeOrNotAtAllAndNamesTheRefusedCommand(t *testing.T) {
	c, ctx := connect(t), t.Context()
	applied, err := c.Apply(ctx,
		muster.Mkdir{Path: "/a", Mode: 0o755},
		muster.Create{Path: "/a/f", Mode: 0o644},
		muster.Rename{From: "/a/f", To: "/a/g"},
	)
	must(t, err)
	if len(applied.IDs) != 3 || applied.IDs[1] != applied.IDs[2] || applied.Txid == 0 {
		t.Errorf("applied %+v", applied)
	}
	_, err = c.Apply(ctx, muster.Mkdir{Path: "/b", Mode: 0o755}, muster.Delete{Path: "/no"}, muster.Mkdir{Path: "/c"})
	var refused *muster.CommandError
	if !errors.As(err, &refused) || refused.Index != 1 || refused.Verb != "delete" || refused.Path != "/no" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Stat(ctx, "/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the refused batch was applied: %v", err)
	}
	if applied, err := c.Apply(ctx); err != nil || applied.Txid != 0 {
		t.Errorf("an empty batch: %+v, %v", applied, err)
	}
}

func TestBatchOverItsBoundsIsRefusedByName(t *testing.T) {
	c, ctx := connect(t), t.Context()
	many := make([]muster.Command, muster.MaxBatchCommands+1)
	for i := range many {
		many[i] = muster.Delete{Path: "/x"}
	}
	long := slices.Repeat([]muster.Command{muster.Delete{Path: "/" + strings.Repeat("x/", 3000)}}, 200)
	for name, commands := range map[string][]muster.Command{"many": many, "long": long} {
		if _, err := c.Apply(ctx, commands...); !errors.Is(err, muster.ErrLimit) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := c.Status(ctx); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestStatusAndFsckAndCapabilitiesTellOfTheServer(t *testing.T) {
	c, ctx := connect(t), t.Context()
	must(t, c.MkdirAll(ctx, "/a/b", 0o755))
	_, err := c.CreateEntry(ctx, "/a/f", client.CreateOptions{})
	must(t, err)
	must(t, c.Symlink(ctx, "f", "/a/l"))
	status, err := c.Status(ctx)
	must(t, err)
	if status.Txid != 3 || status.Inodes != 5 || status.Started.IsZero() || len(status.Counters) == 0 {
		t.Errorf("status %+v", status)
	}
	summary, err := c.Fsck(ctx, func(p client.Problem) error {
		t.Errorf("problem %+v", p)
		return nil
	})
	must(t, err)
	if summary.Inodes != 5 || summary.Directories != 3 || summary.Files != 1 || summary.Links != 1 {
		t.Errorf("fsck %+v", summary)
	}
	caps, err := c.Capabilities(ctx)
	must(t, err)
	if !caps.Has("list") || caps.Has("time-travel") || caps.MaxPaths == 0 || caps.User != "root" || !caps.Superuser {
		t.Errorf("capabilities %+v", caps)
	}
}

func TestDialOfNothingFailsAtOnceAndNamesTheAddress(t *testing.T) {
	addr := unused(t)
	_, err := client.Dial(t.Context(), addr, client.Options{User: "root"})
	if !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), addr) {
		t.Fatalf("got %v", err)
	}
}

func TestDialOfWhatIsNoServerFailsAndNamesTheAddress(t *testing.T) {
	for name, answer := range map[string]string{
		"silence":    "",
		"a web page": "HTTP/1.1 400 Bad Request\r\n\r\n",
		"noise":      strings.Repeat("\x00\xff\x17", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := lis.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, answer)
				_, _ = io.Copy(io.Discard, conn) // until the client goes
			}()
			_, err = client.Dial(t.Context(), lis.Addr().String(), client.Options{DialTimeout: 200 * time.Millisecond})
			if !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), lis.Addr().String()) {
				t.Errorf("got %v", err)
			}
			_ = lis.Close()
			<-served
		})
	}
}

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	for name, o := range map[string]client.Options{
		"Connections":    {Connections: -1},
		"DialTimeout":    {DialTimeout: -1},
		"Attempts":       {Attempts: -1},
		"CommandTimeout": {CommandTimeout: time.Hour},
	} {
		_, err := client.Dial(t.Context(), "127.0.0.1:1", o)
		if !errors.Is(err, muster.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCallsOfACancelledContextFailWithItsError(t *testing.T) {
	c := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, statErr := c.Stat(ctx, "/")
	_, statusErr := c.Status(ctx)
	_, fsckErr := c.Fsck(ctx, func(client.Problem) error { return nil })
	for name, err := range map[string]error{
		"stat": statErr, "status": statusErr, "fsck": fsckErr, "mkdir": c.Mkdir(ctx, "/x", 0o755),
	} {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, muster.ErrCancelled) {
			t.Errorf("%s: got %v", name, err)
		}
		if errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s: the outcome of a call that was never sent is known: %v", name, err)
		}
	}
	if _, err := c.Stat(t.Context(), "/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cancelled mkdir was sent: %v", err)
	}
}

func TestCallsAfterCloseFailAndDoNotHang(t *testing.T) {
	c := dial(t, start(t).addr(), client.Options{})
	must(t, c.Close())
	must(t, c.Close())
	if _, err := c.Stat(t.Context(), "/"); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("stat: %v", err)
	}
	if err := c.Mkdir(t.Context(), "/x", 0o755); err == nil || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("mkdir: %v", err)
	}
	if _, err := client.Collect(c.List(t.Context(), slices.Values([]string{"/"}), client.ListOptions{})); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
}

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

// random returns n bytes that are different everywhere.
func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b)
	return b
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	for _, size := range []int{0, 1, 100_000, muster.MaxTransfer, 4 << 20, 9<<20 + 3} {
		path, data := fmt.Sprint("/d/", size), random(size)
		o := client.WriteOptions{Parents: true, BlockSize: muster.MinBlockSize, Mode: 0o640, MTime: time.UnixMilli(1_700_000_000_123)}
		write(t, c, path, o, data)
		if got := read(t, c, path); !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d were read", size, len(got))
		}
		info, err := c.Stat(t.Context(), path)
		must(t, err)
		blocks := (size + muster.MinBlockSize - 1) / muster.MinBlockSize
		if info.Size() != int64(size) || len(info.Entry.Blocks) != blocks || info.Entry.Flags != 0 || info.Mode() != 0o640 ||
			!info.ModTime().Equal(o.MTime) || info.Entry.Replication != muster.Replicated(3) {
			t.Errorf("%d bytes: %+v", size, info.Entry)
		}
	}
}

// A file that is being written is seen as such, and nobody else can write it.
func TestOneWriterAtATime(t *testing.T) {
	h := startHouse(t, 3)
	c, other := dial(t, h.addr(), client.Options{}), dial(t, h.addr(), client.Options{})
	w, err := c.Create(t.Context(), "/f")
	must(t, err)
	if w.Name() != "/f" {
		t.Errorf("name %q", w.Name())
	}
	for _, o := range []client.WriteOptions{{}, {Overwrite: true}} {
		if _, err := other.CreateFile(t.Context(), "/f", o); !errors.Is(err, fs.ErrExist) {
			t.Errorf("another writer: %v", err)
		}
	}
	info, err := other.Stat(t.Context(), "/f")
	must(t, err)
	if info.Entry.Flags&muster.FlagWriting == 0 {
		t.Errorf("flags %d", info.Entry.Flags)
	}
	n, err := w.WriteString("one")
	if must(t, err); n != 3 || w.Size() != 3 {
		t.Errorf("%d written, size %d", n, w.Size())
	}
	must(t, c.Rename(t.Context(), "/f", "/g", client.RenameOptions{}))
	must(t, w.Close())
	if got := read(t, other, "/g"); string(got) != "one" {
		t.Errorf("%q", got)
	}
	write(t, other, "/g", client.WriteOptions{Overwrite: true}, []byte("two"))
	if got := read(t, c, "/g"); string(got) != "two" {
		t.Errorf("%q", got)
	}
}

func TestErrorsOfCreate(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	must(t, c.Mkdir(t.Context(), "/d", 0o755))
	write(t, c, "/f", client.WriteOptions{}, nil)
	coded, err := muster.ParseReplication("ec/rs-3-2")
	must(t, err)
	for _, test := range []struct {
		path string
		o    client.WriteOptions
		want error
		text string
	}{
		{"relative", client.WriteOptions{}, fs.ErrInvalid, ""},
		{"/d", client.WriteOptions{Overwrite: true}, muster.ErrIsDirectory, ""},
		{"/d", client.WriteOptions{Overwrite: true, Atomic: true}, muster.ErrIsDirectory, ""},
		{"/", client.WriteOptions{Overwrite: true, Atomic: true}, muster.ErrIsDirectory, ""},
		{"/f", client.WriteOptions{}, fs.ErrExist, ""},
		{"/f", client.WriteOptions{Atomic: true}, fs.ErrExist, ""},
		{"/f/x", client.WriteOptions{}, muster.ErrNotDirectory, ""},
		{"/f/x", client.WriteOptions{Atomic: true}, muster.ErrNotDirectory, ""},
		{"/no/x", client.WriteOptions{}, fs.ErrNotExist, ""},
		{"/no/x", client.WriteOptions{Atomic: true}, fs.ErrNotExist, ""},
		{"/x", client.WriteOptions{Replication: coded}, fs.ErrInvalid, "ec/rs-3-2"},
		{"/x", client.WriteOptions{BlockSize: 1 << 20}, fs.ErrInvalid, "BlockSize"},
		{"/x", client.WriteOptions{Window: 1}, fs.ErrInvalid, "Window"},
		{"/x", client.WriteOptions{Timeout: -1}, fs.ErrInvalid, "Timeout"},
	} {
		_, err := c.CreateFile(t.Context(), test.path, test.o)
		var at *fs.PathError
		if !errors.Is(err, test.want) || !errors.As(err, &at) || at.Op != "create" || at.Path != test.path || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s %+v: %v", test.path, test.o, err)
		}
	}
	w, err := c.As("nobody").Create(t.Context(), "/x")
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without a right: %v, %v", w, err)
	}
	if _, err := c.Lstat(t.Context(), "/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was refused: %v", err)
	}
}

// children are the names in a directory, hidden ones too.
func children(t *testing.T, c *client.Client, dir string) (names []string) {
	t.Helper()
	entries, err := c.ReadDir(t.Context(), dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// shown are the names in a directory that a preset shows.
func shown(t *testing.T, c *client.Client, dir string, hidden muster.Hidden) (names []string) {
	t.Helper()
	for b, err := range c.List(t.Context(), slices.Values([]string{dir}), client.ListOptions{Hidden: hidden}) {
		must(t, err)
		for i := range b.Len() {
			names = append(names, string(b.Name(i)))
		}
	}
	return names
}

func TestAtomicFileIsThereAtOnceOrNotAtAll(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	must(t, c.Mkdir(t.Context(), "/d", 0o755))
	long := "/d/" + strings.Repeat("ü", 127)
	for _, target := range []string{"/d/f", long} {
		o := client.WriteOptions{Atomic: true, Overwrite: true}
		for _, text := range []string{"first", "second"} {
			before := children(t, c, "/d")
			w, err := c.CreateFile(t.Context(), target, o)
			must(t, err)
			_, err = w.WriteString(text)
			must(t, err)
			during := children(t, c, "/d")
			if len(during) != len(before)+1 {
				t.Errorf("beside %q there is %q", before, during)
			}
			for _, hidden := range []muster.Hidden{muster.HiddenHive, muster.HiddenSpark} {
				if names := shown(t, c, "/d", hidden); !slices.Equal(names, before) {
					t.Errorf("%v shows %q", hidden, names)
				}
			}
			must(t, w.Close())
			if got := read(t, c, target); string(got) != text {
				t.Errorf("%q", got)
			}
		}
		w, err := c.CreateFile(t.Context(), target, o)
		must(t, err)
		_, err = w.WriteString("third")
		must(t, err)
		must(t, w.Abort(t.Context()))
		if got := read(t, c, target); string(got) != "second" {
			t.Errorf("after Abort %q", got)
		}
	}
	if names := children(t, c, "/d"); !slices.Equal(names, []string{"f", path.Base(long)}) {
		t.Errorf("left: %q", names)
	}
}

// TestAtomicFileThatCannotHaveItsName goes, since somebody else was first.
func TestAtomicFileThatCannotHaveItsName(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	w, err := c.CreateFile(t.Context(), "/f", client.WriteOptions{Atomic: true})
	must(t, err)
	_, err = w.WriteString("late")
	must(t, err)
	write(t, c, "/f", client.WriteOptions{}, []byte("early"))
	if err := w.Close(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("close: %v", err)
	}
	if names := children(t, c, "/"); !slices.Equal(names, []string{"f"}) {
		t.Errorf("left: %q", names)
	}
	if got := read(t, c, "/f"); string(got) != "early" {
		t.Errorf("%q", got)
	}
}

func TestAbortRemovesTheFile(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	w, err := c.Create(t.Context(), "/f")
	must(t, err)
	_, err = w.Write(random(2 << 20))
	must(t, err)
	must(t, w.Abort(t.Context()))
	must(t, w.Abort(t.Context()))
	if _, err := c.Stat(t.Context(), "/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Abort: %v", err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("close: %v", err)
	}

	w, err = c.Create(t.Context(), "/g")
	must(t, err)
	must(t, c.Rename(t.Context(), "/g", "/h", client.RenameOptions{}))
	write(t, c, "/g", client.WriteOptions{}, []byte("another"))
	must(t, w.Abort(t.Context()))
	if got := read(t, c, "/g"); string(got) != "another" {
		t.Errorf("another file of that name: %q", got)
	}
}

// TestAbortEndsAWriteThatWaits for a datanode that says nothing.
func TestAbortEndsAWriteThatWaits(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	reached, release := make(chan bool, 100), make(chan struct{})
	defer close(release)
	h.nodes[0].fails(func(int64) error {
		reached <- true
		<-release
		return muster.ErrUnavailable
	})
	w, err := c.CreateFile(t.Context(), "/f", client.WriteOptions{Window: 2 << 20})
	must(t, err)
	written := make(chan error, 1)
	go func() {
		_, err := w.Write(random(8 << 20))
		written <- err
	}()
	<-reached
	must(t, w.Abort(context.Background()))
	if err := <-written; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	if _, err := c.Stat(t.Context(), "/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Abort: %v", err)
	}
}

// TestAbortDoesNotWaitForASource that gives nothing, such as a terminal; nor does the end of
// the client.
func TestAbortDoesNotWaitForASource(t *testing.T) {
	h := startHouse(t, 3)
	for name, end := range map[string]func(*client.Client, *client.FileWriter) error{
		"abort": func(_ *client.Client, w *client.FileWriter) error { return w.Abort(context.Background()) },
		"close": func(c *client.Client, _ *client.FileWriter) error { return c.Close() },
	} {
		c, err := client.Dial(t.Context(), h.addr(), client.Options{User: "root"})
		must(t, err)
		w, err := c.Create(t.Context(), "/"+name)
		must(t, err)
		reached, more := make(chan bool), make(chan bool)
		written := make(chan error, 1)
		go func() {
			_, err := w.ReadFrom(readFunc(func(p []byte) (int, error) {
				reached <- true
				<-more
				clear(p) // its memory is nobody else's
				return len(p), nil
			}))
			written <- err
		}()
		<-reached
		more <- true
		<-reached
		if n := w.Size(); n == 0 {
			t.Errorf("%s: size %d", name, n)
		}
		must(t, end(c, w))
		more <- true
		if err := <-written; !errors.Is(err, fs.ErrClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Close(); err == nil {
			t.Errorf("%s: closed", name)
		}
		must(t, c.Close())
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestClosingTheClientEndsItsWriters(t *testing.T) {
	h := startHouse(t, 3)
	c, err := client.Dial(t.Context(), h.addr(), client.Options{User: "root"})
	must(t, err)
	var open []*client.FileWriter
	for i := range 3 {
		w, err := c.As("root").Create(t.Context(), fmt.Sprint("/f", i))
		must(t, err)
		_, err = w.Write(random(i << 20))
		must(t, err)
		open = append(open, w)
	}
	must(t, c.Close())
	for _, w := range open {
		if _, err := w.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: %v", err)
		}
		if err := w.Close(); !errors.Is(err, net.ErrClosed) || !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := c.Create(t.Context(), "/late"); err == nil {
		t.Error("a closed client creates files")
	}
}

// TestWriterOutlivesADatanode: whatever one of four does, the file is written.
func TestWriterOutlivesADatanode(t *testing.T) {
	h := startHouse(t, 4)
	c := dial(t, h.addr(), client.Options{})
	data := random(9<<20 + 1)
	for i, n := range h.nodes[:3] {
		var failed atomic.Bool
		n.fails(func(int64) error {
			if !failed.Swap(true) {
				return fmt.Errorf("%w: the disk is full", muster.ErrUnavailable)
			}
			return nil
		})
		path := fmt.Sprint("/", i)
		write(t, c, path, client.WriteOptions{BlockSize: muster.MinBlockSize, Replication: muster.Replicated(3)}, data)
		if got := read(t, c, path); !bytes.Equal(got, data) {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
	}
}

// TestFailedFileKeepsWhatIsDurable, and is not being written any more.
func TestFailedFileKeepsWhatIsDurable(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	for _, n := range h.nodes {
		n.fails(func(write int64) error {
			if write > 2 {
				return fmt.Errorf("%w: the disk is full", muster.ErrUnavailable)
			}
			return nil
		})
	}
	data := random(12 << 20)
	for _, atomic := range []bool{false, true} {
		w, err := c.CreateFile(t.Context(), "/f", client.WriteOptions{BlockSize: muster.MinBlockSize, Atomic: atomic, Overwrite: true})
		must(t, err)
		_, err = w.Write(data)
		closeErr := w.Close()
		var at *fs.PathError
		if !errors.Is(err, muster.ErrUnavailable) || !errors.Is(closeErr, muster.ErrUnavailable) || !errors.As(closeErr, &at) || at.Path != "/f" {
			t.Errorf("write: %v; close: %v", err, closeErr)
		}
		if got := read(t, c, "/f"); !bytes.Equal(got, data[:8<<20]) {
			t.Errorf("%d bytes stay", len(got))
		}
		if info, err := c.Stat(t.Context(), "/f"); err != nil || info.Entry.Flags != 0 {
			t.Errorf("%+v, %v", info.Entry, err)
		}
	}
	if names := children(t, c, "/"); !slices.Equal(names, []string{"f"}) {
		t.Errorf("left: %q", names)
	}
}

// TestLostAnswersOfAWriter: wherever the connection to the server breaks, each call is carried
// out once.
func TestLostAnswersOfAWriter(t *testing.T) {
	h := startHouse(t, 3)
	p := newProxy(t, h.addr())
	c := dial(t, p.addr(), client.Options{})
	data := random(5 << 20)
	cuts := 0
	for n := 0; n < 600; n += 23 {
		path := fmt.Sprint("/f", n)
		w, err := c.CreateFile(t.Context(), path, client.WriteOptions{BlockSize: muster.MinBlockSize, Atomic: n%2 == 0})
		must(t, err)
		p.cutAfter(n)
		_, err = w.Write(data)
		must(t, errors.Join(err, w.Close()))
		cuts += p.spare()
		info, err := c.Stat(t.Context(), path)
		must(t, err)
		if len(info.Entry.Blocks) != 2 || info.Size() != int64(len(data)) || info.Entry.Flags != 0 {
			t.Errorf("cut after %d bytes: %+v", n, info.Entry)
		}
		if n%46 == 0 && !bytes.Equal(read(t, c, path), data) {
			t.Errorf("cut after %d bytes: other bytes", n)
		}
	}
	if cuts < 5 {
		t.Errorf("%d answers were lost", cuts)
	}
}

// What the reader of ReadFrom fails with is returned as it is.
func TestErrorOfTheSource(t *testing.T) {
	h := startHouse(t, 1)
	c := dial(t, h.addr(), client.Options{})
	w, err := c.Create(t.Context(), "/f")
	must(t, err)
	broken := errors.New("broken")
	if n, err := io.Copy(w, io.MultiReader(strings.NewReader("begin"), readFunc(func([]byte) (int, error) { return 0, broken }))); n != 5 || err != broken {
		t.Errorf("%d, %v", n, err)
	}
	must(t, w.Abort(t.Context()))
}

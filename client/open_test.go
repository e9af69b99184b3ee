package client_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
)

func TestErrorsOfOpen(t *testing.T) {
	h := startHouse(t, 5)
	c := dial(t, h.addr(), client.Options{})
	must(t, c.Mkdir(t.Context(), "/d", 0o755))
	coded, err := muster.ParseReplication("ec/rs-3-2")
	must(t, err)
	_, err = c.CreateEntry(t.Context(), "/meta", client.CreateOptions{Length: 10, BlockSize: 100, Replication: muster.Replicated(3)})
	must(t, err)
	_, err = c.CreateEntry(t.Context(), "/coded", client.CreateOptions{BlockSize: 100, Replication: coded})
	must(t, err)
	write(t, c, "/secret", client.WriteOptions{Mode: 0o600}, []byte("x"))
	for _, test := range []struct {
		c    *client.Client
		path string
		want error
		text string
	}{
		{c, "relative", fs.ErrInvalid, ""}, {c, "/no", fs.ErrNotExist, ""}, {c, "/d", muster.ErrIsDirectory, ""},
		{c, "/meta/x", muster.ErrNotDirectory, ""}, {c, "/meta", muster.ErrNoData, ""}, {c, "/coded", fs.ErrInvalid, "ec/rs-3-2"},
		{c.As("nobody"), "/secret", fs.ErrPermission, ""},
	} {
		_, err := test.c.Open(t.Context(), test.path)
		var at *fs.PathError
		if !errors.Is(err, test.want) || !errors.As(err, &at) || at.Op != "open" || at.Path != test.path || !bytes.Contains([]byte(err.Error()), []byte(test.text)) {
			t.Errorf("%s: %v", test.path, err)
		}
	}
}

func TestFileIsReadInAllWays(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	data := random(9<<20 + 5)
	write(t, c, "/f", client.WriteOptions{BlockSize: muster.MinBlockSize}, data)
	must(t, c.Symlink(t.Context(), "f", "/l"))
	for _, path := range []string{"/f", "//l"} {
		f, err := c.Open(t.Context(), path)
		must(t, err)
		info, err := f.Stat()
		if must(t, err); f.Name() != path || info.Size() != int64(len(data)) || f.Size() != info.Size() || info.Mode() != 0o644 {
			t.Errorf("%s: %v", f.Name(), info)
		}
		var copied bytes.Buffer
		if n, err := io.Copy(&copied, f); n != int64(len(data)) || err != nil || !bytes.Equal(copied.Bytes(), data) {
			t.Errorf("copied %d, %v", n, err)
		}
		if n, err := f.Read(make([]byte, 10)); n != 0 || err != io.EOF {
			t.Errorf("at the end: %d, %v", n, err)
		}
		var readers sync.WaitGroup
		for i := range 8 {
			readers.Go(func() {
				p := make([]byte, 100_000)
				for at := i * 99_991; at < len(data); at += 8 * 99_991 {
					n, err := f.ReadAt(p, int64(at))
					if want := data[at:min(at+len(p), len(data))]; !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) {
						t.Errorf("at %d: %d, %v", at, n, err)
					}
				}
			})
		}
		readers.Wait()
		at, err := f.Seek(-7, io.SeekEnd)
		if rest, err2 := io.ReadAll(f); err != nil || err2 != nil || at != int64(len(data)-7) || !bytes.Equal(rest, data[len(data)-7:]) {
			t.Errorf("after seek: %d, %v, %v", at, err, err2)
		}
		_, err = f.ReadAt(make([]byte, 1), -1)
		var at2 *fs.PathError
		if !errors.Is(err, fs.ErrInvalid) || !errors.As(err, &at2) || at2.Path != path {
			t.Errorf("before the beginning: %v", err)
		}
		must(t, f.Close())
		for op, err := range map[string]error{"read": second(f.Read(nil)), "close": f.Close()} {
			if !errors.Is(err, fs.ErrClosed) || !errors.As(err, &at2) || at2.Op != op {
				t.Errorf("%s after close: %v", op, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// What the writer of WriteTo fails with is returned as it is.
func TestErrorOfTheSink(t *testing.T) {
	h := startHouse(t, 1)
	c := dial(t, h.addr(), client.Options{})
	write(t, c, "/f", client.WriteOptions{}, random(3<<20))
	f, err := c.Open(t.Context(), "/f")
	must(t, err)
	defer f.Close()
	full := errors.New("full")
	if _, err := f.WriteTo(iotestWriter{full}); err != full {
		t.Errorf("%v", err)
	}
}

type iotestWriter struct{ err error }

func (w iotestWriter) Write(p []byte) (int, error) { return 0, w.err }

// TestFileThatIsWrittenGrows by whole blocks, and by the rest when it is finished.
func TestFileThatIsWrittenGrows(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	data := random(5<<20 + 9)
	w, err := c.CreateFile(t.Context(), "/f", client.WriteOptions{BlockSize: muster.MinBlockSize})
	must(t, err)
	f, err := c.Open(t.Context(), "/f")
	must(t, err)
	defer f.Close()
	if rest, err := io.ReadAll(f); len(rest) != 0 || err != nil {
		t.Errorf("an empty file: %d, %v", len(rest), err)
	}
	_, err = w.Write(data)
	must(t, err)
	must(t, f.Refresh(t.Context()))
	first, err := io.ReadAll(f)
	if must(t, err); !bytes.Equal(first, data[:4<<20]) || f.Size() != 4<<20 {
		t.Errorf("%d bytes of the first block", len(first))
	}
	must(t, w.Close())
	must(t, f.Refresh(t.Context()))
	if rest, err := io.ReadAll(f); err != nil || !bytes.Equal(rest, data[4<<20:]) {
		t.Errorf("%d more bytes, %v", len(rest), err)
	}
	write(t, c, "/f", client.WriteOptions{Overwrite: true}, []byte("another"))
	if err := f.Refresh(t.Context()); !errors.Is(err, muster.ErrChanged) {
		t.Errorf("replaced: %v", err)
	}
	must(t, c.Remove(t.Context(), "/f"))
	if err := f.Refresh(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

// TestFSWithDataPassesFstest, and its files are what io and iotest expect of files.
func TestFSWithDataPassesFstest(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	contents := map[string][]byte{ // small, since each byte of them is read for itself
		"empty": nil, "one": []byte("1"), "a b/c%20": random(muster.ChecksumBytes + 1), "deep/er/some": random(1000),
	}
	for name, data := range contents {
		write(t, c, "/top/"+name, client.WriteOptions{Parents: true}, data)
	}
	must(t, c.Symlink(t.Context(), "deep/er", "/top/link"))
	fsys := c.FS(t.Context(), "/top")
	must(t, fstest.TestFS(fsys, "empty", "one", "a b/c%20", "deep/er/some", "link"))
	for name, data := range contents {
		got, err := fs.ReadFile(fsys, name)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	f, err := fsys.Open("link/some")
	must(t, err)
	must(t, iotest.TestReader(f, contents["deep/er/some"]))
	must(t, f.Close())
	root, err := c.FS(t.Context(), "/top/one").Open(".")
	must(t, err)
	info, err := root.Stat()
	if must(t, err); info.Name() != "." || info.Size() != 1 {
		t.Errorf("a file as root: %v", info)
	}
	must(t, root.Close())
}

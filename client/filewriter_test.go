package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/server"
)

// TestBlockOfUnknownOutcome: the server gives a block and its answer never arrives. Close ends the
// file without it, and leaves nothing to the lease.
func TestBlockOfUnknownOutcome(t *testing.T) {
	h := startHouse(t, 3)
	other := dial(t, h.addr(), client.Options{})
	p := newProxy(t, h.addr())
	c := dial(t, p.addr(), client.Options{CommandTimeout: 500 * time.Millisecond})
	data := random(9 << 20)
	for path, applied := range map[string]bool{"/applied": true, "/refused": false} {
		w, err := c.CreateFile(t.Context(), path, client.WriteOptions{BlockSize: muster.MinBlockSize})
		must(t, err)
		_, err = w.Write(data[:muster.MinBlockSize])
		must(t, err)
		if !applied { // whatever the writer does next is refused, and it cannot know that it was
			must(t, other.Remove(t.Context(), path))
		}
		p.cutEach(0)
		_, err = w.Write(data[muster.MinBlockSize:])
		if !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s: write: %v", path, err)
		}
		p.spare()
		if err := w.Close(); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s: close: %v", path, err)
		}
		info, err := other.Stat(t.Context(), path)
		if !applied {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if must(t, err); info.Entry.Flags != 0 || len(info.Entry.Blocks) != 1 {
			t.Errorf("%s: %+v", path, info.Entry)
		}
		if got := read(t, other, path); !bytes.Equal(got, data[:muster.MinBlockSize]) {
			t.Errorf("%s: %d bytes", path, len(got))
		}
	}
}

// TestWhatAWriterDependsOn: its client and nothing else. The context of Create is over, other writers
// of the client come and go, and there is nothing in what is written at times.
func TestWhatAWriterDependsOn(t *testing.T) {
	h := startHouse(t, 3)
	c := dial(t, h.addr(), client.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	data := random(6 << 20)
	var all []*client.FileWriter
	for i := range 3 {
		w, err := c.CreateFile(ctx, fmt.Sprint("/f", i), client.WriteOptions{BlockSize: muster.MinBlockSize})
		must(t, err)
		all = append(all, w)
	}
	cancel()
	var group errgroup.Group
	for _, w := range all[:2] {
		group.Go(func() error {
			for at := 0; at < len(data); at += 1 << 20 {
				_, err := w.Write(data[at:min(len(data), at+1<<20)])
				none, noneErr := w.Write(nil)
				if err := errors.Join(err, noneErr); err != nil || none != 0 {
					return fmt.Errorf("%d of nothing: %w", none, err)
				}
			}
			return w.Close()
		})
	}
	must(t, all[2].Abort(t.Context()))
	must(t, group.Wait())
	for _, w := range all[:2] {
		if got := read(t, c, w.Name()); !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes", w.Name(), len(got))
		}
	}
	w, err := c.Create(t.Context(), "/nothing")
	must(t, err)
	_, err = w.Write([]byte{})
	must(t, errors.Join(err, w.Close()))
	if info, err := c.Stat(t.Context(), "/nothing"); err != nil || info.Size() != 0 || len(info.Entry.Blocks) != 0 {
		t.Errorf("%+v, %v", info.Entry, err)
	}
}

// TestModesAndParentsOfNewFiles are less the umask, and 0755.
func TestModesAndParentsOfNewFiles(t *testing.T) {
	h := startHouse(t, 1)
	for umask, want := range map[fs.FileMode]fs.FileMode{0: 0o644, 0o077: 0o600, client.NoUmask: 0o666} {
		c := dial(t, h.addr(), client.Options{Umask: umask})
		for atomic, dir := range map[bool]string{false: "/plain", true: "/atomic"} {
			path := fmt.Sprintf("%s/%o/f", dir, want)
			write(t, c, path, client.WriteOptions{Parents: true, Atomic: atomic}, []byte("x"))
			info, err := c.Stat(t.Context(), path)
			must(t, err)
			if info.Mode() != want {
				t.Errorf("umask %v: %s is %v", umask, path, info.Mode())
			}
			if info, err = c.Stat(t.Context(), dir); err != nil || info.Mode() != fs.ModeDir|0o755 {
				t.Errorf("%s is %v, %v", dir, info.Mode(), err)
			}
		}
	}
}

// TestAtomicFileOverOthers: over a link, which goes and not what it names; over a file that somebody
// else writes, who is told at the end.
func TestAtomicFileOverOthers(t *testing.T) {
	h := startHouse(t, 3)
	c, other := dial(t, h.addr(), client.Options{}), dial(t, h.addr(), client.Options{})
	write(t, c, "/named", client.WriteOptions{}, []byte("named"))
	for _, atomic := range []bool{false, true} {
		must(t, errors.Join(c.Symlink(t.Context(), "/named", "/link"), c.Symlink(t.Context(), "/nowhere", "/broken")))
		for _, path := range []string{"/link", "/broken"} {
			if _, err := c.CreateFile(t.Context(), path, client.WriteOptions{Atomic: atomic}); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s without Overwrite: %v", path, err)
			}
			write(t, c, path, client.WriteOptions{Atomic: atomic, Overwrite: true}, []byte("new"))
			if info, err := c.Lstat(t.Context(), path); err != nil || info.Entry.Kind != muster.File || string(read(t, c, path)) != "new" {
				t.Errorf("%s: %+v, %v", path, info.Entry, err)
			}
			must(t, c.Remove(t.Context(), path))
		}
		if got := read(t, c, "/named"); string(got) != "named" {
			t.Errorf("what the link named: %q", got)
		}
	}

	slow, err := other.Create(t.Context(), "/f")
	must(t, err)
	_, err = slow.WriteString("slow")
	must(t, err)
	write(t, c, "/f", client.WriteOptions{Atomic: true, Overwrite: true}, []byte("quick"))
	if err := slow.Close(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("whose file was replaced: %v", err)
	}
	if got := read(t, c, "/f"); string(got) != "quick" {
		t.Errorf("%q", got)
	}
}

// TestWhatIsRefusedHasSentNothing: neither data nor, of what cannot be written atomically, a temporary.
func TestWhatIsRefusedHasSentNothing(t *testing.T) {
	h := startHouse(t, 3)
	var writes atomic.Int64
	for _, n := range h.nodes {
		n.fails(func(int64) error { writes.Add(1); return nil })
	}
	c := dial(t, h.addr(), client.Options{Umask: client.NoUmask, Attempts: 1})
	must(t, errors.Join(c.Mkdir(t.Context(), "/d", 0o755), c.Mkdir(t.Context(), "/sticky", fs.ModeSticky|0o777), c.Mkdir(t.Context(), "/sticky/d", 0o777)))
	write(t, c, "/sticky/f", client.WriteOptions{}, nil)
	coded, err := muster.ParseReplication("ec/rs-6-3")
	must(t, err)
	for _, atomic := range []bool{false, true} {
		for _, test := range []struct {
			path  string
			o     client.WriteOptions
			want  error
			words string
		}{
			{"/d/f", client.WriteOptions{}, fs.ErrPermission, "nobody"},
			{"/sticky/f", client.WriteOptions{Overwrite: true}, fs.ErrPermission, "nobody"},
			{"/sticky/d", client.WriteOptions{Overwrite: true}, muster.ErrIsDirectory, ""},
			{"/sticky/g", client.WriteOptions{BlockSize: 5<<20 + 1}, fs.ErrInvalid, "BlockSize is 5242881; use a multiple of 16384"},
			{"/sticky/g", client.WriteOptions{BlockSize: 2 * muster.MaxBlockSize}, fs.ErrInvalid, fmt.Sprint("at most ", int64(muster.MaxBlockSize))},
			{"/sticky/g", client.WriteOptions{BlockSize: -1}, fs.ErrInvalid, "BlockSize is -1"},
			{"/sticky/g", client.WriteOptions{Replication: coded}, fs.ErrInvalid, "ec/rs-6-3"},
			{"/sticky/g", client.WriteOptions{Replication: muster.Replicated(4)}, muster.ErrUnavailable, "needs 4 datanodes"},
		} {
			test.o.Atomic = atomic
			w, err := c.As("nobody").CreateFile(t.Context(), test.path, test.o)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%s %+v: %v", test.path, test.o, err)
			}
			if err == nil {
				_ = w.Abort(t.Context())
			}
		}
	}
	if n := writes.Load(); n > 0 {
		t.Errorf("%d messages of data", n)
	}
	if names := append(children(t, c, "/d"), children(t, c, "/sticky")...); !slices.Equal(names, []string{"d", "f"}) {
		t.Errorf("left: %q", names)
	}
}

// TestTemporaryOfAClientThatIsGone is removed by the server, and what it was to replace stays.
func TestTemporaryOfAClientThatIsGone(t *testing.T) {
	h := startHouseWith(t, 3, func(o *server.Options) { o.Leases.Lease = 100 * time.Millisecond })
	c := dial(t, h.addr(), client.Options{})
	write(t, c, "/f", client.WriteOptions{}, []byte("old"))
	gone, err := client.Dial(t.Context(), h.addr(), client.Options{User: "root"})
	must(t, err)
	w, err := gone.CreateFile(t.Context(), "/f", client.WriteOptions{Atomic: true, Overwrite: true, BlockSize: muster.MinBlockSize})
	must(t, err)
	_, err = w.Write(random(muster.MinBlockSize + 1))
	must(t, errors.Join(err, gone.Close()))
	eventually(t, "the temporary is gone", func() bool { return len(children(t, c, "/")) == 1 })
	if got := read(t, c, "/f"); string(got) != "old" {
		t.Errorf("%q", got)
	}
}

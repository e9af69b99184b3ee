package store_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// twoDisks opens a store on disks a and b, with blocks 1 to 4 of containers 1, on a, and 2, on b.
func twoDisks(t *testing.T, o store.Options) (*store.Store, *vfs.MemFS, *faults, []byte) {
	t.Helper()
	mem, f := vfs.NewMem(), &faults{}
	o.FS = errorfs.Wrap(mem, f)
	s := open(t, o, "a", "b")
	data := random(newRand(20), 3*piece+5)
	for container := range uint64(2) {
		for local := range uint64(4) {
			put(t, s, id(container+1, local+1), data)
		}
	}
	if _, err := mem.Stat("b/blocks/2/4"); err != nil {
		t.Fatalf("container 2 is not on b: %v", err)
	}
	s.TakeChanges()
	return s, mem, f, data
}

func states(s *store.Store) (out []store.DiskState) {
	for _, d := range s.Disks() {
		out = append(out, d.State)
	}
	return out
}

func wantStates(t *testing.T, s *store.Store, want ...store.DiskState) {
	t.Helper()
	if got := states(s); !slices.Equal(got, want) {
		t.Fatalf("disks %+v; want %v", s.Disks(), want)
	}
}

// TestDiskThatFailsIsTakenOut fails one of two disks in every way, by whatever call notices.
func TestDiskThatFailsIsTakenOut(t *testing.T) {
	readBlock := func(s *store.Store, w *store.Writer, _ []byte) error {
		_, _, err := s.Read(id(1, 1), 0, make([]byte, piece), nil)
		return err
	}
	writeSome := func(s *store.Store, w *store.Writer, data []byte) error { return w.Write(0, data, sumsOf(data)) }
	for name, c := range map[string]struct {
		where  string
		reads  bool
		writes error
		call   func(s *store.Store, w *store.Writer, data []byte) error
	}{
		"read":            {"a/", true, nil, readBlock},
		"read and write":  {"a/", true, syscall.EIO, readBlock},
		"only block data": {"a/blocks", true, nil, readBlock}, // writes are fine
		"write":           {"a/", false, syscall.EIO, writeSome},
		"read-only":       {"a/", false, syscall.EROFS, writeSome},
		"sync": {"a/", false, syscall.EIO, func(s *store.Store, w *store.Writer, data []byte) error {
			_, err := w.Sync()
			return errors.Join(err, w.Commit())
		}},
		"create": {"a/", false, syscall.EIO, func(s *store.Store, w *store.Writer, data []byte) error {
			_, err := s.Create(id(1, 77), 1)
			return err
		}},
		"metadata":         {"a/store", false, syscall.EIO, func(s *store.Store, w *store.Writer, data []byte) error { return s.CloseContainer(1) }},
		"metadata is full": {"a/store", false, syscall.ENOSPC, func(s *store.Store, w *store.Writer, data []byte) error { return s.CloseContainer(1) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, f, data := twoDisks(t, store.Options{})
			read(t, s, id(1, 1), data)
			wa, err := s.Create(id(1, 9), 1)
			must(t, err)
			wb, err := s.Create(id(2, 9), 1)
			must(t, err)
			f.hit(c.where, c.reads, c.writes)
			wantCode(t, c.call(s, wa, data), muster.ErrNotFound)
			wantStates(t, s, store.DiskFailed, store.DiskOK)
			if d := s.Disks()[0]; d.Message == "" || !strings.Contains(d.Message, "input/output") && !strings.Contains(d.Message, "read-only") && !strings.Contains(d.Message, "no space") {
				t.Fatalf("the disk does not say why: %+v", d)
			}
			if got := s.Containers(); len(got) != 1 || got[0].ID != 2 || got[0].Blocks != 4 {
				t.Fatalf("containers %+v", got)
			}
			if got := s.TakeChanges(); len(got) != 1 || !got[0].Gone || got[0].ID != 1 {
				t.Fatalf("changes %+v", got)
			}
			wantCode(t, readBlock(s, nil, nil), muster.ErrNotFound)
			wantCode(t, s.Commit(id(1, 1), 3), muster.ErrNotFound)
			wantCode(t, wa.Write(0, data, sumsOf(data)), muster.ErrNotFound)
			must(t, wa.Close())
			must(t, write(wb, 0, data, piece)) // the other disk goes on
			must(t, wb.Commit())
			read(t, s, id(2, 9), data)
			put(t, s, id(1, 5), data) // the container may be made anew elsewhere
			read(t, s, id(1, 5), data)
			f.heal()
			wantStates(t, s, store.DiskFailed, store.DiskOK) // until it is opened again
			must(t, s.Close())
		})
	}
}

// TestDiskComesBack opens a disk again that had failed.
func TestDiskComesBack(t *testing.T) {
	s, mem, f, data := twoDisks(t, store.Options{})
	f.hit("a/", true, syscall.EIO)
	_, _, err := s.Read(id(1, 1), 0, make([]byte, piece), nil)
	wantCode(t, err, muster.ErrNotFound)
	put(t, s, id(1, 1), data[:piece]) // a copy of one of its blocks, on b
	must(t, s.Close())

	s = open(t, store.Options{FS: errorfs.Wrap(mem, f)}, "a", "b")
	wantStates(t, s, store.DiskFailed, store.DiskOK)
	read(t, s, id(1, 1), data[:piece])
	must(t, s.Close())

	f.heal()
	for range 2 {
		s = open(t, store.Options{FS: errorfs.Wrap(mem, f)}, "b", "a")
		wantStates(t, s, store.DiskOK, store.DiskOK)
		for local := range uint64(4) {
			read(t, s, id(1, local+1), data)
			read(t, s, id(2, local+1), data)
		}
		must(t, s.Close())
	}
	f.hit("", true, syscall.EIO)
	_, err = store.Open([]string{"a", "b"}, store.Options{FS: errorfs.Wrap(mem, f)})
	wantCode(t, err, muster.ErrUnavailable)
	if !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
		t.Fatalf("the error names not all disks: %v", err)
	}
}

// TestOneBadBlockIsNotTheDisk has one file that cannot be read: its block is damaged, and nothing
// else.
func TestOneBadBlockIsNotTheDisk(t *testing.T) {
	spoil := map[string]func(mem *vfs.MemFS, f *faults){
		"unreadable": func(_ *vfs.MemFS, f *faults) { f.hit("a/blocks/1/2", true, nil) },
		"missing":    func(mem *vfs.MemFS, _ *faults) { must(t, mem.Remove("a/blocks/1/2")) },
		"short": func(mem *vfs.MemFS, _ *faults) {
			f, err := mem.Create("a/blocks/1/2")
			must(t, err)
			_, err = f.Write(make([]byte, 100))
			must(t, errors.Join(err, f.Close()))
		},
	}
	for name, spoil := range spoil {
		t.Run(name, func(t *testing.T) {
			s, mem, f, data := twoDisks(t, store.Options{})
			spoil(mem, f)
			for range 2 {
				_, _, err := s.Read(id(1, 2), 0, make([]byte, piece), nil)
				wantCode(t, err, muster.ErrCorrupt)
			}
			if n := s.Stats().DamageFound; n != 1 {
				t.Fatalf("one block is damaged, and %d were found", n)
			}
			wantStates(t, s, store.DiskOK, store.DiskOK)
			want := store.Container{ID: 1, Blocks: 4, Bytes: 4 * uint64(len(data)), Damaged: 1}
			if got := s.TakeChanges(); len(got) != 1 || got[0].Container != want {
				t.Fatalf("changes %+v; want %+v", got, want)
			}
			must(t, s.Close())
			s = open(t, store.Options{FS: errorfs.Wrap(mem, f)}, "a", "b")
			if got := s.Containers(); got[0] != want {
				t.Fatalf("containers %+v; want %+v", got, want)
			}
			info, err := s.Stat(id(1, 2))
			must(t, err)
			if !info.Damaged || !info.Committed {
				t.Fatalf("%+v", info)
			}
			read(t, s, id(1, 1), data)
			put(t, s, id(1, 10), data)
			must(t, s.Delete(id(1, 2)))
			if got := s.Containers(); got[0].Damaged != 0 {
				t.Fatalf("a deleted block is damaged: %+v", got)
			}
		})
	}
}

// TestFullDisk takes no blocks and no data, and is read as before.
func TestFullDisk(t *testing.T) {
	const reserve = 1000
	var freeA atomic.Uint64
	freeA.Store(1 << 40)
	o := store.Options{Reserve: reserve, Space: func(dir string) (capacity, free uint64, err error) {
		if dir == "a" {
			return 1 << 40, freeA.Load(), nil
		}
		return 1 << 40, 1 << 30, nil
	}}
	mem := vfs.NewMem()
	o.FS = mem
	s := open(t, o, "a", "b")
	data := random(newRand(21), 2*piece)
	put(t, s, id(1, 1), data)
	w, err := s.Create(id(1, 2), 1)
	must(t, err)
	must(t, write(w, 0, data, piece))

	freeA.Store(reserve - 1)
	wantStates(t, s, store.DiskFull, store.DiskOK)
	if d := s.Disks()[0]; d.Free != 0 || d.Message == "" || d.Capacity != 1<<40 {
		t.Fatalf("%+v", d)
	}
	wantCode(t, w.Write(2*piece, data, sumsOf(data)), muster.ErrUnavailable)
	_, err = s.Create(id(1, 3), 1)
	wantCode(t, err, muster.ErrUnavailable)
	read(t, s, id(1, 1), data)
	must(t, w.Commit()) // what was written before
	read(t, s, id(1, 2), data)
	put(t, s, id(2, 1), data)
	if _, err := mem.Stat("b/blocks/2/1"); err != nil {
		t.Fatalf("a new container is not on the disk with room: %v", err)
	}
	w, err = s.CreateCopy(id(2, 2), 1)
	must(t, errors.Join(err, write(w, 0, data, piece), w.Commit()))

	freeA.Store(1 << 40)
	put(t, s, id(1, 3), data)
	w, err = s.Create(id(1, 4), 1)
	must(t, err)
	must(t, write(w, 0, data, piece))
	freeA.Store(reserve/4 - 1) // what is left is for the metadata of others
	wantStates(t, s, store.DiskFull, store.DiskOK)
	_, err = w.Sync()
	wantCode(t, err, muster.ErrUnavailable)
	freeA.Store(reserve)
	must(t, w.Commit()) // the writer goes on
	wantStates(t, s, store.DiskOK, store.DiskOK)
}

// TestSystemSaysFull has the system refuse to write, whatever it said about room.
func TestSystemSaysFull(t *testing.T) {
	now := newClock()
	s, mem, f, data := twoDisks(t, store.Options{Now: now.Now})
	w, err := s.Create(id(1, 9), 1)
	must(t, err)
	must(t, write(w, 0, data[:2*piece], piece))
	n, err := w.Sync()
	must(t, err)
	f.hit("a/blocks", false, syscall.ENOSPC)
	wantCode(t, w.Write(2*piece, data[2*piece:], sumsOf(data[2*piece:])), muster.ErrUnavailable)
	again, err := w.Sync()
	wantCode(t, err, muster.ErrUnavailable)
	if n != 2*piece || again != n {
		t.Fatalf("durable: %d, then %d", n, again)
	}
	must(t, w.Close())
	wantStates(t, s, store.DiskFull, store.DiskOK)
	_, err = s.Create(id(1, 10), 1)
	wantCode(t, err, muster.ErrUnavailable)
	put(t, s, id(3, 1), data)
	if _, err := mem.Stat("b/blocks/3/1"); err != nil {
		t.Fatalf("a new container is not on the disk with room: %v", err)
	}
	must(t, s.Commit(id(1, 9), 2*piece)) // recovery needs no room but in the metadata
	read(t, s, id(1, 9), data[:2*piece])
	f.heal()
	now.Add(time.Minute)
	wantStates(t, s, store.DiskOK, store.DiskOK)
	put(t, s, id(1, 10), data)
}

// TestOtherTroubleIsNotTheDisk has the process out of file descriptors.
func TestOtherTroubleIsNotTheDisk(t *testing.T) {
	s, _, f, data := twoDisks(t, store.Options{})
	f.hit("a/blocks", false, syscall.EMFILE)
	_, err := s.Create(id(1, 9), 1)
	wantCode(t, err, muster.ErrUnavailable)
	wantStates(t, s, store.DiskOK, store.DiskOK)
	f.heal()
	put(t, s, id(1, 9), data)
}

// TestRecoveryOfADamagedBlock refuses to give bytes a new checksum that do not match the old one.
func TestRecoveryOfADamagedBlock(t *testing.T) {
	s, mem, _, data := twoDisks(t, store.Options{})
	w, err := s.Create(id(1, 9), 1)
	must(t, err)
	must(t, write(w, 0, data, piece))
	_, err = w.Sync()
	must(t, errors.Join(err, w.Close()))
	flip(t, mem, "a/blocks/1/9", piece+7)
	wantCode(t, s.Commit(id(1, 9), piece+20), muster.ErrCorrupt)
	must(t, s.Commit(id(1, 9), 2*piece)) // needs no new one
	must(t, mem.Remove("a/blocks/1/9"))
	must(t, s.Commit(id(1, 9), 2*piece))
	wantStates(t, s, store.DiskOK, store.DiskOK)
}

// TestFullDiskDoesNotFail has the system refuse all writing, of metadata too.
func TestFullDiskDoesNotFail(t *testing.T) {
	now := newClock()
	s, _, f, data := twoDisks(t, store.Options{Now: now.Now})
	var ws []*store.Writer
	for local := range uint64(3) {
		w, err := s.Create(id(1, 20+local), 1)
		must(t, err)
		must(t, write(w, 0, data[:2*piece], piece))
		ws = append(ws, w)
	}
	_, err := ws[0].Sync()
	must(t, err)
	f.hit("a/", false, syscall.ENOSPC)
	wantCode(t, ws[0].Write(2*piece, data[2*piece:], sumsOf(data[2*piece:])), muster.ErrUnavailable)
	for _, w := range ws {
		_, err := w.Sync()
		wantCode(t, err, muster.ErrUnavailable)
		wantCode(t, w.Commit(), muster.ErrUnavailable)
	}
	wantCode(t, s.Delete(id(1, 2)), muster.ErrUnavailable)
	wantCode(t, s.CloseContainer(1), muster.ErrUnavailable)
	wantCode(t, s.Drop(1), muster.ErrUnavailable)
	wantStates(t, s, store.DiskFull, store.DiskOK)
	read(t, s, id(1, 1), data)
	read(t, s, id(1, 2), data)
	f.heal()
	must(t, s.Delete(id(1, 2))) // at once, since it frees room
	now.Add(time.Minute)
	must(t, ws[1].Commit())
	read(t, s, id(1, 21), data[:2*piece])
	must(t, ws[0].Close())
	must(t, s.Commit(id(1, 20), 2*piece))
	read(t, s, id(1, 20), data[:2*piece])
}

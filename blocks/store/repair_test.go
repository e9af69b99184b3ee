package store_test

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// repair replaces a block by data, in messages.
func repair(s *store.Store, b muster.BlockID, data []byte) error {
	w, err := s.Repair(b)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := write(w, 0, data, 3*piece); err != nil {
		return err
	}
	return w.Commit()
}

// wantDamaged checks whether a block is marked, in all that tells.
func wantDamaged(t *testing.T, s *store.Store, b muster.BlockID, want bool) {
	t.Helper()
	info, err := s.Stat(b)
	must(t, err)
	for _, c := range s.Containers() {
		if c.ID == b.Container && (c.Damaged > 0) != want || info.Damaged != want {
			t.Fatalf("block %v: damaged %v, its container %+v; want %v", b, info.Damaged, c, want)
		}
	}
}

func wantFiles(t *testing.T, mem *vfs.MemFS, dir string, want int) {
	t.Helper()
	if names, err := mem.List(dir); err != nil || len(names) != want {
		t.Fatalf("files %v, %v; want %d", names, err, want)
	}
}

func TestDamagedBlocksAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s, err := store.Open([]string{"a"}, store.Options{FS: mem})
		must(t, err)
		defer s.Close()
		data := random(newRand(60), muster.ChunkBytes+2*piece+9)
		b := id(1, 1)
		put(t, s, b, data)
		put(t, s, id(1, 2), data[:piece])
		read(t, s, b, data) // its file is in the cache
		_, err = s.Repair(b)
		wantCode(t, err, muster.ErrExists)
		for _, missing := range []struct {
			id   muster.BlockID
			want muster.Code
		}{{id(1, 3), muster.ErrNoData}, {id(2, 1), muster.ErrNotFound}, {id(1, 0), muster.ErrInvalid}} {
			_, err = s.Repair(missing.id)
			wantCode(t, err, missing.want)
		}

		flip(t, mem, "a/blocks/1/1", 5)
		scrub(t, s)
		wantDamaged(t, s, b, true)
		other := bytes.Clone(data)
		other[2*piece] ^= 1
		for what, bad := range map[string][]byte{"short": data[:piece], "nothing": nil, "other data": other, "long": append(bytes.Clone(other[:muster.ChunkBytes+2*piece]), make([]byte, piece)...)} {
			if err := repair(s, b, bad); muster.CodeOf(err) != muster.ErrCorrupt {
				t.Fatalf("%s: %v", what, err)
			}
			wantFiles(t, mem, "a/blocks/1", 2)
			wantDamaged(t, s, b, true)
		}

		w, err := s.Repair(b)
		must(t, err)
		_, err = s.Repair(b)
		wantCode(t, err, muster.ErrExists)
		must(t, write(w, 0, data, muster.MaxTransfer))
		_, err = w.Sync()
		wantCode(t, err, muster.ErrInvalid)
		s.TakeChanges()
		must(t, w.Commit())
		must(t, w.Close())
		if c := s.TakeChanges(); len(c) != 1 || c[0].Damaged != 0 || c[0].Blocks != 2 || c[0].Bytes != uint64(len(data)+piece) {
			t.Fatalf("changes %+v", c)
		}
		wantDamaged(t, s, b, false)
		read(t, s, b, data)
		wantFiles(t, mem, "a/blocks/1", 2)
		if st := s.Stats(); st.Repaired != 1 || st.Committed != 2 {
			t.Fatalf("%+v", st)
		}
		if got := scrub(t, s); got.Damaged != 0 || got.Blocks != 2 {
			t.Fatalf("%+v", got)
		}
		if d := s.Disks()[0]; d.Used != uint64(len(data)+piece) {
			t.Fatalf("%+v", d)
		}
	})
}

func TestBlocksWhoseFolderVanishedAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		s, err := store.Open([]string{"a"}, store.Options{FS: mem})
		must(t, err)
		defer s.Close()
		data := random(newRand(61), 3*piece)
		put(t, s, id(1, 1), data)
		put(t, s, id(1, 2), nil) // has no data that could be damaged, but no file either
		must(t, mem.RemoveAll("a/blocks/1"))
		if got := scrub(t, s); got.Damaged != 2 {
			t.Fatalf("%+v", got)
		}
		must(t, repair(s, id(1, 1), data))
		must(t, repair(s, id(1, 2), nil))
		read(t, s, id(1, 1), data)
		wantDamaged(t, s, id(1, 1), false)
	})
}

// A stored checksum that is wrong while the data is right gives way to that of the source; chunks
// that cannot be read do as well.
func TestStoredChecksumsAreReplaced(t *testing.T) {
	key := func(tag byte, b muster.BlockID) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{tag}, b.Container), b.LocalID)
	}
	data := random(newRand(62), 3*piece)
	for what, damage := range map[string]func(chunk []byte) []byte{
		"wrong":      func(c []byte) []byte { c[6]++; return c },
		"unreadable": func(c []byte) []byte { return c[:7] },
	} {
		mem := vfs.NewMem()
		b := id(1, 1)
		s := open(t, store.Options{FS: mem}, "a")
		put(t, s, b, data)
		must(t, s.Close())
		changeMetadata(t, mem, func(db *pebble.DB) {
			chunk := binary.BigEndian.AppendUint32(key('d', b), 0)
			for k, change := range map[string]func([]byte) []byte{
				string(chunk):       damage,
				string(key('b', b)): func(r []byte) []byte { r[1] |= 2; return r },
			} {
				v, closer, err := db.Get([]byte(k))
				must(t, err)
				v = bytes.Clone(v)
				must(t, closer.Close())
				must(t, db.Set([]byte(k), change(v), pebble.Sync))
			}
		})
		s = open(t, store.Options{FS: mem}, "a")
		if what == "wrong" {
			other := bytes.Clone(data)
			other[0] ^= 1 // where the stored checksum is wrong, neither agrees with it
			wantCode(t, repair(s, b, other), muster.ErrCorrupt)
		}
		must(t, repair(s, b, data))
		read(t, s, b, data)
		wantDamaged(t, s, b, false)
	}
}

func changeMetadata(t *testing.T, mem vfs.FS, change func(*pebble.DB)) {
	t.Helper()
	kvs, err := openMetadata(mem)
	must(t, err)
	change(kvs.DB)
	must(t, kvs.Close())
}

// A block that is deleted, or dropped with its container, while it is repaired stays away.
func TestBlocksThatGoWhileTheyAreRepaired(t *testing.T) {
	for _, drop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			o := store.Options{FS: mem}
			s, err := store.Open([]string{"a"}, o)
			must(t, err)
			data := random(newRand(63), 2*piece)
			put(t, s, id(1, 1), data)
			flip(t, mem, "a/blocks/1/1", 5)
			scrub(t, s)
			w, err := s.Repair(id(1, 1))
			must(t, err)
			must(t, write(w, 0, data, piece))
			want := muster.ErrNoData
			if drop {
				must(t, s.Drop(1))
				want = muster.ErrNotFound
			} else {
				must(t, s.Delete(id(1, 1)))
			}
			wantCode(t, w.Commit(), want)
			must(t, w.Close())
			if !drop {
				wantFiles(t, mem, "a/blocks/1", 0)
			}
			if _, err := s.Stat(id(1, 1)); muster.CodeOf(err) != want {
				t.Fatal(err)
			}
			must(t, s.Close())
		})
	}
}

// Wherever a repair ends, by an error or a crash, there is the old file or the new one, and the
// block is marked unless it is the new one.
func TestCrashesWhileRepairing(t *testing.T) {
	data := random(newRand(64), 5*piece)
	bad := bytes.Clone(data)
	bad[5] ^= 4
	whole := false
	for step := int64(0); !whole; step++ {
		for _, power := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				mem, disk := vfs.NewStrictMem(), &dyingDisk{}
				disk.failAfter(never, false, 0)
				o := store.Options{FS: errorfs.Wrap(mem, disk)}
				s, err := store.Open([]string{"a"}, o)
				must(t, err)
				b := id(1, 1)
				put(t, s, b, data)
				flip(t, mem, "a/blocks/1/1", 5)
				f, err := mem.Open("a/blocks/1/1")
				must(t, err)
				must(t, f.Sync())
				must(t, f.Close())
				scrub(t, s)
				disk.failAfter(step, true, syscall.EIO)
				repaired := repair(s, b, data) == nil
				whole = repaired && !disk.failing()
				crash(mem, s, power)
				disk.failAfter(never, false, 0)
				s, err = store.Open([]string{"a"}, o)
				must(t, err)
				defer s.Close()
				info, err := s.Stat(b)
				must(t, err)
				got := make([]byte, len(data))
				_, _, err = s.Read(b, 0, got, nil)
				must(t, err)
				isNew := bytes.Equal(got, data)
				if !isNew && !bytes.Equal(got, bad) || !isNew && !info.Damaged || repaired && (!isNew || info.Damaged) {
					t.Fatalf("step %d: repaired %v, new %v, %+v", step, repaired, isNew, info)
				}
				wantFiles(t, mem, "a/blocks/1", 1)
				if info.Damaged {
					must(t, repair(s, b, data))
				}
				read(t, s, b, data)
			})
		}
	}
}

package store_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

func TestBlockIsReadableOnceCommitted(t *testing.T) {
	s := newStore(t)
	rng := newRand(1)
	for i, size := range []int{0, 1, piece - 1, piece, piece + 1, 3*piece + 100, muster.ChunkBytes, muster.ChunkBytes + 5*piece + 7} {
		b, data := id(3, uint64(i+1)), random(rng, size)
		w, err := s.Create(b, 77)
		must(t, err)
		must(t, write(w, 0, data, 7*piece))
		_, _, err = s.Read(b, 0, nil, nil)
		wantCode(t, err, map[bool]muster.Code{true: muster.ErrNotFound, false: muster.ErrNoData}[i == 0])
		durable, err := w.Sync()
		must(t, err)
		if durable != int64(size) {
			t.Fatalf("%d bytes durable of %d", durable, size)
		}
		if size > 0 {
			info, err := s.Stat(b)
			must(t, err)
			if info.Committed || info.Length != int64(size) {
				t.Fatalf("before commit: %+v", info)
			}
			_, _, err = s.Read(b, 0, make([]byte, piece), nil)
			wantCode(t, err, muster.ErrNoData)
		}
		must(t, w.Commit())
		must(t, w.Close())
		read(t, s, b, data)
		read(t, s, b, data)
		info, err := s.Stat(b)
		must(t, err)
		if !info.Committed || info.Length != int64(size) || info.File != 77 || info.Damaged || !slices.Equal(info.Chunks, chunksOf(data)) {
			t.Fatalf("after commit: %+v", info)
		}
	}
	if got := s.Containers(); len(got) != 1 || got[0].Blocks != 8 {
		t.Fatalf("containers: %+v", got)
	}
}

func TestReadsOfRanges(t *testing.T) {
	s := newStore(t)
	data := random(newRand(2), 5*piece+10)
	put(t, s, id(1, 1), data)
	length := int64(len(data))
	for _, c := range []struct {
		offset int64
		n      int
		want   muster.Code
		read   int
	}{
		{0, piece, 0, piece}, {piece, 2 * piece, 0, 2 * piece}, {5 * piece, piece, 0, 10}, {5 * piece, 10, 0, 10},
		{4 * piece, piece + 10, 0, piece + 10}, {length, piece, 0, 0}, {0, 0, 0, 0},
		{-1, piece, muster.ErrInvalid, 0}, {-piece, piece, muster.ErrInvalid, 0}, {length + 1, piece, muster.ErrInvalid, 0},
		{1, piece, muster.ErrInvalid, 0}, {0, 100, muster.ErrInvalid, 0}, {5 * piece, 9, muster.ErrInvalid, 0}, {6 * piece, piece, muster.ErrInvalid, 0},
	} {
		dst := make([]byte, c.n)
		n, sums, err := s.Read(id(1, 1), c.offset, dst, []byte("before"))
		wantCode(t, err, c.want)
		if n != c.read {
			t.Fatalf("%d bytes at %d: %d were read, want %d", c.n, c.offset, n, c.read)
		}
		if err == nil && (!bytes.Equal(dst[:n], data[c.offset:c.offset+int64(n)]) || string(sums) != "before"+string(sumsOf(dst[:n]))) {
			t.Fatalf("%d bytes at %d: wrong data or checksums", c.n, c.offset)
		}
	}
}

func TestBadCalls(t *testing.T) {
	s := newStore(t)
	data := random(newRand(3), 4*piece)
	put(t, s, id(1, 1), data)
	fails := func(want muster.Code, err error) { t.Helper(); wantCode(t, err, want) }
	create := func(b muster.BlockID, file uint64) error { _, err := s.Create(b, file); return err }
	stat := func(b muster.BlockID) error { _, err := s.Stat(b); return err }
	list := func(c uint64, n int) error { _, err := s.List(c, 0, n); return err }

	fails(muster.ErrInvalid, create(id(0, 1), 1))
	fails(muster.ErrInvalid, create(id(1, 0), 1))
	fails(muster.ErrInvalid, create(id(1, 2), 0))
	fails(muster.ErrExists, create(id(1, 1), 1))
	fails(muster.ErrInvalid, stat(id(0, 1)))
	fails(muster.ErrInvalid, stat(id(1, 0)))
	fails(muster.ErrNotFound, stat(id(2, 1)))
	fails(muster.ErrNoData, stat(id(1, 9)))
	fails(muster.ErrInvalid, s.Delete(id(0, 0)))
	fails(muster.ErrNotFound, s.CloseContainer(7))
	fails(muster.ErrInvalid, s.CloseContainer(0))
	fails(muster.ErrNotFound, list(7, 1))
	fails(muster.ErrInvalid, list(1, 0))
	fails(muster.ErrNotFound, s.Commit(id(2, 1), 0))
	fails(muster.ErrNoData, s.Commit(id(1, 9), 0))
	fails(muster.ErrExists, s.Commit(id(1, 1), 5))
	fails(muster.ErrInvalid, s.Commit(id(1, 1), -1))
	must(t, s.Commit(id(1, 1), 4*piece))

	w, err := s.Create(id(1, 2), 5)
	must(t, err)
	fails(muster.ErrExists, create(id(1, 2), 5))
	sums := sumsOf(data)
	fails(muster.ErrInvalid, w.Write(piece, data, sums))
	fails(muster.ErrInvalid, w.Write(-1, data, sums))
	fails(muster.ErrInvalid, w.Write(0, data, sums[:12]))
	fails(muster.ErrInvalid, w.Write(0, data, append(slices.Clone(sums), 0)))
	fails(muster.ErrLimit, w.Write(0, make([]byte, muster.MaxTransfer+1), nil))
	bad := slices.Clone(sums)
	bad[9]++
	fails(muster.ErrCorrupt, w.Write(0, data, bad))
	must(t, w.Write(0, data, sums)) // after all of those
	fails(muster.ErrInvalid, w.Write(0, data, sums))
	must(t, w.Write(4*piece, data[:100], sumsOf(data[:100])))
	must(t, w.Write(4*piece+100, nil, nil))
	fails(muster.ErrInvalid, w.Write(4*piece+100, data, sums))
	must(t, w.Commit())
	fails(muster.ErrInvalid, w.Commit())
	fails(muster.ErrInvalid, w.Write(4*piece+100, data, sums))
	read(t, s, id(1, 2), append(slices.Clone(data), data[:100]...))

	must(t, s.Close())
	must(t, s.Close())
	fails(muster.ErrUnavailable, create(id(1, 3), 1))
	fails(muster.ErrUnavailable, stat(id(1, 1)))
	_, _, err = s.Read(id(1, 1), 0, make([]byte, piece), nil)
	fails(muster.ErrUnavailable, err)
}

func TestRecoveryCutsABlock(t *testing.T) {
	data := random(newRand(4), muster.ChunkBytes+3*piece+77)
	mem := vfs.NewMem()
	s := open(t, store.Options{FS: mem}, "a")
	lengths := []int{0, 1, piece - 1, piece, piece + 1, muster.ChunkBytes, muster.ChunkBytes + 1, len(data) - 1, len(data)}
	for i, length := range lengths {
		data := data
		if length < muster.ChunkBytes {
			data = data[:5*piece+9]
		}
		b := id(5, 1+uint64(i))
		w, err := s.Create(b, 8)
		must(t, err)
		must(t, write(w, 0, data, muster.MaxTransfer))
		_, err = w.Sync()
		must(t, err)
		wantCode(t, s.Commit(b, int64(len(data)+1)), muster.ErrInvalid)
		must(t, s.Commit(b, int64(length)))
		must(t, s.Commit(b, int64(length)))
		wantCode(t, w.Write(int64(len(data)), nil, nil), muster.ErrExists) // the writer is done for
		wantCode(t, w.Commit(), muster.ErrExists)
		must(t, w.Close())
	}
	for range 2 {
		for i, length := range lengths {
			read(t, s, id(5, 1+uint64(i)), data[:length])
			info, err := s.Stat(id(5, 1+uint64(i)))
			must(t, err)
			if !slices.Equal(info.Chunks, chunksOf(data[:length])) {
				t.Fatalf("cut to %d: wrong checksums of chunks", length)
			}
		}
		must(t, s.Close())
		s = open(t, store.Options{FS: mem}, "a")
	}
}

func TestUnfinishedBlocksSurvive(t *testing.T) {
	mem := vfs.NewMem()
	now := newClock()
	o := store.Options{FS: mem, Now: now.Now}
	s := open(t, o, "a")
	data := random(newRand(5), 6*piece)
	w, err := s.Create(id(1, 1), 4)
	must(t, err)
	must(t, write(w, 0, data[:4*piece], piece))
	_, err = w.Sync()
	must(t, err)
	must(t, write(w, 4*piece, data[4*piece:], piece)) // never durable
	must(t, w.Close())
	never, err := s.Create(id(1, 2), 4)
	must(t, err)
	must(t, write(never, 0, data, piece))
	must(t, never.Close())
	_, err = s.Stat(id(1, 2))
	wantCode(t, err, muster.ErrNoData)
	must(t, s.Close())

	now.Add(time.Hour)
	s = open(t, o, "a")
	if got := s.Unfinished(2*time.Hour, 10); len(got) != 0 {
		t.Fatalf("younger than asked: %v", got)
	}
	got := s.Unfinished(time.Hour, 10)
	if want := (store.Unfinished{ID: id(1, 1), File: 4, Age: time.Hour}); len(got) != 1 || got[0] != want {
		t.Fatalf("got %v; want %v", got, want)
	}
	_, err = s.Create(id(1, 1), 4)
	wantCode(t, err, muster.ErrExists)
	must(t, s.Commit(id(1, 1), 4*piece))
	read(t, s, id(1, 1), data[:4*piece])
	if got := s.Unfinished(0, 10); len(got) != 0 {
		t.Fatalf("committed blocks are unfinished: %v", got)
	}
}

func TestDeletedBlocksStayAway(t *testing.T) {
	mem := vfs.NewMem()
	now := newClock()
	o := store.Options{FS: mem, Now: now.Now}
	s := open(t, o, "a")
	data := random(newRand(6), 2*piece)
	put(t, s, id(1, 1), data)
	read(t, s, id(1, 1), data)
	w, err := s.Create(id(1, 2), 4)
	must(t, err)
	must(t, write(w, 0, data, piece))
	must(t, s.Delete(id(1, 1)))
	must(t, s.Delete(id(1, 1)))
	must(t, s.Delete(id(1, 2))) // while it is written
	must(t, s.Delete(id(1, 3))) // never was
	must(t, s.Delete(id(9, 3)))
	_, err = w.Sync()
	wantCode(t, err, muster.ErrNoData)
	wantCode(t, w.Commit(), muster.ErrNoData)
	must(t, w.Close())
	for range 2 {
		for local := range uint64(3) {
			b := id(1, local+1)
			_, _, err := s.Read(b, 0, make([]byte, piece), nil)
			wantCode(t, err, muster.ErrNoData)
			if !s.Deleted(b) {
				t.Fatalf("block %v left no tombstone", b)
			}
			_, err = s.CreateCopy(b, 4)
			wantCode(t, err, muster.ErrExists)
		}
		must(t, s.Close())
		s = open(t, o, "a")
	}
	now.Add(store.TombstoneLife)
	if s.Deleted(id(1, 1)) {
		t.Fatal("a tombstone outlives its time")
	}
	if names, err := mem.List("a/blocks/1"); err != nil || len(names) != 0 {
		t.Fatalf("files are left: %v %v", names, err)
	}
}

func TestClosedContainerTakesCopiesAlone(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, store.Options{FS: mem}, "a")
	data := random(newRand(7), 2*piece)
	w, err := s.Create(id(1, 1), 4)
	must(t, err)
	must(t, write(w, 0, data, piece))
	_, err = w.Sync()
	must(t, err)
	must(t, s.CloseContainer(1))
	must(t, s.CloseContainer(1))
	wantCode(t, w.Write(2*piece, data, sumsOf(data)), muster.ErrChanged)
	must(t, w.Commit()) // what was written before
	_, err = s.Create(id(1, 2), 4)
	wantCode(t, err, muster.ErrChanged)
	w, err = s.CreateCopy(id(1, 2), 4)
	must(t, err)
	must(t, write(w, 0, data, piece))
	must(t, w.Commit())
	must(t, s.Close())
	s = open(t, store.Options{FS: mem}, "a")
	want := store.Container{ID: 1, Closed: true, Blocks: 2, Bytes: 4 * piece}
	if got := s.Containers(); len(got) != 1 || got[0] != want {
		t.Fatalf("got %+v; want %+v", got, want)
	}
	_, err = s.Create(id(1, 3), 4)
	wantCode(t, err, muster.ErrChanged)
}

func TestDroppedContainerIsGoneAndMayComeBack(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, store.Options{FS: mem}, "a")
	data := random(newRand(8), 2*piece)
	put(t, s, id(1, 1), data)
	put(t, s, id(2, 1), data)
	read(t, s, id(1, 1), data)
	w, err := s.Create(id(1, 2), 4)
	must(t, err)
	must(t, write(w, 0, data, piece))
	s.TakeChanges()
	must(t, s.Drop(1))
	must(t, s.Drop(1))
	if got := s.TakeChanges(); len(got) != 1 || !got[0].Gone || got[0].ID != 1 {
		t.Fatalf("changes: %+v", got)
	}
	_, err = w.Sync()
	wantCode(t, err, muster.ErrNotFound)
	must(t, w.Close())
	_, _, err = s.Read(id(1, 1), 0, make([]byte, piece), nil)
	wantCode(t, err, muster.ErrNotFound)
	read(t, s, id(2, 1), data)
	put(t, s, id(1, 1), data[:piece])
	read(t, s, id(1, 1), data[:piece])
	must(t, s.Close())
	s = open(t, store.Options{FS: mem}, "a")
	read(t, s, id(1, 1), data[:piece])
	if got := s.Containers(); len(got) != 2 || got[0].Bytes != piece || s.Disks()[0].Used != 3*piece {
		t.Fatalf("containers: %+v, disks %+v", got, s.Disks())
	}
}

func TestChangesTellWhatHappened(t *testing.T) {
	s := newStore(t)
	data := random(newRand(9), piece)
	take := func(want ...store.Change) {
		t.Helper()
		if len(want) > 0 {
			<-s.Changes()
		}
		if got := s.TakeChanges(); !slices.Equal(got, want) {
			t.Fatalf("got %+v; want %+v", got, want)
		}
	}
	take()
	put(t, s, id(4, 1), data)
	take(store.Change{Container: store.Container{ID: 4, Blocks: 1, Bytes: piece}})
	take()
	put(t, s, id(3, 1), data)
	put(t, s, id(4, 2), data)
	take(store.Change{Container: store.Container{ID: 3, Blocks: 1, Bytes: piece}}, store.Change{Container: store.Container{ID: 4, Blocks: 2, Bytes: 2 * piece}})
	must(t, s.Delete(id(4, 1)))
	must(t, s.CloseContainer(3))
	take(store.Change{Container: store.Container{ID: 3, Closed: true, Blocks: 1, Bytes: piece}}, store.Change{Container: store.Container{ID: 4, Blocks: 1, Bytes: piece}})
	must(t, s.Drop(4))
	take(store.Change{Container: store.Container{ID: 4}, Gone: true})
}

func TestListPages(t *testing.T) {
	s := newStore(t)
	data := random(newRand(10), piece)
	for local := range uint64(5) {
		put(t, s, id(1, local*10+1), data)
	}
	put(t, s, id(2, 1), data)
	var got []uint64
	for after := uint64(0); ; {
		page, err := s.List(1, after, 2)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, b := range page {
			if b.Length != piece || !b.Committed || b.Damaged || b.File != 9 {
				t.Fatalf("%+v", b)
			}
			got = append(got, b.LocalID)
		}
		after = got[len(got)-1]
	}
	if want := []uint64{1, 11, 21, 31, 41}; !slices.Equal(got, want) {
		t.Fatalf("got %v; want %v", got, want)
	}
}

// TestSmallBlockCostsThreeSyncs holds the store to what a small file may cost.
func TestSmallBlockCostsThreeSyncs(t *testing.T) {
	s := newStore(t)
	data := random(newRand(11), 100)
	put(t, s, id(1, 1), data)
	before := s.Stats()
	put(t, s, id(1, 2), data)
	after := s.Stats()
	if after.DataSyncs-before.DataSyncs != 1 || after.FolderSyncs-before.FolderSyncs != 1 || after.MetadataSyncs-before.MetadataSyncs != 1 {
		t.Fatalf("before %+v, after %+v", before, after)
	}
}

func TestOpenRefusesWhatItMust(t *testing.T) {
	mem := vfs.NewMem()
	openErr := func(o store.Options, dirs ...string) error {
		s, err := store.Open(dirs, o)
		if err == nil {
			s.Close()
		}
		return err
	}
	o := store.Options{FS: mem}
	wantCode(t, openErr(o), muster.ErrUnavailable)
	wantCode(t, openErr(o, "a", "a"), muster.ErrInvalid)
	for _, bad := range []store.Options{{Reserve: -1}, {Handles: -1}, {ChecksumCache: -1}, {ScrubRate: 1}, {ScrubEvery: 1}} {
		wantCode(t, openErr(bad, "a"), muster.ErrInvalid)
	}
	s := open(t, o, "a")
	put(t, s, id(1, 1), random(newRand(12), 10))
	wantCode(t, openErr(o, "a"), muster.ErrUnavailable) // it has an owner
	must(t, s.Close())
	must(t, mem.RemoveAll("a/store"))
	wantCode(t, openErr(o, "a"), muster.ErrCorrupt)
	must(t, mem.Remove("a/FORMAT"))
	wantCode(t, openErr(o, "a"), muster.ErrCorrupt) // else all blocks would be removed
	if names, err := mem.List("a/blocks/1"); err != nil || len(names) != 1 {
		t.Fatalf("blocks were removed: %v %v", names, err)
	}
}

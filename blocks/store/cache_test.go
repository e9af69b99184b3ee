package store

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// putBlocks commits blocks 1 to n of container 1.
func putBlocks(t *testing.T, s *Store, n uint64) {
	t.Helper()
	data := make([]byte, 2*muster.ChecksumBytes)
	sum := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(data[:muster.ChecksumBytes], castagnoli))
	for local := range n {
		w, err := s.Create(muster.BlockID{Container: 1, LocalID: local + 1}, 1)
		if err == nil {
			err = w.Write(0, data, append(sum, sum...))
		}
		if err == nil {
			err = w.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readBlock(s *Store, local uint64) error {
	_, _, err := s.Read(muster.BlockID{Container: 1, LocalID: local}, 0, make([]byte, muster.ChecksumBytes), nil)
	return err
}

// TestHotReadTakesNoLock reads while the test holds every lock there is.
func TestHotReadTakesNoLock(t *testing.T) {
	s, err := Open([]string{"a"}, Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	putBlocks(t, s, 1)
	if err := readBlock(s, 1); err != nil {
		t.Fatal(err)
	}
	c := s.known(1)
	s.gate.mu.Lock()
	s.mu.Lock()
	c.mu.Lock()
	c.disk.scrubs.mu.Lock()
	for i := range s.cache.shards {
		s.cache.shards[i].mu.Lock()
	}
	done := make(chan error, 1)
	go func() { done <- readBlock(s, 1) }()
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		t.Error("a hot read waits for a lock")
	}
	for i := range s.cache.shards {
		s.cache.shards[i].mu.Unlock()
	}
	c.disk.scrubs.mu.Unlock()
	c.mu.Unlock()
	s.mu.Unlock()
	s.gate.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCacheIsBounded in files and in bytes, and keeps what is read often.
func TestCacheIsBounded(t *testing.T) {
	const blocks = 200
	for _, c := range []struct {
		o    Options
		most int64
	}{
		{Options{Handles: 1}, 1},
		{Options{Handles: 10}, 10},
		{Options{Handles: 40}, 40},
		{Options{ChecksumCache: 1}, 64}, // one in each part
		{Options{}, blocks},
	} {
		c.o.FS = vfs.NewMem()
		s, err := Open([]string{"a"}, c.o)
		if err != nil {
			t.Fatal(err)
		}
		putBlocks(t, s, blocks)
		for local := range uint64(blocks) {
			for _, b := range []uint64{1, local + 1} {
				if err := readBlock(s, b); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := s.cache.held.Load(); n < 1 || n > c.most {
			t.Errorf("%+v: %d files are open", c.o, n)
		}
		if c.o.Handles == 40 && s.cache.peek(muster.BlockID{Container: 1, LocalID: 1}) == nil {
			t.Error("what is read all the time is not kept")
		}
		size := int64(0)
		for i := range s.cache.shards {
			for _, e := range *s.cache.shards[i].entries.Load() {
				size += e.size()
			}
			size -= s.cache.shards[i].size
		}
		if size != 0 {
			t.Errorf("%+v: the cache is off by %d bytes", c.o, size)
		}
		if err := s.Close(); err != nil || s.cache.held.Load() != 0 {
			t.Errorf("%+v: %d files after Close: %v", c.o, s.cache.held.Load(), err)
		}
	}
}

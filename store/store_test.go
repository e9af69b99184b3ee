package store

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/vfs"
	"github.com/cockroachdb/pebble/vfs/errorfs"

	"github.com/muster-fs/muster"
)

func options(files vfs.FS) Options {
	return Options{Format: Format{"test", 1}, FS: files, CacheBytes: 1 << 20, MemTableBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)}
}

// mustOpen opens a store, which existed before or did not.
func mustOpen(t *testing.T, files vfs.FS, existed bool) *Store {
	t.Helper()
	s, err := Open("dir", options(files))
	if err != nil {
		t.Fatal(err)
	}
	if s.Existed() != existed {
		t.Fatalf("existed: %v", s.Existed())
	}
	return s
}

// put commits a key.
func put(t *testing.T, s *Store, key string) (applied bool, err error) {
	t.Helper()
	b := s.DB.NewBatch()
	if err := b.Set([]byte(key), nil, nil); err != nil {
		t.Fatal(err)
	}
	err = s.Commit(b, func() { applied = true })
	return applied, err
}

// keys are those that a store has.
func keys(t *testing.T, s *Store) (all string) {
	t.Helper()
	iter, err := s.DB.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		all += string(iter.Key())
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAFolderIsCompleteWhenItsOwnerSaysSo, and what is committed is durable.
func TestAFolderIsCompleteWhenItsOwnerSaysSo(t *testing.T) {
	mem := vfs.NewStrictMem()
	crash := func(s *Store) {
		mem.SetIgnoreSyncs(true)
		_ = s.Close()
		mem.ResetToSyncedState()
		mem.SetIgnoreSyncs(false)
	}
	s := mustOpen(t, mem, false)
	if applied, err := put(t, s, "a"); err != nil || !applied {
		t.Fatal(applied, err)
	}
	crash(s)
	s = mustOpen(t, mem, false)
	if got := keys(t, s); got != "a" || !errors.Is(s.Incomplete(), muster.ErrCorrupt) {
		t.Errorf("%q", got)
	}
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	crash(s)
	s = mustOpen(t, mem, true)
	if _, err := Open("dir", options(mem)); !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "owns") {
		t.Errorf("a second owner: %v", err)
	}
	s.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(mem)
	o.Format.Name = "other"
	if _, err := Open("dir", o); !errors.Is(err, muster.ErrCorrupt) {
		t.Errorf("as the folder of another: %v", err)
	}
}

// TestAFailedCommitIsTheLast: what follows is refused, though the disk is well again; opening finds
// what was committed.
func TestAFailedCommitIsTheLast(t *testing.T) {
	mem := vfs.NewStrictMem()
	var failing atomic.Bool
	disk := errorfs.InjectorFunc(func(o errorfs.Op, path string) error {
		if failing.Load() && o == errorfs.OpFileWrite && strings.HasSuffix(path, ".log") {
			return errorfs.ErrInjected
		}
		return nil
	})
	s := mustOpen(t, errorfs.Wrap(mem, disk), false)
	if _, err := put(t, s, "a"); err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	if _, err := put(t, s, "b"); !errors.Is(err, muster.ErrUnavailable) || !errors.Is(s.Failure(), muster.ErrUnavailable) {
		t.Fatalf("%v, then %v", err, s.Failure())
	}
	<-s.Failed()
	failing.Store(false)
	if _, err := put(t, s, "c"); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("the next: %v", err)
	}
	if err := s.Close(); !errors.Is(err, muster.ErrUnavailable) {
		t.Errorf("close: %v", err)
	}
	mem.ResetToSyncedState()
	s = mustOpen(t, mem, false)
	if got := keys(t, s); got != "a" {
		t.Errorf("%q is there", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAnOwnerMayFailItsStore for a reason of its own.
func TestAnOwnerMayFailItsStore(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), false)
	if err := s.Fail(errors.New("because")); !errors.Is(err, muster.ErrUnavailable) || !strings.Contains(err.Error(), "because") {
		t.Error(err)
	}
	if _, err := put(t, s, "a"); !errors.Is(err, muster.ErrUnavailable) {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, muster.ErrUnavailable) {
		t.Error(err)
	}
}

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"
	"github.com/cockroachdb/pebble/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// Dir is the folder of Pebble's files in a store's.
const Dir = "store"

// Options configures a store. All but Logger must be set.
type Options struct {
	Format        Format
	FS            vfs.FS
	CacheBytes    int64 // of Pebble's block cache
	MemTableBytes int64 // of a table in memory. Up to two are in the log, which opening reads after a crash
	Logger        *slog.Logger
}

// Store is a folder with a Pebble store, and its one owner.
type Store struct {
	DB *pebble.DB // read and flush it as you like; write by Commit

	opts   Options
	dir    string
	exists bool      // it was complete when it was opened
	lock   io.Closer // of the folder
	fs     *failStop

	trouble  chan struct{} // capacity 1: background work failed
	troubled atomic.Int64  // ns; when that was logged last
}

// Open opens the store in a folder, which it makes if it does not exist.
//
// Errors are ErrUnavailable if the folder has an owner already, ErrInvalid if it was written by
// a newer version (it is left untouched), or is a file, ErrCorrupt if it is damaged.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{opts: o, dir: dir, trouble: make(chan struct{}, 1)}
	files := o.FS.PathJoin(dir, Dir)
	if err := checkFolder(o.FS, files); err != nil {
		return nil, err
	}
	var err error
	if s.exists, err = o.Format.read(o.FS, dir); err != nil {
		return nil, err
	}
	if !s.exists {
		const private = 0o700 // the files have all names and owners, past all permissions
		if err := makeDirs(o.FS, files, private); err != nil {
			return nil, err
		}
	}
	lock, err := lockFolder(o.FS, files)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	s.fs = newFailStop(o.FS, s.tableDamaged)
	if err := s.open(files, lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// lockFolder makes the caller the folder's one owner.
func lockFolder(files vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, files)
	var path *fs.PathError
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: it has a %s file but its %q folder is missing", muster.ErrCorrupt, formatFile, Dir)
	case errors.As(err, &path): // the file could not even be opened
		return nil, fmt.Errorf("%w: lock: %v", muster.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("%w: another process owns it; stop that one first (%v)", muster.ErrUnavailable, err)
}

// open opens Pebble; whatever it makes of damaged files is an error.
func (s *Store) open(files string, lock *pebble.Lock) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: store: %v", muster.ErrCorrupt, p)
		}
	}()
	if err := checkLogs(s.opts.FS, files); err != nil {
		return err
	}
	o := s.pebbleOptions()
	defer o.Cache.Unref()
	o.Lock, o.ErrorIfNotExists = lock, s.exists
	s.DB, err = pebble.Open(files, o)
	if failed := s.Failure(); err != nil && failed != nil {
		return failed // the rest followed from it
	}
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("%w: it has a %s file but no store", muster.ErrCorrupt, formatFile)
	}
	return openError(err)
}

func (s *Store) pebbleOptions() *pebble.Options {
	log := s.opts.Logger
	o := &pebble.Options{
		FS:                          s.fs,
		Cache:                       pebble.NewCache(s.opts.CacheBytes),
		MemTableSize:                uint64(s.opts.MemTableBytes),
		MemTableStopWritesThreshold: 2,
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxConcurrentCompactions:    s.compactions,
		// The last level listed is that of all deeper ones.
		Levels: []pebble.LevelOptions{{BlockSize: 32 << 10, FilterPolicy: bloom.FilterPolicy(10), FilterType: pebble.TableFilter}},
		Logger: storeLogger{log, s.fs},
		EventListener: &pebble.EventListener{
			BackgroundError: s.backgroundError,
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) { log.Warn("store: writes stall", "reason", i.Reason) },
			WriteStallEnd:   func() { log.Info("store: writes go on") },
		},
	}
	// Then only compactions open tables with vfs.SequentialReadsOption: see compacted.
	o.Local.ReadaheadConfigFn = func() pebble.ReadaheadConfig {
		return pebble.ReadaheadConfig{Informed: objstorageprovider.FadviseSequential, Speculative: objstorageprovider.SysReadahead}
	}
	return o
}

// compactionPause is how long no compaction begins after one failed.
const compactionPause = 5 * time.Second

// compactions is how many may run at once. Pebble tries one that failed again at once, for ever.
func (s *Store) compactions() int {
	if s.Pausing() {
		return -1 // Pebble divides by it, so not 0
	}
	return max(1, min(runtime.GOMAXPROCS(0)-1, 3))
}

// Pausing says whether no table is merged for a while, since merging failed.
func (s *Store) Pausing() bool {
	return time.Now().UnixNano()-s.troubled.Load() < int64(compactionPause)
}

func (s *Store) tableDamaged(err error) {
	s.opts.Logger.Error("store: a table is damaged; what is in the damaged block cannot be read, and fewer or no tables are merged until the folder is opened again; restore it from a copy", "error", err)
}

// backgroundError notes that background work of Pebble, which is tried again, failed. It is
// called with Pebble's locks held.
func (s *Store) backgroundError(err error) {
	select {
	case s.trouble <- struct{}{}:
	default:
	}
	const often = int64(time.Second)
	if now, last := time.Now().UnixNano(), s.troubled.Load(); now-last > often && s.troubled.CompareAndSwap(last, now) {
		s.opts.Logger.Warn("store: background work failed; it is tried again", "error", err)
	}
}

// Existed says whether the folder was complete when it was opened. If it was not, fill it and
// call Complete.
func (s *Store) Existed() bool { return s.exists }

// Complete makes the format file of a new folder, once all that a folder has is durable.
func (s *Store) Complete() error { return s.opts.Format.write(s.opts.FS, s.dir) }

// Incomplete is the error of an owner that finds a store in use in a folder without a format file.
func (s *Store) Incomplete() error {
	return fmt.Errorf("%w: it has a store but no %s file", muster.ErrCorrupt, formatFile)
}

// Commit writes a batch and closes it. It is durable when Commit returns nil; between its being
// applied and its being durable, applied is called. An error is final: the store has failed.
// There is one Commit at a time: the log's records are told from damage by that.
func (s *Store) Commit(b *pebble.Batch, applied func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.fs.wedged.Store(true)
			s.fs.trip(p)
			err = s.Failure()
		}
	}()
	if err := s.DB.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		s.fs.trip(err)
		return s.Failure()
	}
	applied()
	if err := b.SyncWait(); err != nil {
		s.fs.trip(err)
	}
	if err := s.Failure(); err != nil {
		return err
	}
	return Error(b.Close())
}

// Fail makes the store fail, as a write to its log that fails does.
func (s *Store) Fail(cause error) error {
	s.fs.trip(cause)
	return s.Failure()
}

// Failure returns why the store failed, nil if it did not. Whatever was read before Failure
// returned nil is true.
func (s *Store) Failure() error { return s.fs.failure() }

// Failed is closed when the store fails.
func (s *Store) Failed() <-chan struct{} { return s.fs.tripped }

// Wedged says whether Pebble may never give back its locks, so that not even closing its
// snapshots returns.
func (s *Store) Wedged() bool { return s.fs.wedged.Load() }

// Flush writes what is in memory into tables, so that the next Open finds no log to replay. Pebble
// tries for ever; failing once is enough here, and no loss.
func (s *Store) Flush() {
	if s.Failure() != nil {
		return
	}
	select {
	case <-s.trouble: // an old one
	default:
	}
	flushed, err := s.DB.AsyncFlush()
	if err != nil {
		s.opts.Logger.Warn("flushing at close failed", "error", err)
		return
	}
	select {
	case <-flushed:
	case <-s.trouble:
	case <-s.fs.tripped:
	}
}

// Close closes Pebble and gives the folder back. If the store had failed, it returns why.
func (s *Store) Close() error {
	var err error
	close(s.fs.closing)
	if !s.Wedged() {
		err = Error(s.DB.Close())
	}
	if lockErr := s.lock.Close(); err == nil && lockErr != nil {
		err = fmt.Errorf("%w: unlock: %v", muster.ErrInternal, lockErr)
	}
	if failed := s.Failure(); failed != nil {
		return failed
	}
	return err
}

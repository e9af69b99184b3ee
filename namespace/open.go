package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"
	"github.com/cockroachdb/pebble/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace/images"
)

// storeDir is the store's folder in the tree's.
const storeDir = "store"

// Open opens the tree in a folder, which it makes if it does not exist. How long it takes does not
// depend on the tree's size.
//
// Errors name the folder: ErrUnavailable if it has an owner already, ErrInvalid if it was
// written by a newer version (it is left untouched), is a file, or the options are bad,
// ErrCorrupt if it is damaged.
func Open(dir string, o Options) (*Tree, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open the namespace in %q: %w", dir, err)
	}
	return t, nil
}

func open(dir string, o Options) (*Tree, error) {
	store := o.FS.PathJoin(dir, storeDir)
	if err := checkFolder(o.FS, store); err != nil {
		return nil, err
	}
	exists, err := readFormat(o.FS, dir)
	if err != nil {
		return nil, err
	}
	if !exists {
		const private = 0o700 // the files have all names and owners, past all permissions
		if err := makeDirs(o.FS, store, private); err != nil {
			return nil, err
		}
	}
	lock, err := lockStore(o.FS, store)
	if err != nil {
		return nil, err
	}
	t := &Tree{opts: o, lock: lock, stop: make(chan struct{}), trouble: make(chan struct{}, 1)}
	t.loads.cache = images.New(images.Options{Bytes: o.ImageBytes})
	t.readers.New = func() any { return newReader(t) }
	t.fs = newFailStop(o.FS, t.tableDamaged)
	if err := t.openStore(store, lock, exists); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	err = t.load(dir, exists)
	if err == nil {
		err = t.fs.failure() // of which the store did not hear
	}
	if err != nil {
		t.release()
		return nil, err
	}
	t.start()
	return t, nil
}

// lockStore makes the caller the folder's one owner.
func lockStore(files vfs.FS, store string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(store, files)
	var path *fs.PathError
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: it has a %s file but its %q folder is missing", muster.ErrCorrupt, formatFile, storeDir)
	case errors.As(err, &path): // the file could not even be opened
		return nil, fmt.Errorf("%w: lock: %v", muster.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("%w: another process owns it; stop that one first (%v)", muster.ErrUnavailable, err)
}

// openStore opens the store; whatever the store makes of damaged files is an error.
func (t *Tree) openStore(store string, lock *pebble.Lock, exists bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: store: %v", muster.ErrCorrupt, p)
		}
	}()
	if err := checkLogs(t.opts.FS, store); err != nil {
		return err
	}
	o := t.storeOptions()
	defer o.Cache.Unref()
	o.Lock, o.ErrorIfNotExists = lock, exists
	t.db, err = pebble.Open(store, o)
	if failed := t.fs.failure(); err != nil && failed != nil {
		return failed // the rest followed from it
	}
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("%w: it has a %s file but no store", muster.ErrCorrupt, formatFile)
	}
	return openError(err)
}

// openError gives an error of opening the store its code: what the system did not say is
// about what the files hold.
func openError(err error) error {
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist) && (errors.As(err, &path) || errors.As(err, &errno)):
		return fmt.Errorf("%w: store: %v", muster.ErrUnavailable, err)
	}
	return corrupt("store: %v", err)
}

func (t *Tree) storeOptions() *pebble.Options {
	log := t.opts.Logger
	o := &pebble.Options{
		FS:                          t.fs,
		Cache:                       pebble.NewCache(t.opts.CacheBytes),
		MemTableSize:                uint64(t.opts.MemTableBytes),
		MemTableStopWritesThreshold: 2,
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxConcurrentCompactions:    t.compactions,
		// The last level listed is that of all deeper ones.
		Levels: []pebble.LevelOptions{{BlockSize: 32 << 10, FilterPolicy: bloom.FilterPolicy(10), FilterType: pebble.TableFilter}},
		Logger: storeLogger{log, t.fs},
		EventListener: &pebble.EventListener{
			BackgroundError: t.backgroundError,
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

// compactions is how many may run at once. The store tries one that failed again at once, for ever.
func (t *Tree) compactions() int {
	if time.Now().UnixNano()-t.troubled.Load() < int64(compactionPause) {
		return -1 // the store divides by it, so not 0
	}
	return max(1, min(runtime.GOMAXPROCS(0)-1, 3))
}

func (t *Tree) tableDamaged(err error) {
	t.opts.Logger.Error("store: a table is damaged; what is in the damaged block cannot be read, and fewer or no tables are merged until the folder is opened again; restore it from a copy", "error", err)
}

// backgroundError notes that background work of the store, which is tried again, failed. It is
// called with locks of the store held.
func (t *Tree) backgroundError(err error) {
	select {
	case t.trouble <- struct{}{}:
	default:
	}
	const often = int64(time.Second)
	if now, last := time.Now().UnixNano(), t.troubled.Load(); now-last > often && t.troubled.CompareAndSwap(last, now) {
		t.opts.Logger.Warn("store: background work failed; it is tried again", "error", err)
	}
}

// load reads the counters, which is all that opening reads, or makes a new tree.
func (t *Tree) load(dir string, exists bool) error {
	v, closer, err := t.db.Get(metaKey())
	t.counters.gets.Add(1)
	switch {
	case err == nil:
		t.committer.meta, err = decodeMeta(v)
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
	case !errors.Is(err, pebble.ErrNotFound):
		return storeError(err)
	case exists:
		return corrupt("the store has no counters")
	default:
		if err := t.plant(); err != nil {
			return err
		}
	}
	if exists {
		return nil
	}
	if m := &t.committer.meta; m.txid != 0 {
		return fmt.Errorf("%w: it has a store but no %s file", muster.ErrCorrupt, formatFile)
	}
	return writeFormat(t.opts.FS, dir)
}

// plant makes the tree of a new store: the root.
func (t *Tree) plant() error {
	iter, err := t.db.NewIter(nil)
	if err != nil {
		return storeError(err)
	}
	used := iter.First()
	if err := storeError(iter.Close()); err != nil {
		return err
	}
	if used {
		return corrupt("the store has no counters")
	}
	now := t.opts.Now().UnixMilli()
	tx := t.newTxn(meta{nextID: rootID + 1, stamp: now, inodes: 1})
	tx.setRow(0, "", &muster.Row{
		ID: rootID, Kind: muster.Directory, Mode: 0o755, ATime: now,
		Owner: []byte(t.opts.Superuser), Group: []byte(muster.Supergroup),
	}, blockList{})
	tx.setRecord(rootID, &record{kind: muster.Directory, mtime: now})
	b, err := tx.batch()
	if err == nil {
		err = b.Commit(pebble.Sync)
	}
	if err != nil {
		return storeError(err)
	}
	t.committer.meta = tx.meta
	return t.fs.failure()
}

// start makes the first view and starts the tree's goroutines.
func (t *Tree) start() {
	ctx, cancel := context.WithCancel(context.Background())
	t.committer = committer{tree: t, meta: t.committer.meta, queue: make(chan *call, queueLen), stopped: make(chan struct{})}
	t.janitor = janitor{tree: t, woken: make(chan struct{}, 1), expiry: expiry{tree: t}}
	t.committer.last = t.newView(t.committer.meta)
	t.publish(t.committer.last, &touched{})
	t.janitor.wake(&t.committer.meta)
	t.running.Go(t.committer.run)
	t.running.Go(t.watch)
	t.running.Go(func() {
		defer cancel()
		<-t.stop
	})
	if !t.opts.idle {
		t.running.Go(func() { t.janitor.run(ctx) })
	}
}

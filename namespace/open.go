package namespace

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace/images"
	"github.com/muster-fs/muster/store"
)

// format is the format of all files in a tree's folder. Version 2 has the keys of writing and of
// deleting blocks, and two counters more; version 1 is made version 2 when it is opened.
var format = store.Format{Name: "namespace", Version: 2}

// Open opens the tree in a folder, which it makes if it does not exist. How long it takes does not
// depend on the tree's size.
//
// Errors name the folder: ErrUnavailable if it has an owner already, ErrInvalid if it was
// written by a newer version (it is left untouched), is a file, or the options are bad,
// ErrCorrupt if it is damaged. What an older version wrote is from then on the newer one's.
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
	s, err := store.Open(dir, store.Options{Format: format, FS: o.FS, CacheBytes: o.CacheBytes, MemTableBytes: o.MemTableBytes, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	t := &Tree{opts: o, store: s, db: s.DB, stop: make(chan struct{})}
	t.loads.cache = images.New(images.Options{Bytes: o.ImageBytes})
	t.readers.New = func() any { return newReader(t) }
	err = t.load()
	if err == nil {
		err = s.Failure() // of which Pebble did not hear
	}
	if err != nil {
		_ = s.Close() // its failure, if any, is err
		return nil, err
	}
	t.start()
	return t, nil
}

// load reads the counters, which is all that opening reads, or makes a new tree.
func (t *Tree) load() error {
	old := false
	v, closer, err := t.db.Get(metaKey())
	t.counters.gets.Add(1)
	switch {
	case err == nil:
		t.committer.meta, old, err = decodeMeta(v)
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
	case !errors.Is(err, pebble.ErrNotFound):
		return store.Error(err)
	case t.store.Existed():
		return corrupt("the store has no counters")
	default:
		if err := t.plant(); err != nil {
			return err
		}
	}
	switch {
	case old && t.store.Existed():
		return t.store.Complete() // with the new version, before anything of it is written
	case t.store.Existed():
		return nil
	case t.committer.meta.txid != 0:
		return t.store.Incomplete()
	}
	return t.store.Complete()
}

// plant makes the tree of a new store: the root.
func (t *Tree) plant() error {
	iter, err := t.db.NewIter(nil)
	if err != nil {
		return store.Error(err)
	}
	used := iter.First()
	if err := store.Error(iter.Close()); err != nil {
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
	if err != nil {
		return err
	}
	t.committer.meta = tx.meta
	return t.store.Commit(b, func() {})
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

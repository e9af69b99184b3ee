package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/store"
)

// format is the format of all files in a registry's folder.
var format = store.Format{Name: "locations", Version: 2}

// cacheBytes is the store's block cache. All that the store has is read once, when it is opened.
const cacheBytes = 1 << 20

// Open opens the registry in a folder, which it makes if it does not exist.
//
// Errors name the folder: ErrUnavailable if it has an owner already, ErrInvalid if it was
// written by a newer version (it is left untouched), is a file, or the options or the mapping
// file are bad, ErrCorrupt if it is damaged.
func Open(dir string, o Options) (*Registry, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Registry{
		opts: o.withDefaults(), boot: 1 + rand.Uint64N(math.MaxUint64), started: time.Now(), stop: make(chan struct{}),
		byID: map[string]*node{}, containers: map[uint64]*container{}, targets: map[uint64][]muster.NodeNumber{}, open: map[muster.Replication]*openContainers{}, lags: map[uint64]lag{},
	}
	r.orders = orders{byID: map[uint64]*order{}, of: map[uint64][]*order{}, memories: map[uint64]*memory{}, last: r.boot}
	r.writer = writer{registry: r, queue: make(chan *change), stopped: make(chan struct{})}
	mapping, text, err := r.readMapping()
	if err != nil {
		return nil, err
	}
	r.mapping = mapping
	if err := r.openStore(dir); err != nil {
		return nil, fmt.Errorf("open the registry in %q: %w", dir, err)
	}
	r.mu.Lock()
	r.settle(r.started)
	r.publish()
	r.mu.Unlock()
	r.running.Go(r.writer.run)
	r.running.Go(r.watch)
	r.running.Go(r.watchHealth)
	if r.opts.PlanEvery > 0 {
		r.running.Go(r.replicate)
	}
	if o.MappingFile != "" {
		r.running.Go(func() { r.watchMapping(text) })
	}
	return r, nil
}

func (r *Registry) openStore(dir string) error {
	o := &r.opts
	s, err := store.Open(dir, store.Options{Format: format, FS: o.FS, CacheBytes: cacheBytes, MemTableBytes: o.MemTableBytes, Logger: o.Logger})
	if err != nil {
		return err
	}
	r.store = s
	err = r.load()
	if err == nil {
		err = s.Failure() // of which Pebble did not hear
	}
	if err != nil {
		_ = s.Close() // its failure, if any, is err
	}
	return err
}

// load reads all there is, or makes a new registry.
func (r *Registry) load() error {
	if err := r.readAll(); err != nil {
		return err
	}
	if r.store.Existed() {
		if err := r.checkLoaded(); err != nil {
			return err
		}
		return r.upgrade()
	}
	if len(r.nodes) > 0 || len(r.containers) > 0 {
		return r.store.Incomplete()
	}
	r.counters = counters{next: 1}
	b := r.store.DB.NewBatch()
	if err := b.Set(countersKey(), appendCounters(nil, r.counters), nil); err != nil {
		return store.Error(err)
	}
	if err := r.store.Commit(b, func() {}); err != nil {
		return err
	}
	return r.store.Complete()
}

func (r *Registry) readAll() (err error) {
	iter, err := r.store.DB.NewIter(nil)
	if err != nil {
		return store.Error(err)
	}
	defer func() { err = errors.Join(err, store.Error(iter.Close())) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if err := r.loadEntry(iter.Key(), iter.Value()); err != nil {
			return err
		}
	}
	return store.Error(iter.Error())
}

func (r *Registry) loadEntry(key, value []byte) (err error) {
	switch {
	case len(key) == 9 && key[0] == tagContainer:
		return r.loadContainer(binary.BigEndian.Uint64(key[1:]), value)
	case len(key) == 5 && key[0] == tagBlockKey:
		return r.loadBlockKey(binary.BigEndian.Uint32(key[1:]), value)
	case len(key) == 1 && key[0] == tagCounters:
		r.counters, err = decodeCounters(value)
		return err
	case len(key) == targetKeyLen && key[0] == tagTarget:
		return r.loadTarget(key, value)
	case len(key) == 5 && key[0] == tagNode:
		return r.loadNode(muster.NodeNumber(binary.BigEndian.Uint32(key[1:])), value)
	}
	return corrupt("unknown key %.64x", key)
}

func (r *Registry) loadContainer(id uint64, value []byte) error {
	record, err := decodeContainer(value)
	if err != nil {
		return fmt.Errorf("container %d: %w", id, err)
	}
	r.add(&container{id: id, containerRecord: record, next: record.reserved})
	return nil
}

func (r *Registry) loadNode(number muster.NodeNumber, value []byte) error {
	record, err := decodeNode(value)
	if err != nil {
		return fmt.Errorf("datanode %d: %w", number, err)
	}
	if int(number) != len(r.nodes) || r.byID[record.ID] != nil {
		return corrupt("datanode %d, %s: the number before it is missing, or its id is another's too", number, record.ID)
	}
	n := &node{number: number, nodeRecord: record, want: true}
	var fits error
	if n.rack, fits = r.rackOf(&n.Registration); fits != nil {
		r.opts.Logger.Warn("a datanode's rack does not fit the topology; it is far from everything until it registers another", "datanode", n.ID, "error", fits)
	}
	r.nodes, r.byID[n.ID] = append(r.nodes, n), n
	return nil
}

// checkLoaded checks what no record shows alone.
func (r *Registry) checkLoaded() error {
	if r.counters.next == 0 || int(r.counters.nodes) != len(r.nodes) {
		return corrupt("%d datanodes, and %d were counted", len(r.nodes), r.counters.nodes)
	}
	for id, nodes := range r.targets {
		for _, n := range nodes {
			if r.containers[id] == nil || int(n) >= len(r.nodes) {
				return corrupt("datanode %d of %d is a target of container %d", n, len(r.nodes), id)
			}
		}
	}
	for id, c := range r.containers {
		if id == 0 || id >= r.counters.next {
			return corrupt("container %d, and %d is to be given next", id, r.counters.next)
		}
		for _, m := range c.members {
			if int(m) >= len(r.nodes) {
				return corrupt("container %d: member %d of %d datanodes", id, m, len(r.nodes))
			}
		}
	}
	return nil
}

package topology

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/muster-fs/muster"
)

// Map holds the current tree, and the readers that it was asked for. The zero Map holds an
// empty tree of the default schema. Nothing in it waits for anything.
type Map struct{ current atomic.Pointer[view] }

// The hosts that are remembered: a set is where a host may be, by its hash.
const (
	sets     = 2048
	ways     = 4
	MaxHosts = sets * ways // remembered at most
)

// view is a tree and what was worked out from it, which is forgotten with it. All of that
// is a function of the tree, so two that work out the same at once do no harm.
type view struct {
	tree    *Tree
	readers []atomic.Pointer[Reader] // from what is no node, by its location
	seed    maphash.Seed
	hosts   [sets][ways]atomic.Pointer[host]
}

// host is one that was resolved, if only to nothing.
type host struct {
	name   string
	reader *Reader
}

// load returns the current view.
func (m *Map) load() *view {
	if v := m.current.Load(); v != nil {
		return v
	}
	empty, _ := New(Schema{}, nil, nil) // the default schema is valid
	m.current.CompareAndSwap(nil, newView(empty))
	return m.current.Load()
}

func newView(t *Tree) *view {
	return &view{tree: t, readers: make([]atomic.Pointer[Reader], len(t.locations)), seed: maphash.MakeSeed()}
}

// Load returns the current tree; it is never nil.
func (m *Map) Load() *Tree { return m.load().tree }

// Swap makes a tree the current one.
func (m *Map) Swap(t *Tree) { m.current.Store(newView(t)) }

// ReaderFor returns the costs from a host to the nodes of the current tree. The host is, in
// this order: the id, host name or address of a node; a network location, such as /rack7;
// or known to the mapping. It is nil if it is none of these. If several nodes are on the
// host, all of them are at no distance.
func (m *Map) ReaderFor(host string) *Reader { return m.load().readerFor(host) }

func (v *view) readerFor(name string) *Reader {
	hash := maphash.String(v.seed, name)
	set := &v.hosts[hash%sets]
	for i := range set {
		if h := set[i].Load(); h != nil && h.name == name {
			return h.reader
		}
	}
	if len(name) > muster.MaxRackBytes { // nor is it that of anything
		return nil
	}
	h := &host{strings.Clone(name), v.read(v.tree.resolve(name))}
	for i := range set {
		if set[i].CompareAndSwap(nil, h) {
			return h.reader
		}
	}
	set[rand.IntN(ways)].Store(h)
	return h.reader
}

// read returns the reader of a resolved host. Those of one location share its costs.
func (v *view) read(r resolution) *Reader {
	if r.at < 0 {
		if r.self == muster.NoNode {
			return nil
		}
		return &Reader{at: v.tree.at, self: r.self, local: r.local}
	}
	shared := v.readers[r.at].Load()
	if shared == nil {
		shared = v.tree.Reader(v.tree.point(r.at))
		v.readers[r.at].Store(shared)
	}
	if r.self == muster.NoNode {
		return shared
	}
	return &Reader{at: shared.at, costs: shared.costs, self: r.self, local: r.local}
}

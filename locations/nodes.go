package locations

import (
	"strings"
	"sync/atomic"

	"github.com/muster-fs/muster"
)

// nodes is the table of datanode records by number. Readers take no lock; changes are
// under Cache.mu.
type nodes struct {
	table atomic.Pointer[[]atomic.Pointer[muster.Node]] // replaced by a longer copy
	known int                                           // under Cache.mu
	// sequences has for each number the load that described the node last: an answer that
	// comes late does not bring back an old record. Under Cache.mu.
	sequences []uint64
}

func (t *nodes) get(n muster.NodeNumber) *muster.Node {
	table := t.table.Load()
	if table == nil || int64(n) >= int64(len(*table)) {
		return nil
	}
	return (*table)[n].Load()
}

// learn takes over records that a load of the given sequence describes. A record that
// says nothing new is the one that is there; strings are copied, for those of an answer
// may be parts of a large message.
func (t *nodes) learn(records []muster.Node, sequence uint64) {
	for i := range records {
		r := &records[i]
		if r.Number >= muster.MaxNodes {
			continue // so a placement that names it is refused
		}
		t.grow(int(r.Number) + 1)
		if sequence < t.sequences[r.Number] {
			continue
		}
		t.sequences[r.Number] = sequence
		place := &(*t.table.Load())[r.Number]
		old := place.Load()
		if old != nil && *old == *r {
			continue
		}
		if old == nil {
			t.known++
		}
		fresh := *r
		fresh.ID, fresh.Host = strings.Clone(r.ID), strings.Clone(r.Host)
		fresh.Address, fresh.Rack = strings.Clone(r.Address), strings.Clone(r.Rack)
		place.Store(&fresh)
	}
}

// grow makes the table hold n records or more.
func (t *nodes) grow(n int) {
	if n <= len(t.sequences) {
		return
	}
	n = min(max(n, 2*len(t.sequences), 64), muster.MaxNodes)
	longer := make([]atomic.Pointer[muster.Node], n)
	if table := t.table.Load(); table != nil {
		for i := range *table {
			longer[i].Store((*table)[i].Load())
		}
	}
	t.sequences = append(t.sequences, make([]uint64, n-len(t.sequences))...)
	t.table.Store(&longer)
}

// Node returns the newest record of a datanode, nil if there is none. It takes no lock
// and allocates nothing.
func (c *Cache) Node(n muster.NodeNumber) *muster.Node { return c.nodes.get(n) }

// Learn takes over node records that came by another way than an answer, as with a new
// topology. They count as newer than those of all loads that have begun.
func (c *Cache) Learn(records []muster.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	c.nodes.learn(records, c.sequence)
}

package registry

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/store"
)

// Registry is what the location service knows. It is safe for concurrent use.
type Registry struct {
	opts    Options
	store   *store.Store
	boot    uint64
	started time.Time
	writer  writer

	// mu guards what follows, and what datanodes and containers have in memory. It is never
	// held over I/O or a wait, nor for more than some thousand steps. What is durable is
	// changed by the writer alone.
	mu         sync.Mutex
	counters   counters
	keys       []blockKey // of block tokens, by id
	nodes      []*node    // by number
	byID       map[string]*node
	containers map[uint64]*container
	targets    map[uint64][]muster.NodeNumber // by container: durable, see targets.go
	open       map[muster.Replication]*openContainers
	lags       map[uint64]lag // by open container
	mapping    *topology.Mapping
	warning    string // why the newest mapping file is not in use
	seq        uint32 // of the last full report that began
	settled    bool   // all datanodes that live have reported, or the time for that is over

	all            []*container // in the order in which they became known
	orders         orders
	reported       bool  // orders may be given
	counted        round // the last that is over
	unfinishedTurn int   // the number of the datanode with which the next list of unfinished blocks begins

	view    atomic.Pointer[view]
	counts  counts
	stop    chan struct{} // closed by Close
	closing sync.Once
	closed  error          // of the first Close
	running sync.WaitGroup // the registry's goroutines
}

// counts count since Open.
type counts struct{ lookups, reports, heartbeats, allocated, syncs atomic.Uint64 }

// Close stops the registry: calls that wait fail with ErrUnavailable. If the registry had
// failed, Close returns why.
func (r *Registry) Close() error {
	r.closing.Do(func() {
		close(r.stop)
		r.running.Wait()
		r.store.Flush()
		r.closed = r.store.Close()
	})
	return r.closed
}

// alive returns the error of a call that comes when the registry has failed or is closed.
func (r *Registry) alive() error {
	if err := r.store.Failure(); err != nil {
		return err
	}
	select {
	case <-r.stop:
		return fmt.Errorf("%w: the registry is closed", muster.ErrUnavailable)
	default:
		return nil
	}
}

// watch says once that the store failed.
func (r *Registry) watch() {
	select {
	case <-r.store.Failed():
	case <-r.stop:
		return
	}
	err := r.store.Failure()
	r.opts.Logger.Error("the store failed; every call is refused until the folder is opened again", "error", err)
	if r.opts.OnFatal != nil {
		r.opts.OnFatal(err)
	}
}

// Stats are a registry's counters. Those of work done count since Open.
type Stats struct {
	Nodes, Stale, Dead int    // datanodes that have ever registered, and those of them
	Containers, Open   int    // containers, and those of them that are not closed
	Version            uint64 // of the topology
	Settled            bool   // a container without replicas has none; else reports are still coming in
	Warning            string // why the newest mapping file is not in use

	Lookups    uint64 // containers looked up
	Reports    uint64 // reports taken
	Heartbeats uint64
	Allocated  uint64 // blocks
	Syncs      uint64 // waits for the disk

	// Closed containers that have too few complete replicas, too many, and none at all since those
	// who had one are dead, when all were looked at last. Those without any block do not count.
	UnderReplicated, Surplus, Missing int
	Copies, Drops                     int    // orders under way
	OrdersDone, OrdersFailed          uint64 // orders that have ended
}

// Stats returns the counters.
func (r *Registry) Stats() Stats {
	c := &r.counts
	s := Stats{
		Lookups: c.lookups.Load(), Reports: c.reports.Load(), Heartbeats: c.heartbeats.Load(),
		Allocated: c.allocated.Load(), Syncs: c.syncs.Load(), Version: r.view.Load().Version,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Nodes, s.Containers, s.Settled, s.Warning = len(r.nodes), len(r.containers), r.settled, r.warning
	for _, n := range r.nodes {
		switch n.health {
		case muster.Stale:
			s.Stale++
		case muster.Dead:
			s.Dead++
		}
	}
	s.UnderReplicated, s.Surplus, s.Missing = r.counted.missing, r.counted.surplus, r.counted.lost
	s.Copies, s.Drops = r.orders.copies, len(r.orders.byID)-r.orders.copies
	s.OrdersDone, s.OrdersFailed = r.orders.done, r.orders.failed
	for _, o := range r.open {
		s.Open += len(o.list) + len(o.full)
	}
	return s
}

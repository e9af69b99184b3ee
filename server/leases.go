package server

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fs/muster"
)

// Leases say how long a client that writes may be silent, and what the server does about files
// and blocks that nobody takes care of any more. The zero value works.
type Leases struct {
	// Lease is how long a client's lease lasts after it was renewed; then the server recovers the
	// files that the client writes. 0: 60 s. Clients are told, and renew in a third of it.
	Lease time.Duration
	// Unfinished is how often the location service is asked for blocks that nobody has committed;
	// 0: 1 min.
	Unfinished time.Duration
	// DeleteRate bounds the blocks a second that are deleted from datanodes; 0: 10,000.
	DeleteRate int
}

// The defaults of Leases, and the bounds of a lease.
const (
	defaultLease      = time.Minute
	defaultUnfinished = time.Minute
	defaultDeleteRate = 10_000

	minLease = 100 * time.Millisecond
	maxLease = 24 * time.Hour
)

func (o Leases) withDefaults() Leases {
	return Leases{cmp.Or(o.Lease, defaultLease), cmp.Or(o.Unfinished, defaultUnfinished), cmp.Or(o.DeleteRate, defaultDeleteRate)}
}

// Validate names the first option that is out of bounds.
func (o Leases) Validate() error {
	o = o.withDefaults()
	switch {
	case o.Lease < minLease || o.Lease > maxLease:
		return fmt.Errorf("%w: a lease of %v; from %v to %v", muster.ErrInvalid, o.Lease, minLease, maxLease)
	case o.Unfinished < minLease:
		return fmt.Errorf("%w: asking for unfinished blocks every %v; at least %v", muster.ErrInvalid, o.Unfinished, minLease)
	case o.DeleteRate < 1:
		return fmt.Errorf("%w: %d blocks deleted a second; at least 1", muster.ErrInvalid, o.DeleteRate)
	}
	return nil
}

// recoverer is the holder of files that the server recovers. It is the same after a restart, so
// that a recovery goes on where it was. No client may have it.
var recoverer = muster.Holder([]byte("muster recoverer"))

// leases are those of clients that write. All of a client's files share one, which lasts for a time
// after it was renewed last. Which files those are is known to the tree alone; a holder's entry
// goes when a look at the tree finds that its lease has ended and that it has no files.
type leases struct {
	lease time.Duration

	mu      sync.Mutex // guards renewed
	renewed map[muster.Holder]time.Time
}

func newLeases(lease time.Duration) *leases {
	return &leases{lease: lease, renewed: map[muster.Holder]time.Time{}}
}

// grant begins a holder's lease, or renews it.
func (l *leases) grant(h muster.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed[h] = time.Now()
}

// renew renews a lease, if the holder has one: of others, who may be anybody, nothing is kept.
func (l *leases) renew(h muster.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, has := l.renewed[h]; has {
		l.renewed[h] = time.Now()
	}
}

// renewAll renews all leases: the server itself was held up, so that nobody could.
func (l *leases) renewAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for h := range l.renewed {
		l.renewed[h] = now
	}
}

// ended says whether a holder of files has no lease any more.
func (l *leases) ended(h muster.Holder) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.renewed[h]) > l.lease // of one that is not there, too
}

// sweep forgets the leases that have ended, but for those of holders that have files.
func (l *leases) sweep(writing map[muster.Holder]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, at := range l.renewed {
		if _, has := writing[h]; !has && time.Since(at) > l.lease {
			delete(l.renewed, h)
		}
	}
}

func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.renewed)
}

package client

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fs/muster/rpc/pb"
)

// leases keeps the client's lease while it writes files. One goroutine renews it, from the
// first file that is begun to be written until the last one that ends.
//
// A lease that is not renewed for as long as it lasts has ended for the server, which may give
// the files to others then, at less than what was written since. So it has for the client, and
// not later: time is taken from when the server was asked, not from its answer. Files that are
// being written then fail for good, whether or not the server is reached again.
type leases struct {
	renew func(context.Context) (lease time.Duration, err error)
	ended func() // called without mu when the lease has ended, perhaps more than once

	mu      sync.Mutex // guards what follows
	writing int        // files
	lease   time.Duration
	since   time.Time          // when the server was asked that has answered last
	stop    context.CancelFunc // ends the goroutine; nil: there is none
	done    chan struct{}      // closed when it has ended
}

// add says that another file is written, under a lease that lasts so long since the server was
// asked for it.
func (l *leases) add(lease time.Duration, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing++
	l.lease = lease
	l.renewedAt(since)
	if l.stop != nil {
		return
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	before, done := l.done, make(chan struct{})
	l.done = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		l.keep(ctx)
	}()
}

// heard says that the server has done something that renews the lease, too.
func (l *leases) heard(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewedAt(since)
}

// renewedAt notes when the server was asked. The lock is held.
func (l *leases) renewedAt(since time.Time) {
	if since.After(l.since) {
		l.since = since
	}
}

// rest is how much of the lease is left, if that is more than nothing.
func (l *leases) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease - time.Since(l.since)
}

// remove says that a file is not written any more.
func (l *leases) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing--; l.writing == 0 {
		l.stop()
		l.stop = nil
	}
}

// wait waits for the goroutine, once all files have ended.
func (l *leases) wait() {
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done != nil {
		<-done
	}
}

// keep renews the lease in a third of its time, and in a twelfth after that has failed, so
// that a server that is away for a moment does not end it. It says when it has ended.
func (l *leases) keep(ctx context.Context) {
	for failed := false; ; {
		pause := l.length() / 3
		if failed {
			pause /= 4
		}
		if rest := l.rest(); rest > 0 {
			pause = min(pause, rest)
		} else {
			l.ended()
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		failed = !l.renewed(ctx)
	}
}

func (l *leases) length() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// renewed renews the lease once. A call takes a third of the lease's time at most, and not longer
// than the lease lasts, unless that has ended.
func (l *leases) renewed(ctx context.Context) bool {
	most := l.length() / 3
	if rest := l.rest(); rest > 0 {
		most = min(most, rest)
	}
	timed, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began := time.Now()
	lease, err := l.renew(timed)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = leaseOf(lease.Milliseconds())
	l.renewedAt(began)
	return true
}

// minLease is what a shorter lease counts as, so that nobody renews it all the time.
const minLease = time.Second

// leaseOf reads how long a lease lasts.
func leaseOf(ms int64) time.Duration {
	return max(minLease, time.Duration(min(ms, int64(24*time.Hour/time.Millisecond)))*time.Millisecond)
}

// renewLeases is the call that renews the leases of all files which the client writes,
// whoever it was that began them.
func (c *Client) renewLeases(ctx context.Context) (time.Duration, error) {
	r, err := c.service.RenewLeases(c.context(ctx), &pb.RenewLeasesRequest{Client: c.id[:]})
	return time.Duration(r.GetLeaseMs()) * time.Millisecond, err
}

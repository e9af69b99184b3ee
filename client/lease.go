package client

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fs/muster/rpc/pb"
)

// leases keeps the client's lease while it writes files. One goroutine renews it, from the
// first file that is begun to be written until the last one that ends.
type leases struct {
	renew func(context.Context) (lease time.Duration, err error)

	mu      sync.Mutex // guards what follows
	writing int        // files
	lease   time.Duration
	stop    context.CancelFunc // ends the goroutine; nil: there is none
	done    chan struct{}      // closed when it has ended
}

// add says that another file is written, under a lease that lasts so long.
func (l *leases) add(lease time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing++
	l.lease = lease
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
// that a server that is away for a moment does not end it.
func (l *leases) keep(ctx context.Context) {
	for failed := false; ; {
		pause := l.length() / 3
		if failed {
			pause /= 4
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

// renewed renews the lease once. A call takes a third of the lease's time at most.
func (l *leases) renewed(ctx context.Context) bool {
	timed, cancel := context.WithTimeout(ctx, l.length()/3)
	defer cancel()
	lease, err := l.renew(timed)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = leaseOf(lease.Milliseconds())
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

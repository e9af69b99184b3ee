package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// renewals are when a lease was renewed, after the beginning of a test.
type renewals struct {
	began time.Time

	mu    sync.Mutex // guards what follows
	at    []time.Duration
	lease time.Duration
	err   error
	hang  bool // until the call's deadline
	ends  []time.Duration
}

func (r *renewals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, time.Since(r.began))
}

func (r *renewals) renew(ctx context.Context) (time.Duration, error) {
	r.mu.Lock()
	r.at = append(r.at, time.Since(r.began))
	lease, err, hang := r.lease, r.err, r.hang
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return lease, err
}

// answer sets what the server answers from now on.
func (r *renewals) answer(lease time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease, r.err = lease, err
}

// leasesOf runs a test in a bubble, with leases of 60 s.
func leasesOf(t *testing.T, test func(l *leases, r *renewals)) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{began: time.Now(), lease: time.Minute}
		l := &leases{renew: r.renew, ended: r.end}
		test(l, r)
		l.wait()
	})
}

func (r *renewals) expect(t *testing.T, seconds ...time.Duration) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.at) != len(seconds) {
		t.Fatalf("renewed at %v, want %v s", r.at, seconds)
	}
	for i, s := range seconds {
		if r.at[i] != s*time.Second {
			t.Fatalf("renewed at %v, want %v s", r.at, seconds)
		}
	}
}

func TestLeaseIsRenewedWhileFilesAreWritten(t *testing.T) {
	leasesOf(t, func(l *leases, r *renewals) {
		time.Sleep(time.Hour)
		r.expect(t)
		r.began = time.Now()
		l.add(time.Minute, time.Now())
		time.Sleep(30 * time.Second)
		l.add(time.Minute, time.Now()) // is no other goroutine
		time.Sleep(35 * time.Second)
		r.expect(t, 20, 40, 60)
		l.remove()
		time.Sleep(20 * time.Second)
		r.expect(t, 20, 40, 60, 80)
		l.remove()
		time.Sleep(time.Hour)
		r.expect(t, 20, 40, 60, 80)
	})
}

func TestLeaseBeginsAgain(t *testing.T) {
	leasesOf(t, func(l *leases, r *renewals) {
		for range 3 {
			l.add(time.Minute, time.Now())
			time.Sleep(10 * time.Second)
			l.remove()
		}
		r.expect(t)
		l.add(time.Minute, time.Now())
		time.Sleep(25 * time.Second)
		r.expect(t, 50)
		l.remove()
	})
}

// A renewal that failed is made again soon: several times before the lease has ended.
func TestFailedRenewalIsMadeAgain(t *testing.T) {
	leasesOf(t, func(l *leases, r *renewals) {
		r.answer(0, errors.New("away"))
		l.add(time.Minute, time.Now())
		time.Sleep(33 * time.Second)
		r.expect(t, 20, 25, 30)
		r.answer(time.Minute, nil)
		time.Sleep(30 * time.Second)
		r.expect(t, 20, 25, 30, 35, 55)
		l.remove()
	})
}

// A call that hangs takes a third of the lease, so that another comes before its end.
func TestHangingRenewalEnds(t *testing.T) {
	leasesOf(t, func(l *leases, r *renewals) {
		r.hang = true
		l.add(time.Minute, time.Now())
		time.Sleep(50 * time.Second)
		r.expect(t, 20, 45)
		l.remove()
	})
}

// The server may make the lease shorter, or longer, at any time.
func TestLeaseHasTheLengthThatTheServerSays(t *testing.T) {
	leasesOf(t, func(l *leases, r *renewals) {
		l.add(time.Minute, time.Now())
		r.answer(30*time.Second, nil)
		time.Sleep(35 * time.Second)
		r.expect(t, 20, 30)
		r.answer(0, nil) // what no server says does not have it renewed all the time
		time.Sleep(7 * time.Second)
		synctest.Wait()
		r.mu.Lock()
		if n := len(r.at); n < 3 || n > 9 {
			t.Errorf("renewed at %v", r.at)
		}
		r.mu.Unlock()
		l.remove()
	})
}

// A lease ends when it was not renewed for as long as it lasts, counted from when the server was
// asked; and begins anew when the server answers again.
func TestALeaseEnds(t *testing.T) {
	for what, fail := range map[string]func(r *renewals){
		"refused": func(r *renewals) { r.answer(0, errors.New("away")) },
		"hanging": func(r *renewals) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.hang = true
		},
	} {
		t.Run(what, func(t *testing.T) {
			leasesOf(t, func(l *leases, r *renewals) {
				l.add(time.Minute, time.Now().Add(-5*time.Second)) // the answer took its time
				time.Sleep(16 * time.Second)
				l.heard(time.Now().Add(-time.Second)) // of another call
				l.heard(time.Now().Add(-time.Minute)) // late
				r.mu.Lock()
				r.hang = false
				r.mu.Unlock()
				fail(r)
				time.Sleep(59*time.Second - time.Millisecond)
				synctest.Wait()
				if len(r.ends) > 0 || l.rest() != time.Millisecond {
					t.Fatalf("ended at %v, and %v are left", r.ends, l.rest())
				}
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				if len(r.ends) != 1 || r.ends[0] != 75*time.Second {
					t.Fatalf("ended at %v", r.ends)
				}
				l.add(time.Minute, time.Now()) // another file
				time.Sleep(40 * time.Second)
				r.mu.Lock()
				r.hang, r.err = false, nil
				r.mu.Unlock()
				time.Sleep(time.Hour)
				l.remove()
				l.remove()
				if len(r.ends) != 1 {
					t.Errorf("ended at %v", r.ends)
				}
			})
		})
	}
}

package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// request makes a request by the superuser under an id of the given sequence.
func request(sequence uint64, commands ...muster.Command) namespace.Request {
	return namespace.Request{ID: muster.RequestID{Client: [16]byte{7}, Sequence: sequence}, Caller: boss, Commands: commands}
}

// once is a request that only a first application accepts.
func once(sequence uint64) namespace.Request {
	return request(sequence, muster.Create{Path: fmt.Sprintf("/f%d", sequence), Mode: 0o644})
}

// TestRepeatsInFlightWaitForTheFirst sends a request again and again while the first is
// waiting for the disk: it is applied once, and all get its result.
func TestRepeatsInFlightWaitForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStalled(t, namespace.Options{})
		defer s.close()
		s.hangLog()
		var calls []<-chan answer
		for range 4 { // one is being committed, three wait in the queue
			calls = append(calls, s.send(t.Context(), once(1)))
			synctest.Wait()
		}
		stranger := once(1)
		stranger.Caller = people[1]
		other := s.send(t.Context(), request(1, muster.Mkdir{Path: "/other"}))
		foreign := s.send(t.Context(), stranger)
		synctest.Wait()
		pending(t, calls...)
		s.release()

		first := <-calls[0]
		first.applied.Repeat = true
		for _, c := range calls[1:] {
			if a := <-c; a.err != nil || !reflect.DeepEqual(a, first) {
				t.Errorf("a repeat got %+v, the first %+v", a, first)
			}
		}
		for _, c := range []<-chan answer{other, foreign} {
			if a := <-c; !errors.Is(a.err, muster.ErrInvalid) {
				t.Errorf("another request under the same id: %+v, want INVALID_ARGUMENT", a)
			}
		}
		s.mustHold(t, "/", 1)
	})
}

// TestRepeatAfterTheFirstCallerGaveUp: the usual reason for a repeat is a caller that
// no longer waits.
func TestRepeatAfterTheFirstCallerGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStalled(t, namespace.Options{})
		defer s.close()
		s.hangLog()
		ctx, cancel := context.WithCancel(t.Context())
		first := s.send(ctx, once(1))
		synctest.Wait()
		cancel()
		if a := <-first; !errors.Is(a.err, context.Canceled) {
			t.Errorf("cancelled: %+v", a)
		}
		repeat := s.send(t.Context(), once(1))
		synctest.Wait()
		pending(t, repeat)
		s.release()
		if a := <-repeat; a.err != nil {
			t.Errorf("repeat: %+v", a)
		}
		s.mustHold(t, "/", 1)
	})
}

// TestRefusalsAreNotRemembered: a repeat of a refused request is tried anew.
func TestRefusalsAreNotRemembered(t *testing.T) {
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem()})
	defer func() { m.tree.Close() }()
	r := request(1, muster.Create{Path: "/d/f"})
	m.apply(r) // refused: there is no /d
	m.apply(request(2, muster.Mkdir{Path: "/d", Mode: 0o755}))
	m.apply(r)
	m.repeat(len(m.history) - 1)
	m.compare()
}

// TestRequestIDsBindClientUserAndCommands: what differs in one of them is no repeat.
func TestRequestIDsBindClientUserAndCommands(t *testing.T) {
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem()})
	defer func() { m.tree.Close() }()
	m.apply(request(1, muster.Create{Path: "/f", Length: 5}, muster.Mkdir{Path: "/d"}))
	for name, r := range map[string]namespace.Request{
		"another length":  request(1, muster.Create{Path: "/f", Length: 6}, muster.Mkdir{Path: "/d"}),
		"another time":    request(1, muster.Create{Path: "/f", Length: 5, MTime: new(int64(0))}, muster.Mkdir{Path: "/d"}),
		"another order":   request(1, muster.Mkdir{Path: "/d"}, muster.Create{Path: "/f", Length: 5}),
		"fewer":           request(1, muster.Create{Path: "/f", Length: 5}),
		"moved separator": request(1, muster.Create{Path: "/f", Length: 5}, muster.Mkdir{Path: "/d", Owner: "x"}),
		"another verb":    request(1, muster.Delete{Path: "/f"}),
	} {
		if _, err := m.tree.Apply(t.Context(), r); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%s: %v, want INVALID_ARGUMENT", name, err)
		}
	}
	stranger := m.history[0].request
	stranger.Caller = people[1]
	if _, err := m.tree.Apply(t.Context(), stranger); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("another user: %v, want INVALID_ARGUMENT", err)
	}
	m.compare()

	// Another client's sequence 1, and no id at all, are requests of their own.
	r := m.history[0].request
	r.ID.Client[15] = 1
	m.apply(r) // the oracle refuses it: /f exists
	for range 2 {
		m.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Create{Path: "/g", Overwrite: true}}})
	}
	m.compare()
}

// TestRepeatAfterRestart: the result is as durable as what it is the result of.
func TestRepeatAfterRestart(t *testing.T) {
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem()})
	defer func() { m.tree.Close() }()
	m.apply(request(1, muster.Create{Path: "/f"}, muster.Mkdir{Path: "/a/b/c", Parents: true}, muster.Delete{Path: "/f"}))
	for range 2 {
		m.restart()
		m.repeat(0)
		m.compare()
	}
	other := once(1)
	if _, err := m.tree.Apply(t.Context(), other); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("another command under the id: %v", err)
	}
}

// TestRequestIDsExpireByStampedTime: a result is kept for its age, restarts included, and
// the id is then free again.
func TestRequestIDsExpireByStampedTime(t *testing.T) {
	const age = time.Minute
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem(), RequestAge: age})
	defer func() { m.tree.Close() }()
	m.apply(once(1))
	m.clock.Add(age.Milliseconds() / 2)
	m.apply(once(2))
	m.clock.Add(age.Milliseconds()/2 - 1)
	m.repeat(0)
	m.restart()
	m.repeat(0)

	m.clock.Add(2)
	m.apply(once(1)) // refused: /f1 exists, and nothing is known of the first
	m.repeat(1)
	m.apply(request(1, muster.Delete{Path: "/f1"})) // the id is free
	m.repeat(2)
	m.clock.Add(10 * age.Milliseconds())
	m.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Mkdir{Path: "/d"}}})
	m.forgotten(0)
	m.fsck()
}

// TestRequestIDsAreBounded: past the bound the oldest results go.
func TestRequestIDsAreBounded(t *testing.T) {
	const most = 10
	m := newModel(t, namespace.Options{FS: vfs.NewStrictMem(), RequestMax: most})
	defer func() { m.tree.Close() }()
	for i := range uint64(5 * most) {
		m.apply(once(i))
		m.clock.Add(1)
	}
	m.forgotten(most)
	for restarts := range 2 {
		for i := 4 * most; i < 5*most; i++ {
			m.repeat(i)
		}
		m.apply(once(0)) // refused: it is no longer known as a repeat
		if restarts == 0 {
			m.restart()
		}
	}
	m.compare()
	m.fsck()
}

// forgotten waits until the tree remembers at most so many results.
func (m *model) forgotten(most uint64) {
	m.t.Helper()
	await(m.t, "the expiry of results", func() bool { return m.tree.Stats().Requests <= most })
}

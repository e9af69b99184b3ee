package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
)

// gateFS is a file system whose tables and write-ahead log can be made to hang or to
// fail. It counts the log's syncs.
type gateFS struct {
	vfs.FS
	logSyncs atomic.Int64

	mu        sync.Mutex
	onLogSync func() error // nil: pass; may block. Guarded by mu, called without it
	onTable   func()       // before a table is made; likewise
}

func (fs *gateFS) setLogSync(f func() error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.onLogSync = f
}

func (fs *gateFS) setTable(f func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.onTable = f
}

func (fs *gateFS) hooks() (logSync func() error, table func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.onLogSync, fs.onTable
}

func (fs *gateFS) Create(name string) (vfs.File, error) {
	if _, table := fs.hooks(); table != nil && path.Ext(name) == ".sst" {
		table()
	}
	f, err := fs.FS.Create(name)
	return fs.wrap(name, f), err
}

func (fs *gateFS) ReuseForWrite(from, to string) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, to)
	return fs.wrap(to, f), err
}

func (fs *gateFS) wrap(name string, f vfs.File) vfs.File {
	if f == nil || path.Ext(name) != ".log" {
		return f
	}
	return gateFile{f, fs}
}

// gateFile is a segment of the log.
type gateFile struct {
	vfs.File
	fs *gateFS
}

func (f gateFile) Sync() error     { return f.sync(f.File.Sync) }
func (f gateFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f gateFile) sync(sync func() error) error {
	f.fs.logSyncs.Add(1)
	if hook, _ := f.fs.hooks(); hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	return sync()
}

// answer is what a call gave.
type answer struct {
	applied muster.Applied
	err     error
}

// stalled is a model on a gateFS, in a bubble: synctest.Wait returns when all that can
// go on has gone on, so that what is still not done is stuck.
type stalled struct {
	*model
	gate    *gateFS
	passing chan error // what hangs takes one each; closed: nothing hangs
	opened  sync.Once
}

func newStalled(t *testing.T, o namespace.Options) *stalled {
	gate := &gateFS{FS: vfs.NewStrictMem()}
	o.FS = gate
	return &stalled{model: newModel(t, o), gate: gate, passing: make(chan error)}
}

// hangLog makes syncs of the log hang until they are passed, each with its result.
func (s *stalled) hangLog() { s.gate.setLogSync(func() error { return <-s.passing }) }

// hangTables makes the creation of tables hang.
func (s *stalled) hangTables() { s.gate.setTable(func() { <-s.passing }) }

// pass lets one operation go on that hangs, and waits for all that follows from it.
func (s *stalled) pass(err error) {
	s.passing <- err
	synctest.Wait()
}

// release lets all go on, for good.
func (s *stalled) release() { s.opened.Do(func() { close(s.passing) }) }

// close lets go on what still hangs, so that a test that failed does not hang itself.
func (s *stalled) close() {
	s.release()
	s.tree.Close()
}

// send applies a request in a goroutine of its own.
func (s *stalled) send(ctx context.Context, r namespace.Request) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		applied, err := s.tree.Apply(ctx, r)
		done <- answer{applied, err}
	}()
	return done
}

// start sends a request of the superuser.
func (s *stalled) start(commands ...muster.Command) <-chan answer {
	return s.send(context.Background(), namespace.Request{Caller: boss, Commands: commands})
}

func pending(t *testing.T, calls ...<-chan answer) {
	t.Helper()
	for i, c := range calls {
		select {
		case a := <-c:
			t.Fatalf("call %d was answered while nothing could become durable: %+v", i, a)
		default:
		}
	}
}

// TestStuckLogStopsWritersNotReaders hangs a sync of the log: commands wait, refusals that rest
// on what is not durable wait too, readers go on and see durable state only, and all
// that came meanwhile is committed by one further sync.
func TestStuckLogStopsWritersNotReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStalled(t, namespace.Options{})
		defer s.close()
		s.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Mkdir{Path: "/d", Mode: 0o755}}})
		before := s.oracle.clone()

		s.hangLog()
		first := s.start(muster.Create{Path: "/d/first"})
		synctest.Wait()
		syncs := s.gate.logSyncs.Load()
		var calls []<-chan answer
		for i := range 16 {
			calls = append(calls, s.start(muster.Create{Path: fmt.Sprintf("/d/f%02d", i)}))
			synctest.Wait() // they queue in this order
		}
		refused := s.start(muster.Mkdir{Path: "/d/f00"})
		synctest.Wait()
		pending(t, append(calls, first, refused)...)

		if err := s.difference(before); err != nil {
			t.Fatalf("a reader while the log hangs: %v", err)
		}
		s.read(people[1], "/d")
		if got := s.tree.Stats().Txid; got != before.txid {
			t.Fatalf("status names txid %d, durable is %d", got, before.txid)
		}

		s.pass(nil)
		if a := <-first; a.err != nil {
			t.Fatal(a.err)
		}
		s.mustHold(t, "/d", 1)
		pending(t, append(calls, refused)...) // the refusal rests on a creation of the same group
		s.pass(nil)
		for i, c := range calls {
			if a := <-c; a.err != nil || a.applied.Txid != before.txid+2+uint64(i) {
				t.Errorf("creator %d: %+v", i, a)
			}
		}
		if a := <-refused; !errors.Is(a.err, muster.ErrExists) {
			t.Errorf("mkdir over a file: %+v", a)
		}
		if got := s.gate.logSyncs.Load() - syncs; got != 1 {
			t.Errorf("%d further syncs for 16 creators and a refusal, want 1", got)
		}
		s.mustHold(t, "/d", 17)
		s.mustBeClean(t)
	})
}

// TestStuckFlushStopsWritersNotReaders fills the store's memory while its tables cannot be
// written, until Pebble stalls the committer.
func TestStuckFlushStopsWritersNotReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStalled(t, namespace.Options{})
		defer s.close()
		s.apply(namespace.Request{Caller: boss, Commands: []muster.Command{muster.Mkdir{Path: "/d", Mode: 0o755}}})

		s.hangTables()
		long := strings.Repeat("t", muster.MaxPathBytes)
		done, last := 0, (<-chan answer)(nil)
		for last == nil {
			if done > 10_000 {
				t.Fatal("no stall")
			}
			var commands []muster.Command
			for i := range 50 {
				commands = append(commands, muster.Symlink{Path: fmt.Sprintf("/d/%d-%d", done, i), Target: long})
			}
			call := s.start(commands...)
			synctest.Wait()
			select {
			case a := <-call:
				if a.err != nil {
					t.Fatal(a.err)
				}
				done++
			default:
				last = call
			}
		}
		s.mustHold(t, "/d", done*50)
		s.read(people[1], "/")
		if s.tree.Stats().StoreBytes < uint64(done*50*len(long)) {
			t.Error("status does not count what was acknowledged")
		}
		more := s.start(muster.Mkdir{Path: "/e"})
		synctest.Wait()
		pending(t, last, more)

		s.release()
		if a := <-last; a.err != nil {
			t.Error(a.err)
		}
		if a := <-more; a.err != nil {
			t.Error(a.err)
		}
		s.mustHold(t, "/d", done*50+50)
		s.mustBeClean(t)
	})
}

// TestFailedLogSyncIsTerminal fails a sync: what is durable is then unknown, so nothing is
// acknowledged, the owner is told once, and every further call is refused.
func TestFailedLogSyncIsTerminal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fatal atomic.Int64
		s := newStalled(t, namespace.Options{OnFatal: func(error) { fatal.Add(1) }})
		tree := s.tree
		held, err := tree.View()
		if err != nil {
			t.Fatal(err)
		}

		s.hangLog()
		calls := []<-chan answer{s.start(muster.Create{Path: "/first"})}
		synctest.Wait()
		for i := range 4 {
			calls = append(calls, s.start(muster.Create{Path: fmt.Sprintf("/f%d", i)}))
		}
		calls = append(calls, s.start(muster.Mkdir{Path: "/first"}))
		synctest.Wait()
		pending(t, calls...)
		s.pass(errors.New("no power"))
		for i, c := range calls {
			if a := <-c; !errors.Is(a.err, muster.ErrUnavailable) {
				t.Errorf("call %d: %+v, want UNAVAILABLE", i, a)
			}
		}
		synctest.Wait() // the views go a moment after the answers
		if n := fatal.Load(); n != 1 {
			t.Errorf("OnFatal was called %d times", n)
		}

		s.gate.setLogSync(nil) // the disk is well again: the tree is not
		if _, err := tree.Apply(t.Context(), namespace.Request{Caller: boss, Commands: []muster.Command{muster.Mkdir{Path: "/x"}}}); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("apply: %v", err)
		}
		if _, err := tree.View(); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("view: %v", err)
		}
		if _, err := tree.Fsck(t.Context(), func(namespace.Problem) error { return nil }); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("fsck: %v", err)
		}
		held.Release()
		tree.Close() // it may say what happened
		if n := fatal.Load(); n != 1 {
			t.Errorf("OnFatal was called %d times", n)
		}
	})
}

// TestCallerWhoGivesUpLeavesTheQueueInOrder cancels a call that waits in the queue: it is
// answered at once, and whatever became of it, the tree and its answers stay consistent.
func TestCallerWhoGivesUpLeavesTheQueueInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStalled(t, namespace.Options{})
		defer s.close()
		s.hangLog()
		first := s.start(muster.Create{Path: "/first"})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := s.send(ctx, namespace.Request{Caller: boss, Commands: []muster.Command{muster.Create{Path: "/second"}}})
		third := s.start(muster.Create{Path: "/third"})
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case a := <-gaveUp:
			if !errors.Is(a.err, context.Canceled) {
				t.Errorf("cancelled call: %+v", a)
			}
		default:
			t.Error("a cancelled call waits for the disk")
		}
		s.release()
		for _, c := range []<-chan answer{first, third} {
			if a := <-c; a.err != nil {
				t.Error(a.err)
			}
		}
		s.mustBeClean(t)
	})
}

// mustHold counts the entries of a directory.
func (s *stalled) mustHold(t *testing.T, dir string, want int) {
	t.Helper()
	view, err := s.tree.View()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Release()
	got, err := scanNames(view, dir)
	if err != nil || len(got) != want {
		t.Fatalf("%s has %d entries, %v, want %d", dir, len(got), err, want)
	}
}

// mustBeClean runs the checker.
func (s *stalled) mustBeClean(t *testing.T) {
	t.Helper()
	if _, err := s.tree.Fsck(t.Context(), func(p namespace.Problem) error { return fmt.Errorf("%+v", p) }); err != nil {
		t.Fatal(err)
	}
}

// scanNames lists a directory as the superuser.
func scanNames(view *namespace.View, dir string) ([]string, error) {
	r := view.NewReader(&boss)
	defer r.Close()
	return scanWith(r, dir)
}

func scanWith(r *namespace.Reader, dir string) ([]string, error) {
	res, err := r.Resolve(dir, true)
	if err != nil {
		return nil, err
	}
	if err := r.Scan(&res, "", false); err != nil {
		return nil, err
	}
	var names []string
	for row := (muster.Row{}); r.Next(&row); {
		names = append(names, string(row.Name))
	}
	return names, r.Err()
}

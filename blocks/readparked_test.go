package blocks

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fs/muster"
)

// patience is how long something may take that must not wait.
const patience = 20 * time.Second

// within fails the test if do does not return; only a lock that was put back makes it so.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s waits", what)
	}
}

// park begins a sequential read of the file's first bytes that gets no answer, and returns
// when the datanode has been asked, with a function that lets it go on and waits for it.
func (l *library) park(f *File) (goOn func() (int, error)) {
	reached, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	for _, s := range l.shelves {
		s.does(func(a asked) trouble {
			if a.from == 0 && a.block.LocalID == 1 && !(a.stream && a.message == 0) {
				once.Do(func() { close(reached) })
				return held
			}
			return well
		})
		s.hold = leave
	}
	result := make(chan error, 1)
	p, n := make([]byte, 100_000), 0
	go func() {
		var err error
		n, err = f.Read(p)
		result <- err
	}()
	<-reached
	return func() (int, error) {
		close(leave)
		err := <-result
		if n > 0 && !bytes.Equal(p[:n], l.data[:n]) {
			l.t.Error("the parked read has wrong bytes")
		}
		return n, err
	}
}

// TestPositionedReadBesideAParkedOne of the same block, in each combination of block readers.
func TestPositionedReadBesideAParkedOne(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 2, DatanodesOptions{}, 1<<20, 1000)
		f := l.open(ReadOptions{Mode: m})
		goOn := l.park(f)
		within(t, "a positioned read", func() {
			for i := range int64(50) {
				l.checkAt(f, 70_000+i*1001, 65536)
			}
			l.checkAt(f, 1<<20-5, 500)
		})
		if n, err := goOn(); n != 100_000 || err != nil {
			t.Errorf("the parked read: %d, %v", n, err)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != 100_000 || err != nil {
			t.Errorf("the cursor is at %d, %v", at, err)
		}
	})
}

// TestPositionedReadWhileTheTurnIsTaken: the test holds all that a sequential reader can hold.
// TestNoFileOfReadersCanLock says that there is nothing else.
func TestPositionedReadWhileTheTurnIsTaken(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 2, DatanodesOptions{}, 1<<20)
		f := l.open(ReadOptions{Mode: m, Pause: 1})
		f.cursor.turn <- struct{}{}
		l.shelves[0].does(always(noBox)) // not even failures need it
		within(t, "a positioned read", func() { l.checkAt(f, 12345, 300_000) })
		for _, s := range l.shelves {
			s.does(always(noBox))
		}
		within(t, "a positioned read that fails", func() {
			_, err := f.ReadAt(make([]byte, 10), 0)
			wantCode(t, err, muster.ErrNotFound)
		})
		within(t, "Refresh", func() {
			if err := f.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
		within(t, "Close", func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		<-f.cursor.turn
	})
}

// TestNoFileOfReadersCanLock: what is not of the writer, nor of checksums, which read nothing, imports nothing that has locks, and
// the only channel that lets one at a time pass is the turn of sequential readers.
func TestNoFileOfReadersCanLock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked, turns := 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "write") || file == "checksum.go" {
			continue
		}
		checked++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range parsed.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if path == "sync" || path == "unsafe" || strings.HasPrefix(path, "golang.org/x/") {
				t.Errorf("%s imports %s", file, path)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "turn" {
				turns++
				if file != "cursor.go" && file != "file.go" {
					t.Errorf("%s uses the turn", file)
				}
			}
			return true
		})
	}
	if checked < 10 || turns < 4 {
		t.Errorf("only %d files were checked, with %d uses of the turn", checked, turns)
	}
}

// TestManyReadersOfOneFile: positioned reads of 8 goroutines beside one that seeks and reads,
// and fail-overs.
func TestManyReadersOfOneFile(t *testing.T) {
	reads := 1000
	if testing.Short() {
		reads = 50
	}
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		t.Run(m.String(), func(t *testing.T) {
			l := newLibrary(t, 3, DatanodesOptions{}, 300_000, 1, 200_000, 70_000)
			f := l.open(ReadOptions{Mode: m, Pause: 1})
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(1, uint64(g)))
					p := make([]byte, 5000)
					for range reads {
						at, n := r.IntN(len(l.data)), r.IntN(len(p))
						want := l.data[at:min(at+n, len(l.data))]
						k, err := f.ReadAt(p[:n], int64(at))
						if k != len(want) || !bytes.Equal(p[:k], want) || err != nil && (k == n || err != io.EOF) {
							t.Errorf("%d bytes at %d: %d, %v", n, at, k, err)
							return
						}
					}
				})
			}
			r := rand.New(rand.NewPCG(2, 2))
			p := make([]byte, 50_000)
			for range 50 {
				at, n := r.IntN(len(l.data)), r.IntN(len(p))
				f.mustSeek(t, int64(at))
				want := l.data[at:min(at+n, len(l.data))]
				k, err := io.ReadFull(f, p[:n])
				if k != len(want) || !bytes.Equal(p[:k], want) {
					t.Fatalf("%d bytes at %d: %d, %v", n, at, k, err)
				}
				if now, err := f.Seek(0, io.SeekCurrent); now != int64(at+k) || err != nil {
					t.Fatalf("the cursor is at %d, %v, not at %d", now, err, at+k)
				}
			}
			f.mustSeek(t, 22)
			wg.Wait()
			if at, err := f.Seek(0, io.SeekCurrent); at != 22 || err != nil {
				t.Errorf("the cursor is at %d, %v", at, err)
			}
		})
	}
}

// TestNoReaderWaitsForALock looks for contention in a mutex profile of positioned reads beside
// a sequential one. The locks of the pool of connections, of contexts and of the runtime are
// held for a moment by whoever uses them; a lock of the test's own shows that the profile
// would tell.
func TestNoReaderWaitsForALock(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
		l := newLibrary(t, 3, DatanodesOptions{}, 2<<20)
		f := l.open(ReadOptions{Mode: m})
		var wg sync.WaitGroup
		var control sync.Mutex
		for range 8 {
			wg.Go(func() {
				p := make([]byte, 65536)
				for i := range 50 {
					if _, err := f.ReadAt(p, int64(i)*5000); err != nil {
						t.Error(err)
					}
					control.Lock()
					runtime.Gosched()
					control.Unlock()
				}
			})
		}
		for range 5 {
			f.mustSeek(t, 0)
			if _, err := io.Copy(io.Discard, f); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
		ours, controls := contended(t)
		for _, stack := range ours {
			t.Errorf("contention:\n%s", stack)
		}
		if controls == 0 {
			t.Error("not even the lock of this test was found")
		}
	})
}

// contended returns the stacks of the profile that readers are in, if who held the lock was not
// below them, and the number of those in which a test did.
func contended(t *testing.T) (ours []string, tests int) {
	records := make([]runtime.BlockProfileRecord, 10_000)
	n, ok := runtime.MutexProfile(records)
	if !ok {
		t.Fatalf("%d records", n)
	}
	for _, r := range records[:n] {
		stack, holder := "", ""
		inTest, readers := false, false
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			stack += f.Function + "\n"
			test := strings.HasSuffix(f.File, "_test.go")
			if holder == "" && !strings.HasPrefix(f.Function, "sync.") && !strings.HasPrefix(f.Function, "internal/sync.") {
				holder, inTest = f.Function, test
			}
			readers = readers || !test && strings.Contains(f.Function, "muster/blocks.")
		}
		switch {
		case inTest:
			tests++
		case readers && !isBelow(holder):
			ours = append(ours, stack)
		}
	}
	return ours, tests
}

// isBelow says whether a function is one of those that make calls: their locks are held for a
// moment, by whoever makes one.
func isBelow(function string) bool {
	for _, prefix := range []string{"runtime.", "context.", "storj.io/drpc/", "github.com/muster-fs/muster/rpc."} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// TestAfterCloseNobodyIsAsked: all fails, and no datanode hears of it.
func TestAfterCloseNobodyIsAsked(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		l := newLibrary(t, 2, DatanodesOptions{}, 1<<20)
		f := l.open(ReadOptions{Mode: m})
		p := make([]byte, 1000)
		if _, err := f.Read(p); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, s := range l.shelves {
			s.took()
		}
		for what, err := range map[string]error{
			"ReadAt":         second(f.ReadAt(p, 0)),
			"ReadAt nothing": second(f.ReadAt(nil, 0)),
			"ReadAt the end": second(f.ReadAt(p, 1<<20)),
			"Read":           second(f.Read(p)),
			"WriteTo":        second(f.WriteTo(io.Discard)),
			"Seek":           second(f.Seek(0, io.SeekStart)),
			"Refresh":        f.Refresh(t.Context()),
			"Close":          f.Close(),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, s := range l.shelves {
			if calls := s.took(); len(calls) > 0 {
				t.Errorf("calls %v", calls)
			}
		}
		if len(l.askedFor()) > 0 {
			t.Error("locations were asked for")
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestCloseEndsReads that get no answer: positioned, sequential, one that waits for its turn,
// and one that waits for locations.
func TestCloseEndsReads(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		t.Run(m.String(), func(t *testing.T) {
			l := newLibrary(t, 2, DatanodesOptions{}, 4<<20, 1000)
			for _, s := range l.shelves {
				s.does(func(a asked) trouble {
					if a.block.LocalID == 2 {
						return noBox
					}
					return stuck
				})
			}
			asking := make(chan struct{})
			refresh := func(ctx context.Context, _ []Stale) (Layout, error) {
				close(asking)
				<-ctx.Done()
				return Layout{}, ctx.Err()
			}
			f := l.openAs(l.layout, refresh, quick)
			f.options.Mode = m
			results := make(chan error, 5)
			p := func() []byte { return make([]byte, 100) }
			go func() { results <- second(f.ReadAt(p(), 4<<20)) }()
			<-asking
			go func() { results <- second(f.ReadAt(p(), 100)) }()
			go func() { results <- second(f.Read(p())) }()
			go func() { results <- second(f.WriteTo(io.Discard)) }()
			go func() { results <- f.Refresh(t.Context()) }()
			for len(l.shelves[0].seen()) < 3 {
				runtime.Gosched()
			}
			within(t, "Close", func() { _ = f.Close() })
			within(t, "a read of a closed file", func() {
				for range cap(results) {
					if err := <-results; !errors.Is(err, fs.ErrClosed) {
						t.Errorf("got %v", err)
					}
				}
			})
		})
	}
}

// TestCloseDoesNotWaitForAWriter that takes no more of WriteTo's data.
func TestCloseDoesNotWaitForAWriter(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		l := newLibrary(t, 2, DatanodesOptions{}, 4<<20)
		f := l.open(ReadOptions{Mode: m})
		r, w := io.Pipe()
		result := make(chan error, 1)
		go func() { result <- second(f.WriteTo(w)) }()
		if _, err := io.ReadFull(r, make([]byte, 300_000)); err != nil {
			t.Fatal(err)
		}
		within(t, "Close", func() { _ = f.Close() })
		_ = r.Close()
		if err := <-result; err != io.ErrClosedPipe && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("WriteTo: %v", err)
		}
		if left := l.memory.Load(); left != l.options.Memory {
			t.Errorf("%d bytes of memory are left of %d", left, l.options.Memory)
		}
		for _, s := range l.shelves {
			if p := l.of(&s.node); len(p.streams) > 0 {
				t.Error("a stream is held")
			}
		}
	}
}

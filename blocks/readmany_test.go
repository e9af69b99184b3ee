package blocks

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
)

// TestThousandOpenFiles: with 64 readers they use a bounded number of connections and bounded
// memory; once nobody reads, and without Close, they hold neither.
func TestThousandOpenFiles(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		t.Run(m.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const connections, memory = 6, 2 << 20
				l := newPipedLibrary(t, 3, DatanodesOptions{Connections: connections, Memory: memory}, 300_000, 5<<20)
				files := make([]*File, 1000)
				if testing.Short() {
					files = files[:100]
				}
				for i := range files {
					files[i] = l.open(ReadOptions{Mode: m, ReadAhead: 512 << 10})
				}
				var wg sync.WaitGroup
				work := make(chan int)
				for range 64 {
					wg.Go(func() {
						for i := range work {
							p := make([]byte, 20_000)
							if i%50 == 0 { // some read on
								p = make([]byte, 3<<20)
							}
							if _, err := io.ReadFull(files[i], p); err != nil || !bytes.Equal(p, l.data[:len(p)]) {
								t.Error(err)
							}
							l.checkAtOther(files[i], 299_990, 1000)
							if taken := memory - l.memory.Load(); taken > memory {
								t.Errorf("%d bytes are read ahead", taken)
							}
						}
					})
				}
				for i := range files {
					work <- i
				}
				close(work)
				wg.Wait()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for i, f := range files {
					if f.holding() {
						t.Fatalf("file %d holds something", i)
					}
				}
				if l.memory.Load() != memory {
					t.Errorf("%d bytes are still taken", memory-l.memory.Load())
				}
				for _, s := range l.shelves {
					if most := s.most.Load(); most > connections {
						t.Errorf("%d connections", most)
					}
					if n := len(l.of(&s.node).streams); n > 0 {
						t.Errorf("%d streams", n)
					}
				}
			})
		})
	}
}

// TestAbandonedFilesLeaveNothing: files that nobody closes are collected, their goroutines and
// timers end.
func TestAbandonedFilesLeaveNothing(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 5<<20)
	const files = 50
	before := runtime.NumGoroutine()
	collected := make(chan struct{}, files)
	func() {
		for i := range files {
			f, err := NewFile(t.Context(), l.Datanodes, l.layout, l.ask, ReadOptions{Mode: Mode(i % 3), Idle: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 100_000)
			_, _ = io.ReadFull(f, p)
			_, _ = f.ReadAt(p, 1<<20)
			runtime.AddCleanup(f, func(struct{}) { collected <- struct{}{} }, struct{}{})
		}
	}()
	within(t, "the collector", func() {
		for len(collected) < files {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	})
	within(t, "a goroutine", func() {
		for runtime.NumGoroutine() > before+3*l.options.Connections {
			time.Sleep(time.Millisecond)
		}
	})
	if l.memory.Load() != l.options.Memory {
		t.Error("memory is still taken")
	}
}

// TestMemoryOfOpenFile says what an open file takes that was not read yet, and one that was.
func TestMemoryOfOpenFile(t *testing.T) {
	l := newLibrary(t, 3, DatanodesOptions{}, 4<<20)
	const files = 300
	opened := make([]*File, files)
	base := heap()
	for i := range opened {
		opened[i] = l.open(ReadOptions{Idle: time.Millisecond})
	}
	fresh := (heap() - base) / files
	p := make([]byte, 10_000)
	for _, f := range opened {
		if _, err := f.ReadAt(p, 1<<20); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(f, p); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range opened {
		within(t, "idle", func() {
			for f.holding() {
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	used := (heap() - base) / files
	t.Logf("an open file of one block takes %d bytes, %d once it was read", fresh, used)
	if fresh > 4<<10 || used > 100<<10 {
		t.Errorf("an open file takes %d bytes, and %d once it was read", fresh, used)
	}
	runtime.KeepAlive(opened)
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// TestDatanodesAreClosed: reads fail then, and nothing hangs.
func TestDatanodesAreClosed(t *testing.T) {
	l := newLibrary(t, 2, DatanodesOptions{}, 1<<20)
	f := l.open(quick)
	l.checkAt(f, 0, 1000)
	for _, s := range l.shelves { // closing takes one after the other: none of them answers meanwhile
		s.does(always(stuck))
	}
	result := make(chan error, 1)
	go func() { result <- second(f.ReadAt(make([]byte, 10), 0)) }()
	for len(l.shelves[0].seen()) < 2 {
		runtime.Gosched()
	}
	if err := l.Datanodes.Close(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-result, muster.ErrUnavailable)
	_, err := f.Read(make([]byte, 10))
	wantCode(t, err, muster.ErrUnavailable)
	if err := l.Datanodes.Close(); err != nil {
		t.Error(err)
	}
}

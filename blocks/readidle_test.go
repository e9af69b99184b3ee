package blocks

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
)

// TestHungDatanode costs the timeout, once; then the next replica is asked, and the one that
// hung after all others.
func TestHungDatanode(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		for _, sequential := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				l := newPipedLibrary(t, 3, DatanodesOptions{}, 1<<20, 1<<20)
				l.shelves[0].does(always(stuck))
				f := l.open(ReadOptions{Mode: m, ReadAhead: -1})
				began := time.Now()
				if sequential {
					got, err := io.ReadAll(f)
					if err != nil || !bytes.Equal(got, l.data) {
						t.Fatalf("%d bytes, %v", len(got), err)
					}
				} else {
					l.checkAt(f, 0, 2<<20)
				}
				if took := time.Since(began); took != 30*time.Second {
					t.Errorf("it took %v", took)
				}
				if asks := l.askedFor(); len(asks) > 0 {
					t.Errorf("asked for %v", asks)
				}
			})
		}
	})
}

// TestStreamThatHangs in its middle is replaced by one of another replica.
func TestStreamThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 2, DatanodesOptions{}, 1<<20)
		l.shelves[0].does(func(a asked) trouble {
			if a.from > 500_000 {
				return stuck
			}
			return well
		})
		f := l.open(ReadOptions{Mode: ByStream, Timeout: time.Second})
		began := time.Now()
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, l.data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestPauses are made before a replica is asked again, and grow.
func TestPauses(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		synctest.Test(t, func(t *testing.T) {
			l := newPipedLibrary(t, 3, DatanodesOptions{}, 1000)
			for _, s := range l.shelves {
				s.does(always(flipped))
			}
			f := l.open(ReadOptions{Mode: m, Pause: time.Second})
			began := time.Now()
			_, err := f.ReadAt(make([]byte, 10), 0)
			wantCode(t, err, muster.ErrCorrupt)
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	})
}

// TestIdleReaderHoldsNothing: no stream, no connection in use and no memory. It goes on where
// it was.
func TestIdleReaderHoldsNothing(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipedLibrary(t, 1, DatanodesOptions{}, 8<<20)
			f := l.open(ReadOptions{Mode: m})
			at := 0
			read := func(n int) {
				t.Helper()
				p := make([]byte, n)
				if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, l.data[at:][:n]) {
					t.Fatalf("%v: at %d: %v", m, at, err)
				}
				at += n
			}
			read(1 << 20)
			read(3<<20 + 50_000)
			pools := l.of(&l.shelves[0].node)
			if m != ByChunk && len(pools.streams) != 1 {
				t.Errorf("%v: %d streams", m, len(pools.streams))
			}
			time.Sleep(900 * time.Millisecond)
			read(10_000) // is not idle
			time.Sleep(900 * time.Millisecond)
			if !f.holding() {
				t.Errorf("%v: it holds nothing after less than a second", m)
			}
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if f.holding() || len(pools.streams) != 0 || l.memory.Load() != l.options.Memory {
				t.Errorf("%v: after a second it holds %d streams and %d bytes", m, len(pools.streams), l.options.Memory-l.memory.Load())
			}
			l.shelves[0].took()
			read(3 << 20)
			first := int64(len(l.data))
			for _, a := range l.shelves[0].took() {
				first = min(first, a.from)
			}
			if first != int64(at-3<<20)/muster.ChecksumBytes*muster.ChecksumBytes {
				t.Errorf("%v: it went on at %d, not at %d", m, first, at-3<<20)
			}
			if m != ByChunk && len(pools.streams) != 1 {
				t.Errorf("%v: %d streams once it is read again", m, len(pools.streams))
			}
		})
	}
}

// holding says whether a sequential reader left something.
func (f *File) holding() bool {
	if err := f.enter(); err != nil {
		return false
	}
	defer f.leave()
	return f.cursor.holds()
}

// TestWriterThatTakesLong: the stream that WriteTo reads does not wait for it.
func TestWriterThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 1, DatanodesOptions{}, 1<<20)
		f := l.open(ReadOptions{Mode: ByStream, Attempts: 1}) // going on is no failure
		var got []byte
		n, err := f.WriteTo(writeFunc(func(p []byte) (int, error) {
			got = append(got, p...)
			if len(got) == 5*streamMessage {
				if streams := len(l.of(&l.shelves[0].node).streams); streams != 1 {
					t.Errorf("%d streams", streams)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if streams := len(l.of(&l.shelves[0].node).streams); streams != 0 {
					t.Errorf("%d streams while nobody reads", streams)
				}
			}
			return len(p), nil
		}))
		if n != int64(len(l.data)) || err != nil || !bytes.Equal(got, l.data) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestStreamEndsWithItsBlock, so that its connection is free again.
func TestStreamEndsWithItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 1, DatanodesOptions{Connections: 2}, 1<<20, 1<<20)
		f := l.open(ReadOptions{Mode: ByStream})
		p := make([]byte, 1<<20)
		for i := range 2 {
			if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, l.data[i<<20:][:1<<20]) {
				t.Fatal(err)
			}
			if streams := len(l.of(&l.shelves[0].node).streams); streams != 0 {
				t.Errorf("%d streams after block %d", streams, i)
			}
		}
		if calls := l.shelves[0].took(); len(calls) != 2 {
			t.Errorf("%d calls", len(calls))
		}
		if most := l.shelves[0].most.Load(); most > 1 {
			t.Errorf("%d connections", most)
		}
	})
}

// TestParkedStreamsLeaveRoom: with 4 connections 8 parked stream readers hold 2, none after a
// second, and positioned reads go on all the time. So do sequential ones that get no stream.
func TestParkedStreamsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 1, DatanodesOptions{Connections: 4}, 4<<20)
		var files []*File
		p := make([]byte, 100_000)
		opened := time.Now()
		for range 8 {
			f := l.open(ReadOptions{Mode: ByStream})
			files = append(files, f)
			if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, l.data[:len(p)]) {
				t.Fatal(err)
			}
		}
		pools := l.of(&l.shelves[0].node)
		if took := time.Since(opened); len(pools.streams) != 2 || took > 0 {
			t.Errorf("%d streams after %v", len(pools.streams), took)
		}
		positioned := func() {
			began := time.Now()
			for _, m := range []Mode{ByChunk, ByStream} {
				f := l.open(ReadOptions{Mode: m})
				for i := range int64(20) {
					l.checkAt(f, i*100_000, 65536)
				}
			}
			for i := range int64(20) {
				l.checkAt(files[i%8], i*100_000, 65536)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("positioned reads waited for %v", took)
			}
		}
		positioned()
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if len(pools.streams) != 0 {
			t.Errorf("%d streams after a second", len(pools.streams))
		}
		positioned()
		for _, f := range files {
			got, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(got, l.data[len(p):]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		if most := l.shelves[0].most.Load(); most > 4 {
			t.Errorf("%d connections", most)
		}
	})
}

// TestReadAheadThatFailedIsForgotten: nobody had asked for it, so who comes later tries again.
func TestReadAheadThatFailedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipedLibrary(t, 2, DatanodesOptions{}, 2<<20)
		for _, s := range l.shelves {
			s.does(func(a asked) trouble {
				if a.from+a.length > 240_000 {
					return flipped
				}
				return well
			})
		}
		f := l.open(ReadOptions{Mode: ByChunk, Pause: 1})
		p := make([]byte, 100_000)
		for range 2 {
			if _, err := io.ReadFull(f, p); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		if reads := f.cursor.ahead.reads; len(reads) == 0 || !reads[len(reads)-1].hasFailed() {
			t.Fatal("nothing that was read ahead has failed")
		}
		for _, s := range l.shelves {
			s.does(always(well))
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, l.data[200_000:]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

package blocks

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
)

var readSeed = flag.Uint64("readseed", 0, "the only seed of TestReaderModel; 0: several")

// TestReaderModel compares a file whose datanodes have all troubles with a slice of bytes. As
// long as one datanode is well no read fails; one that fails has moved nothing.
func TestReaderModel(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 3
	}
	for i := range seeds {
		seed := uint64(i) + rand.Uint64()<<16
		if *readSeed != 0 {
			seed = *readSeed
		}
		synctest.Test(t, func(t *testing.T) { newReaderModel(t, seed).run() })
		if t.Failed() {
			t.Fatalf("use -readseed %d", seed)
		}
		if *readSeed != 0 {
			return
		}
	}
}

// readerModel is a file, and what it has to be.
type readerModel struct {
	*library
	*rand.Rand
	t      *testing.T
	file   *File
	length int  // of the file, as it knows
	at     int  // where the cursor is
	sure   bool // one datanode is well
}

func newReaderModel(t *testing.T, seed uint64) *readerModel {
	r := rand.New(rand.NewPCG(seed, 1))
	var sizes []int
	for range 1 + r.IntN(5) {
		sizes = append(sizes, 1+r.IntN(1<<r.IntN(20)))
	}
	l := newPipedLibrary(t, 3, DatanodesOptions{Connections: 2 + r.IntN(4), Memory: int64(r.IntN(1 << 20))}, sizes...)
	o := ReadOptions{Mode: Mode(r.IntN(3)), ReadAhead: int64(r.IntN(1<<20)) - 1, Timeout: 2 * time.Second}
	m := &readerModel{library: l, Rand: r, t: t, file: l.open(o), sure: true}
	m.length = len(l.data)
	return m
}

func (m *readerModel) run() {
	for range 120 {
		switch m.IntN(12) {
		case 0, 1:
			m.trouble()
		case 2:
			m.seek()
		case 3, 4, 5:
			m.read()
		case 6:
			m.writeTo()
		case 7, 8:
			m.readAt(m.Rand)
		case 9:
			m.readAtOnce()
		case 10:
			m.grow()
		case 11:
			time.Sleep(time.Duration(m.IntN(1500)) * time.Millisecond)
		}
		if m.t.Failed() {
			return
		}
	}
	m.heal()
	m.seekTo(0, io.SeekStart, 0)
	got, err := io.ReadAll(m.file)
	if err != nil || !bytes.Equal(got, m.data[:m.length]) {
		m.t.Errorf("when all are well: %d bytes of %d, %v", len(got), m.length, err)
	}
}

// trouble changes what the datanodes do. One may be away, or have lost the end of its blocks.
func (m *readerModel) trouble() {
	m.heal()
	well := m.IntN(4) // 3: none needs to be
	m.sure = well < 3
	for i, s := range m.shelves {
		if i == well || m.IntN(3) == 0 {
			continue
		}
		what := [...]trouble{noBox, boxed, absent, rotten, broken, resting, short, empty, flipped, shifted, unsummed, cut, half, stuck}[m.IntN(14)]
		often := m.Float64()
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(m.Uint64(), 1))
		s.does(func(asked) trouble {
			mu.Lock()
			defer mu.Unlock()
			if r.Float64() < often {
				return what
			}
			return ""
		})
		if m.IntN(4) == 0 {
			s.stop()
		}
		if m.IntN(4) == 0 {
			s.mu.Lock()
			for id, data := range s.blocks {
				s.blocks[id] = data[:m.IntN(len(data)+1)]
			}
			s.mu.Unlock()
		}
	}
}

func (m *readerModel) heal() {
	m.sure = true
	for _, s := range m.shelves {
		s.start()
		s.does(always(well))
		s.mu.Lock()
		for _, b := range m.layout.Blocks {
			s.blocks[b.ID] = m.data[b.Offset:][:b.Length]
		}
		s.mu.Unlock()
	}
}

// allowed says whether an error may be: only when no datanode was well all the time.
func (m *readerModel) allowed(what string, err error) {
	if err == nil || err == io.EOF {
		return
	}
	if code := muster.CodeOf(err); m.sure || code == muster.ErrCancelled || code == muster.ErrDeadline || code == muster.ErrUnauthenticated {
		m.t.Errorf("%s: %v", what, err)
	}
}

func (m *readerModel) seek() {
	to := m.IntN(m.length + 1 + m.length/10)
	switch m.IntN(4) {
	case 0:
		m.seekTo(int64(to), io.SeekStart, to)
	case 1:
		m.seekTo(int64(to-m.at), io.SeekCurrent, to)
	case 2:
		m.seekTo(int64(to-m.length), io.SeekEnd, to)
	case 3: // not far
		to = max(m.at+m.IntN(100_000)-50_000, 0)
		m.seekTo(int64(to), io.SeekStart, to)
	}
}

func (m *readerModel) seekTo(offset int64, whence, want int) {
	m.at = want
	if at, err := m.file.Seek(offset, whence); at != int64(want) || err != nil {
		m.t.Errorf("Seek(%d, %d) = %d, %v; want %d", offset, whence, at, err, want)
	}
}

// rest returns the bytes of the file from an offset on, n at most.
func (m *readerModel) rest(at, n int) []byte {
	at = min(at, m.length)
	return m.data[at:min(at+n, m.length)]
}

// size is that of a read: often small.
func size(r *rand.Rand) int { return r.IntN(1 << r.IntN(20)) }

func (m *readerModel) read() {
	p := make([]byte, size(m.Rand))
	n, err := m.file.Read(p)
	m.allowed("Read", err)
	want := m.rest(m.at, len(p))
	switch {
	case n > len(want) || !bytes.Equal(p[:n], want[:n]):
		m.t.Errorf("Read of %d at %d: %d wrong bytes", len(p), m.at, n)
	case n > 0 && err != nil, err == io.EOF && len(want) > 0, n == 0 && err == nil && len(p) > 0:
		m.t.Errorf("Read of %d at %d: %d, %v", len(p), m.at, n, err)
	case n < len(want) && m.sure:
		m.t.Errorf("Read of %d at %d: only %d, %v", len(p), m.at, n, err)
	}
	m.at += n
	m.seekTo(0, io.SeekCurrent, m.at)
}

func (m *readerModel) writeTo() {
	var got []byte
	room, full := size(m.Rand)*2, errors.New("full")
	n, err := m.file.WriteTo(writeFunc(func(p []byte) (int, error) {
		if m.IntN(10) == 0 {
			time.Sleep(time.Duration(m.IntN(2000)) * time.Millisecond)
		}
		k := min(room-len(got), len(p))
		got = append(got, p[:k]...)
		if k < len(p) {
			return k, full
		}
		return k, nil
	}))
	if err != full {
		m.allowed("WriteTo", err)
	}
	want := m.rest(m.at, m.length)
	if int(n) != len(got) || len(got) > len(want) || !bytes.Equal(got, want[:n]) || err == nil && int(n) < len(want) {
		m.t.Errorf("WriteTo at %d: %d of %d bytes, %v", m.at, n, len(want), err)
	}
	m.at += int(n)
	m.seekTo(0, io.SeekCurrent, m.at)
}

func (m *readerModel) readAt(r *rand.Rand) {
	at := r.IntN(m.length + 10)
	p := bytes.Repeat([]byte{0xEE}, size(r))
	n, err := m.file.ReadAt(p, int64(at))
	m.allowed("ReadAt", err)
	want := m.rest(at, len(p))
	switch {
	case n > len(want) || !bytes.Equal(p[:n], want[:n]) || !bytes.Equal(p[n:], bytes.Repeat([]byte{0xEE}, len(p)-n)):
		m.t.Errorf("ReadAt of %d at %d: wrong bytes, %d count", len(p), at, n)
	case n < len(p) && err == nil, n == len(p) && err != nil, err == io.EOF && n < len(want), n < len(want) && m.sure:
		m.t.Errorf("ReadAt of %d at %d: %d, %v", len(p), at, n, err)
	}
}

// readAtOnce makes positioned reads beside a sequential one.
func (m *readerModel) readAtOnce() {
	var wg sync.WaitGroup
	for range 3 {
		r := rand.New(rand.NewPCG(m.Uint64(), 1))
		wg.Go(func() {
			for range 5 {
				m.readAt(r)
			}
		})
	}
	for range 3 {
		m.read()
	}
	wg.Wait()
}

// grow adds a block, which is seen after a refresh, the model's or a reader's.
func (m *readerModel) grow() {
	if len(m.layout.Blocks) < 8 {
		m.append(1 + m.IntN(100_000))
	}
	if err := m.file.Refresh(m.t.Context()); err != nil {
		m.t.Error(err)
	}
	m.length = len(m.data)
}

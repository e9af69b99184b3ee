package blocks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/muster-fs/muster"
)

func TestFilesOfAllModes(t *testing.T) {
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		t.Run(m.String(), func(t *testing.T) {
			const first = 1<<20 + 5
			l := newLibrary(t, 3, DatanodesOptions{}, first, 7, 2<<20, 100_000)
			o := quick
			o.Mode = m
			f := l.open(o)
			for _, offset := range []int64{0, 1, 16384, first - 5, first, first + 7, 3 << 20, int64(len(l.data)) - 1, int64(len(l.data)), 9 << 20, math.MaxInt64} {
				for _, n := range []int{0, 1, 100, 16384, 70000} {
					l.checkAt(f, offset, n)
				}
			}
			l.checkAt(f, 1, 3<<20)
			if err := iotest.TestReader(io.NewSectionReader(f, first-200, 500), l.data[first-200:][:500]); err != nil {
				t.Error(err)
			}
			got, err := io.ReadAll(iotest.HalfReader(f))
			if err != nil || !bytes.Equal(got, l.data) {
				t.Fatalf("ReadAll: %d bytes, %v", len(got), err)
			}
			if _, err := f.Seek(3, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			n, err := io.Copy(&b, f)
			if err != nil || n != int64(len(l.data)-3) || !bytes.Equal(b.Bytes(), l.data[3:]) {
				t.Fatalf("Copy: %d bytes, %v", n, err)
			}
			if len(l.askedFor()) > 0 {
				t.Errorf("locations were asked for: %v", l.asks)
			}
		})
	}
}

// TestBlocksOfTenTwentyFiveAndSeven are the cases of a file of 42 bytes in three blocks.
func TestBlocksOfTenTwentyFiveAndSeven(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 1, DatanodesOptions{}, 10, 25, 7)
		f := l.open(ReadOptions{Mode: m})
		for _, c := range []struct {
			offset int64
			n      int
			want   int
			blocks []uint64 // that are reached
		}{
			{5, 35, 35, []uint64{1, 2, 3}},
			{12, 4, 4, []uint64{2}},
			{0, 10, 10, []uint64{1}},
			{40, 20, 2, []uint64{3}},
			{42, 5, 0, nil},
			{142, 5, 0, nil},
			{0, 0, 0, nil},
			{42, 0, 0, nil},
			{142, 0, 0, nil},
			{0, 42, 42, []uint64{1, 2, 3}},
		} {
			l.shelves[0].took()
			p := bytes.Repeat([]byte{0xEE}, c.n)
			n, err := f.ReadAt(p, c.offset)
			if n != c.want || !bytes.Equal(p[:n], l.data[min(c.offset, 42):][:n]) {
				t.Errorf("%d bytes at %d: got %d, %v", c.n, c.offset, n, err)
			}
			if !bytes.Equal(p[n:], bytes.Repeat([]byte{0xEE}, c.n-n)) {
				t.Errorf("%d bytes at %d: bytes after the %d were written", c.n, c.offset, n)
			}
			if n == c.n && err != nil || n < c.n && err != io.EOF {
				t.Errorf("%d bytes at %d: error %v", c.n, c.offset, err)
			}
			var blocks []uint64
			for _, a := range l.shelves[0].took() {
				blocks = append(blocks, a.block.LocalID)
			}
			if !slices.Equal(blocks, c.blocks) {
				t.Errorf("%d bytes at %d: calls for blocks %d, want %d", c.n, c.offset, blocks, c.blocks)
			}
			if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
				t.Errorf("the cursor is at %d, %v", at, err)
			}
		}
	})
}

func TestNegativeOffset(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 10)
	f := l.open(ReadOptions{})
	for _, p := range [][]byte{nil, make([]byte, 3)} {
		n, err := f.ReadAt(p, -1)
		if n != 0 || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("got %d, %v", n, err)
		}
	}
}

func TestEmptyFile(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		for _, l := range []Layout{{}, {Blocks: []Block{{ID: muster.BlockID{Container: 1, LocalID: 1}}}}} {
			f := newLibrary(t, 1, DatanodesOptions{}).openAs(l, nil, ReadOptions{Mode: m})
			p := make([]byte, 5)
			if n, err := f.Read(p); n != 0 || err != io.EOF {
				t.Errorf("Read: %d, %v", n, err)
			}
			if n, err := f.ReadAt(p, 0); n != 0 || err != io.EOF {
				t.Errorf("ReadAt: %d, %v", n, err)
			}
			if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
				t.Errorf("ReadAt of nothing: %d, %v", n, err)
			}
			if n, err := f.WriteTo(io.Discard); n != 0 || err != nil {
				t.Errorf("WriteTo: %d, %v", n, err)
			}
			if at, err := f.Seek(0, io.SeekStart); at != 0 || err != nil {
				t.Errorf("Seek: %d, %v", at, err)
			}
		}
	})
}

func TestSeekRules(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 10, 25, 7)
	f := l.open(ReadOptions{})
	p := make([]byte, 4)
	for _, c := range []struct {
		offset int64
		whence int
		want   int64 // -1: an error
		read   int   // bytes that Read finds there
	}{
		{8, io.SeekStart, 8, 4},
		{0, io.SeekCurrent, 12, 4},
		{-16, io.SeekCurrent, 0, 4},
		{-5, io.SeekCurrent, -1, 4},
		{-3, io.SeekEnd, 39, 3},
		{0, io.SeekEnd, 42, 0},
		{100, io.SeekEnd, 142, 0},
		{-143, io.SeekCurrent, -1, 0},
		{-43, io.SeekEnd, -1, 0},
		{-1, io.SeekStart, -1, 0},
		{math.MaxInt64, io.SeekCurrent, -1, 0},
		{math.MaxInt64, io.SeekStart, math.MaxInt64, 0},
		{1, 7, -1, 0},
		{35, io.SeekStart, 35, 4},
	} {
		before, _ := f.Seek(0, io.SeekCurrent)
		at, err := f.Seek(c.offset, c.whence)
		if c.want < 0 {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("Seek(%d, %d) = %d, %v", c.offset, c.whence, at, err)
			}
			at, _ = f.Seek(0, io.SeekCurrent)
			if at != before {
				t.Errorf("a failed Seek moved the cursor from %d to %d", before, at)
			}
		} else if at != c.want || err != nil {
			t.Errorf("Seek(%d, %d) = %d, %v", c.offset, c.whence, at, err)
		}
		n, err := f.Read(p)
		if n != c.read || n == 0 && err != io.EOF || n > 0 && err != nil {
			t.Errorf("Read at %d: %d, %v", at, n, err)
		}
		if n > 0 && !bytes.Equal(p[:n], l.data[at:][:n]) {
			t.Errorf("Read at %d: wrong bytes", at)
		}
	}
}

// TestRequestsAreWholeChecksums looks at what calls ask for.
func TestRequestsAreWholeChecksums(t *testing.T) {
	const n = muster.ChecksumBytes
	size := 3<<20 + 77
	l := newLibrary(t, 1, DatanodesOptions{}, size)
	for _, c := range []struct {
		offset int64
		length int
		calls  [][2]int64 // from, length
	}{
		{0, 1, [][2]int64{{0, n}}},
		{n - 1, 2, [][2]int64{{0, 2 * n}}},
		{n + 25, 30, [][2]int64{{n, n}}},
		{n, n, [][2]int64{{n, n}}},
		{int64(size) - 1, 50, [][2]int64{{3 << 20, 77}}},
		{5, 2 << 20, [][2]int64{{0, muster.MaxTransfer}, {muster.MaxTransfer, muster.MaxTransfer}, {2 * muster.MaxTransfer, 3 * n}}},
	} {
		for _, positioned := range []bool{true, false} {
			l.shelves[0].took()
			f := l.open(ReadOptions{Mode: ByChunk})
			p := make([]byte, c.length)
			var err error
			if positioned {
				_, err = f.ReadAt(p, c.offset)
			} else {
				f.mustSeek(t, c.offset)
				_, err = io.ReadFull(f, p)
			}
			if err != nil && c.offset+int64(c.length) <= int64(size) {
				t.Fatal(err)
			}
			calls := l.shelves[0].took()
			for _, a := range calls {
				if a.from%n != 0 || a.length > muster.MaxTransfer || (a.from+a.length)%n != 0 && a.from+a.length != int64(size) {
					t.Errorf("%d bytes at %d: a call for %d at %d", c.length, c.offset, a.length, a.from)
				}
			}
			if !positioned && len(c.calls) > 1 {
				continue // it reads ahead
			}
			var got [][2]int64
			for _, a := range calls {
				got = append(got, [2]int64{a.from, a.length})
			}
			if !slices.Equal(got, c.calls) {
				t.Errorf("%d bytes at %d (positioned: %v): calls %v, want %v", c.length, c.offset, positioned, got, c.calls)
			}
		}
	}
}

func (f *File) mustSeek(t *testing.T, to int64) {
	t.Helper()
	if at, err := f.Seek(to, io.SeekStart); at != to || err != nil {
		t.Fatalf("Seek(%d) = %d, %v", to, at, err)
	}
}

// TestSeekWithinWhatIsBufferedAsksNobody holds for both readers, forward and back.
func TestSeekWithinWhatIsBufferedAsksNobody(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 1, DatanodesOptions{}, 1<<20)
		f := l.open(ReadOptions{Mode: m, ReadAhead: -1})
		p := make([]byte, 100)
		read := func(at int64) {
			t.Helper()
			f.mustSeek(t, at)
			if n, err := f.Read(p); n != len(p) || err != nil || !bytes.Equal(p, l.data[at:][:n]) {
				t.Fatalf("Read at %d: %d, %v", at, n, err)
			}
		}
		read(40_000)
		l.shelves[0].took()
		for _, at := range []int64{40_200, 33_000, 49_000, 40_000} {
			read(at)
			if calls := l.shelves[0].took(); len(calls) > 0 {
				t.Errorf("a read at %d made calls %v", at, calls)
			}
		}
		read(700_000)
		if m == ByChunk && len(l.shelves[0].took()) != 1 {
			t.Error("a read elsewhere made no call")
		}
	})
}

// TestReadAheadCoversLongReads: when a file is read on and on, a call brings much.
func TestReadAheadCoversLongReads(t *testing.T) {
	l := newLibrary(t, 1, DatanodesOptions{}, 8<<20)
	for _, c := range []struct {
		o    ReadOptions
		most int // calls
	}{
		{ReadOptions{Mode: ByChunk}, 32},
		{ReadOptions{}, 24},
		{ReadOptions{Mode: ByStream}, 1},
	} {
		t.Run(c.o.Mode.String(), func(t *testing.T) {
			l.shelves[0].took()
			f := l.open(c.o)
			got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(f, 10)))
			if err != nil || !bytes.Equal(got, l.data[:10]) {
				t.Fatal(err)
			}
			p := make([]byte, 5_000)
			for at := 10; at < len(l.data); at += len(p) {
				p = p[:min(len(p), len(l.data)-at)]
				if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, l.data[at:][:len(p)]) {
					t.Fatalf("at %d: %v", at, err)
				}
			}
			calls := l.shelves[0].took()
			if len(calls) > c.most {
				t.Errorf("%d calls", len(calls))
			}
			streams := 0
			for _, a := range calls {
				if a.stream {
					streams++
				}
			}
			if want := min(int(c.o.Mode^ByChunk), 1); streams != want {
				t.Errorf("%d streams, want %d", streams, want)
			}
		})
	}
}

func TestReadAheadIsBounded(t *testing.T) {
	for _, c := range []struct{ memory, ahead int64 }{{0, 1 << 20}, {512 << 10, 0}, {1, 0}, {0, -1}} {
		l := newLibrary(t, 1, DatanodesOptions{Memory: c.memory}, 16<<20)
		f := l.open(ReadOptions{Mode: ByChunk, ReadAhead: c.ahead})
		p := make([]byte, 100_000)
		for at := 0; at < len(l.data); {
			n, err := f.Read(p)
			if err != nil || !bytes.Equal(p[:n], l.data[at:][:n]) {
				t.Fatalf("at %d: %v", at, err)
			}
			at += n
			most := f.options.ReadAhead + muster.MaxTransfer
			if c.memory > 0 {
				most = min(most, c.memory)
			}
			if taken := l.options.Memory - l.memory.Load(); taken > most {
				t.Fatalf("%d bytes are read ahead, of %d", taken, most)
			}
		}
		_ = f.Close()
		if left := l.memory.Load(); left != l.options.Memory {
			t.Errorf("%d bytes of memory are left of %d", left, l.options.Memory)
		}
	}
}

func TestBytesInNoBlock(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 1, DatanodesOptions{}, 100, 100, 100)
		layout := l.layout
		layout.Blocks = []Block{layout.Blocks[0], layout.Blocks[2]}
		layout.Length = 400
		f := l.openAs(layout, nil, ReadOptions{Mode: m})
		p := make([]byte, 150)
		for _, c := range []struct{ at, n int }{{0, 100}, {50, 50}, {100, 0}, {199, 0}, {200, 100}, {300, 0}, {399, 0}} {
			n, err := f.ReadAt(p, int64(c.at))
			wantCode(t, err, muster.ErrNoData)
			if n != c.n || n > 0 && !bytes.Equal(p[:n], l.data[c.at:][:n]) {
				t.Errorf("at %d: %d bytes", c.at, n)
			}
		}
		if n, err := f.Read(p); n != 100 || err != nil {
			t.Errorf("Read: %d, %v", n, err)
		}
		for range 2 {
			_, err := f.Read(p)
			wantCode(t, err, muster.ErrNoData)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != 100 || err != nil {
			t.Errorf("the cursor is at %d, %v", at, err)
		}
		if n, err := f.ReadAt(p, 400); n != 0 || err != io.EOF {
			t.Errorf("at the end: %d, %v", n, err)
		}
	})
}

func TestLayoutsAreChecked(t *testing.T) {
	d, err := NewDatanodes(DatanodesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for i, l := range []Layout{
		{Length: 10, Blocks: []Block{{Offset: 0, Length: 11}}},
		{Length: 10, Blocks: []Block{{Offset: -1, Length: 5}}},
		{Length: 10, Blocks: []Block{{Offset: 0, Length: -5}}},
		{Length: 10, Blocks: []Block{{Offset: 0, Length: 5}, {Offset: 4, Length: 5}}},
		{Length: 10, Blocks: []Block{{Offset: 5, Length: 5}, {Offset: 0, Length: 5}}},
		{Length: 10, Blocks: []Block{{Offset: 5, Length: math.MaxInt64}}},
		{Length: -1},
	} {
		if _, err := NewFile(t.Context(), d, l, nil, ReadOptions{}); muster.CodeOf(err) != muster.ErrCorrupt {
			t.Errorf("layout %d: %v", i, err)
		}
	}
}

func TestReadOptionsAreChecked(t *testing.T) {
	for _, o := range []ReadOptions{{Mode: 3}, {ReadAhead: -2}, {Timeout: -1}, {Attempts: -1}, {Pause: -1}, {Idle: -1}} {
		if err := o.Validate(); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
		if _, err := NewFile(t.Context(), nil, Layout{}, nil, o); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []DatanodesOptions{{Connections: 1}, {Connections: -1}, {Writers: -1}, {Memory: -1}, {DialTimeout: -1}, {IdleTimeout: -1}} {
		if _, err := NewDatanodes(o); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, m := range []Mode{Auto, ByChunk, ByStream} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode(Mode(9).String()); !errors.Is(err, muster.ErrInvalid) {
		t.Error(err)
	}
}

// TestWriterThatFails: the cursor moves by what was taken.
func TestWriterThatFails(t *testing.T) {
	bothModes(t, func(t *testing.T, m Mode) {
		l := newLibrary(t, 1, DatanodesOptions{}, 300_000)
		f := l.open(ReadOptions{Mode: m})
		full := errors.New("full")
		for _, c := range []struct {
			take int
			err  error
			want error
		}{{1000, full, full}, {0, full, full}, {70_000, nil, io.ErrShortWrite}} {
			before, _ := f.Seek(0, io.SeekCurrent)
			var got []byte
			n, err := f.WriteTo(writeFunc(func(p []byte) (int, error) {
				room := min(c.take-len(got), len(p))
				got = append(got, p[:room]...)
				if room < len(p) {
					return room, c.err
				}
				return room, nil
			}))
			if n != int64(len(got)) || !errors.Is(err, c.want) || !bytes.Equal(got, l.data[before:][:n]) {
				t.Errorf("%d bytes, %v", n, err)
			}
			if at, _ := f.Seek(0, io.SeekCurrent); at != before+n {
				t.Errorf("the cursor went from %d to %d for %d bytes", before, at, n)
			}
		}
		_, err := f.WriteTo(writeFunc(func(p []byte) (int, error) { return len(p) + 1, nil }))
		wantCode(t, err, muster.ErrInternal)
	})
}

type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

func ExampleParseMode() {
	m, err := ParseMode("chunk")
	fmt.Println(m, err)
	// Output: chunk <nil>
}

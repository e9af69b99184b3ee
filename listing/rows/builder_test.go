package rows

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/muster-fs/muster"
)

func TestSizeBoundsTheFrame(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, c := range columnSets {
		b := NewBuilder(c)
		if b.Size() != 0 || len(b.AppendFrame(nil)) != 0 {
			t.Errorf("columns %#x: empty builder has size %d", uint32(c), b.Size())
		}
		for _, s := range randomRows(r, 150) {
			b.Append(s.path, &s.row)
			if size, n := b.Size(), len(b.AppendFrame(nil)); size < n || size > n+512 {
				t.Fatalf("columns %#x, %d rows: size %d, frame of %d bytes", uint32(c), b.Len(), size, n)
			}
		}
	}
}

func TestFileOfMostBlocksFitsAFrame(t *testing.T) {
	row := muster.Row{Kind: muster.File, Name: []byte("big"), Blocks: make([]muster.Block, muster.MaxBlocks)}
	frame := frameOf(AllColumns, []sample{{0, row}})
	b, err := Decode(frame, AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	if n := b.NumBlocks(0); n != muster.MaxBlocks {
		t.Errorf("%d blocks, want %d", n, muster.MaxBlocks)
	}
}

func TestAppendFrameAppends(t *testing.T) {
	b := build(AllColumns, oneOfEach())
	dirty := bytes.Repeat([]byte{0xee}, 2*b.Size())
	want := b.AppendFrame(nil)
	if got := b.AppendFrame(dirty[:3]); !bytes.Equal(got[:3], dirty[:3]) || !bytes.Equal(got[3:], want) {
		t.Error("a frame in a used buffer differs from one in a fresh buffer")
	}
}

func TestResetForgetsRows(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, c := range columnSets {
		b := build(c, randomRows(r, 100))
		b.Reset()
		if b.Len() != 0 {
			t.Fatalf("%d rows after Reset", b.Len())
		}
		for _, s := range oneOfEach() {
			b.Append(s.path, &s.row)
		}
		if !bytes.Equal(b.AppendFrame(nil), frameOf(c, oneOfEach())) {
			t.Errorf("columns %#x: frame after Reset differs from that of a new builder", uint32(c))
		}
	}
}

func TestMTimeIsSetLater(t *testing.T) {
	for _, c := range []Columns{AllColumns, requiredColumns} {
		b := build(c, oneOfEach())
		b.SetMTime(0, -5)
		b.SetMTime(2, 77)
		batch, err := Decode(b.AppendFrame(nil), c)
		if err != nil {
			t.Fatal(err)
		}
		want := [3]int64{}
		if c.Has(ColMTime) {
			want = [3]int64{-5, 0, 77}
		}
		if got := [3]int64{batch.MTime(0), batch.MTime(1), batch.MTime(2)}; got != want {
			t.Errorf("columns %#x: mtimes %v, want %v", uint32(c), got, want)
		}
	}
}

// No row costs an allocation, neither to write nor to read.
func TestAllocations(t *testing.T) {
	samples := randomRows(rand.New(rand.NewPCG(7, 7)), 300)
	for _, c := range columnSets {
		b := build(c, samples)
		frame := b.AppendFrame(nil)
		batch, err := Decode(frame, c)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, test := range []struct {
			name string
			want float64
			f    func()
		}{
			{"append", 0, func() {
				b.Reset()
				for i := range samples {
					b.Append(samples[i].path, &samples[i].row)
					sum += b.Size()
				}
			}},
			{"set mtime", 0, func() { b.SetMTime(3, 4) }},
			{"encode", 0, func() { frame = b.AppendFrame(frame[:0]) }},
			{"decode", 1, func() {
				if _, err := Decode(frame, c); err != nil {
					t.Fatal(err)
				}
			}},
			{"read", 0, func() {
				for i := range batch.Len() {
					sum += len(batch.Name(i)) + len(batch.Owner(i)) + len(batch.Group(i)) + len(batch.LinkTarget(i))
					sum += int(batch.PathIndex(i)) + int(batch.Length(i)+batch.MTime(i)+batch.ATime(i)+batch.BlockSize(i)) + int(batch.InodeID(i))
					sum += int(batch.Kind(i)) + int(batch.Mode(i)) + int(batch.Flags(i)) + batch.Replication(i).Nodes()
					for k := range batch.NumBlocks(i) {
						sum += int(batch.Block(i, k).Length)
					}
				}
			}},
		} {
			if got := testing.AllocsPerRun(10, test.f); got > test.want {
				t.Errorf("columns %#x: %s of %d rows allocates %v times, want %v", uint32(c), test.name, len(samples), got, test.want)
			}
		}
	}
}

// A frame that promises much allocates no more than one that holds it.
func TestDecodeAllocatesNoMoreThanTheFrame(t *testing.T) {
	frame := frameOf(AllColumns, oneOfEach())
	binary.LittleEndian.PutUint32(frame[atRows:], uint32(len(frame)/16))
	tmpl := templateOf(AllColumns)
	for _, at := range []int{tmpl.blocksAt, tmpl.textAt[0], rowsAt, bodyAt} {
		binary.LittleEndian.PutUint64(frame[headerBytes+at:], uint64(len(frame)/2))
	}
	reseal(frame)
	var before, after runtime.MemStats
	const runs = 100
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := Decode(frame, AllColumns); err == nil {
			t.Fatal("no error")
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > uint64(2*len(frame)) {
		t.Errorf("%d bytes allocated for a frame of %d", got, len(frame))
	}
}

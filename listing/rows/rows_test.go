package rows

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster"
)

// columnSets are the sets that tests go through.
var columnSets = []Columns{
	AllColumns,
	DefaultColumns,
	requiredColumns,
	requiredColumns | ColBlocks,
	requiredColumns | ColKind | ColLength | ColMTime,
	requiredColumns | ColOwner | ColFlags | ColLinkTarget,
	requiredColumns | ColReplication | ColMode | ColBlocks,
}

// sample is a row and the index of its path.
type sample struct {
	path uint32
	row  muster.Row
}

// randomRows makes rows of all kinds: names with odd bytes, empty texts, files without
// blocks and with many.
func randomRows(r *rand.Rand, n int) []sample {
	names := []string{"", "part-00000.parquet", "year=2026", "ä", "日本語", "🦆", "a b\nc", "100%:x", "..hidden", "\u0080", "_SUCCESS"}
	samples := make([]sample, n)
	for i := range samples {
		row := muster.Row{
			ID: r.Uint64(), MTime: r.Int64() - r.Int64(), ATime: r.Int64N(1 << 40), Mode: uint16(r.Uint32()) & muster.ModeMask,
			Kind:  muster.Kind(1 + r.IntN(3)),
			Name:  []byte(names[r.IntN(len(names))]),
			Owner: []byte([]string{"", "hdfs", "änne"}[r.IntN(3)]),
			Group: []byte([]string{"supergroup", ""}[r.IntN(2)]),
		}
		switch row.Kind {
		case muster.Link:
			row.Target = []byte("../" + names[r.IntN(len(names))])
		case muster.File:
			row.Length, row.BlockSize, row.Replication = r.Int64N(1<<50), 128<<20, muster.Replicated(1+r.IntN(9))
			row.Flags = uint8(r.IntN(2)) * muster.FlagWriting
			row.Blocks = make([]muster.Block, []int{0, 1, 2, 40}[r.IntN(4)])
			for k := range row.Blocks {
				row.Blocks[k] = muster.Block{Container: r.Uint64(), LocalID: r.Uint64(), Length: r.Int64N(1 << 30)}
			}
		}
		samples[i] = sample{uint32(i / 3), row}
	}
	return samples
}

// without returns the sample as it is when only the columns of c are known.
func (s sample) without(c Columns) muster.Entry {
	e := s.row.Entry()
	drop := func(col Columns, clear func()) {
		if !c.Has(col) {
			clear()
		}
	}
	drop(ColKind, func() { e.Kind = 0 })
	drop(ColLength, func() { e.Length = 0 })
	drop(ColMTime, func() { e.MTime = 0 })
	drop(ColATime, func() { e.ATime = 0 })
	drop(ColMode, func() { e.Mode = 0 })
	drop(ColOwner, func() { e.Owner = "" })
	drop(ColGroup, func() { e.Group = "" })
	drop(ColReplication, func() { e.Replication = 0 })
	drop(ColBlockSize, func() { e.BlockSize = 0 })
	drop(ColInodeID, func() { e.ID = 0 })
	drop(ColFlags, func() { e.Flags = 0 })
	drop(ColLinkTarget, func() { e.Target = "" })
	drop(ColBlocks, func() { e.Blocks = nil })
	return e
}

func build(c Columns, samples []sample) *Builder {
	b := NewBuilder(c)
	for i := range samples {
		b.Append(samples[i].path, &samples[i].row)
	}
	return b
}

func frameOf(c Columns, samples []sample) []byte { return build(c, samples).AppendFrame(nil) }

// arrowRecord builds the same rows by Arrow's own builders.
func arrowRecord(mem memory.Allocator, c Columns, samples []sample) arrow.Record {
	return arrowRecordOf(mem, c, samples, func(b *array.ListBuilder) { b.AppendNull() })
}

// arrowRecordOf has the nodes that appendNodes appends for each block.
func arrowRecordOf(mem memory.Allocator, c Columns, samples []sample, appendNodes func(*array.ListBuilder)) arrow.Record {
	rb := array.NewRecordBuilder(mem, Schema(c))
	defer rb.Release()
	for _, s := range samples {
		for i, f := range Schema(c).Fields() {
			appendArrow(rb.Field(i), f.Name, s, appendNodes)
		}
	}
	return rb.NewRecord()
}

func appendArrow(b array.Builder, column string, s sample, appendNodes func(*array.ListBuilder)) {
	r := &s.row
	switch column {
	case "path_index":
		b.(*array.Uint32Builder).Append(s.path)
	case "name":
		b.(*array.StringBuilder).Append(string(r.Name))
	case "kind":
		b.(*array.Uint8Builder).Append(uint8(r.Kind))
	case "length":
		b.(*array.Int64Builder).Append(r.Length)
	case "mtime":
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(r.MTime))
	case "atime":
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(r.ATime))
	case "mode":
		b.(*array.Uint16Builder).Append(r.Mode)
	case "owner":
		b.(*array.StringBuilder).Append(string(r.Owner))
	case "group":
		b.(*array.StringBuilder).Append(string(r.Group))
	case "replication":
		b.(*array.Uint16Builder).Append(uint16(r.Replication))
	case "block_size":
		b.(*array.Int64Builder).Append(r.BlockSize)
	case "inode_id":
		b.(*array.Uint64Builder).Append(r.ID)
	case "flags":
		b.(*array.Uint8Builder).Append(r.Flags)
	case "link_target":
		b.(*array.StringBuilder).Append(string(r.Target))
	case "blocks":
		appendArrowBlocks(b.(*array.ListBuilder), r.Blocks, appendNodes)
	}
}

func appendArrowBlocks(b *array.ListBuilder, blocks []muster.Block, appendNodes func(*array.ListBuilder)) {
	b.Append(true)
	item := b.ValueBuilder().(*array.StructBuilder)
	offset := int64(0)
	for _, block := range blocks {
		item.Append(true)
		item.FieldBuilder(0).(*array.Uint64Builder).Append(block.Container)
		item.FieldBuilder(1).(*array.Uint64Builder).Append(block.LocalID)
		item.FieldBuilder(2).(*array.Int64Builder).Append(offset)
		item.FieldBuilder(3).(*array.Int64Builder).Append(block.Length)
		appendNodes(item.FieldBuilder(4).(*array.ListBuilder))
		offset += block.Length
	}
}

// arrowStream returns the stream that Arrow's writer makes of records.
func arrowStream(t testing.TB, schema *arrow.Schema, records ...arrow.Record) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	for _, record := range records {
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const endOfStream = 8

func TestPayloadIsWhatArrowsWriterMakes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range columnSets {
		empty := arrowStream(t, Schema(c))
		for _, n := range []int{1, 2, 100, 4096} {
			t.Run(fmt.Sprintf("columns=%#x/rows=%d", uint32(c), n), func(t *testing.T) {
				mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
				defer mem.AssertSize(t, 0)
				samples := randomRows(r, n)
				record := arrowRecord(mem, c, samples)
				defer record.Release()
				stream := arrowStream(t, Schema(c), record)
				want := stream[len(empty)-endOfStream : len(stream)-endOfStream]
				if got := frameOf(c, samples)[headerBytes:]; !bytes.Equal(got, want) {
					t.Fatalf("payload of %d bytes differs from that of Arrow's writer, %d bytes, at byte %d", len(got), len(want), firstDifference(got, want))
				}
			})
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

var update = flag.Bool("update", false, "write the frames of testdata anew")

// The bytes of a frame, Arrow's metadata among them, are what other builds of this
// version read: a change needs a new SchemaVersion.
func TestFrameBytesArePinned(t *testing.T) {
	frames := map[string][]byte{"-located": placedFrame(AllColumns, oneOfEach(), [][]uint32{{3, 0, Absent, 7}, nil})}
	for _, c := range []Columns{AllColumns, DefaultColumns, requiredColumns} {
		frames[fmt.Sprintf("-%#x", uint32(c))] = frameOf(c, oneOfEach())
	}
	for name, got := range frames {
		file := fmt.Sprintf("testdata/v%d%s.frame", SchemaVersion, name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: frame differs at byte %d", file, firstDifference(got, want))
		}
	}
}

func TestDecodedRowsEqualAppendedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, c := range columnSets {
		for _, n := range []int{0, 1, 7, 500} {
			samples := randomRows(r, n)
			b, err := Decode(frameOf(c, samples), c)
			if err != nil {
				t.Fatal(err)
			}
			if b.Len() != n {
				t.Fatalf("%d rows, want %d", b.Len(), n)
			}
			for i, s := range samples {
				want := s.without(c)
				got := b.Entry(i)
				if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || b.PathIndex(i) != s.path {
					t.Fatalf("columns %#x row %d: got %+v, want %+v", uint32(c), i, got, want)
				}
			}
		}
	}
}

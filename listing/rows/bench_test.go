package rows

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster"
)

// benchRows are files of one block with names as table formats make them.
func benchRows(n int) []sample {
	samples := make([]sample, n)
	for i := range samples {
		samples[i] = sample{uint32(i), muster.Row{
			ID: uint64(1000 + i), Kind: muster.File, Mode: 0o644, Length: 1 << 27, BlockSize: 1 << 28, MTime: 1764547200000, ATime: 1764547200000,
			Replication: muster.Replicated(3), Owner: []byte("hive"), Group: []byte("supergroup"),
			Name:   fmt.Appendf(nil, "part-%05d.snappy.parquet", i),
			Blocks: []muster.Block{{Container: uint64(i), LocalID: 1, Length: 1 << 27}},
		}}
	}
	return samples
}

// benchmarkSets are the column sets to measure, all of them also with three nodes a block.
var benchmarkSets = []struct {
	name    string
	columns Columns
	nodes   []uint32
}{{"located", AllColumns, []uint32{7, 1, 11}}, {"all", AllColumns, nil}, {"default", DefaultColumns, nil}, {"names", ColName.Normal(), nil}}

// benchmarkRows runs f over rows and their frame and reports the time and bytes of one
// row.
func benchmarkRows(b *testing.B, f func(b *testing.B, c Columns, samples []sample, frame []byte)) {
	for _, set := range benchmarkSets {
		for _, n := range []int{1, 4096} {
			b.Run(fmt.Sprintf("columns=%s/rows=%d", set.name, n), func(b *testing.B) {
				samples := benchRows(n)
				builder := build(set.columns, samples)
				for builder.Unlocated() > 0 && set.nodes != nil {
					placeNext(builder, set.nodes)
				}
				frame := builder.AppendFrame(nil)
				b.ReportAllocs()
				f(b, set.columns, samples, frame)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
				b.ReportMetric(float64(len(frame))/float64(n), "B/row")
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	benchmarkRows(b, func(b *testing.B, c Columns, samples []sample, _ []byte) {
		builder := NewBuilder(c)
		for b.Loop() {
			builder.Reset()
			for i := range samples {
				builder.Append(samples[i].path, &samples[i].row)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	benchmarkRows(b, func(b *testing.B, c Columns, samples []sample, frame []byte) {
		builder := build(c, samples)
		for b.Loop() {
			frame = builder.AppendFrame(frame[:0])
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmarkRows(b, func(b *testing.B, c Columns, _ []sample, frame []byte) {
		for b.Loop() {
			if _, err := Decode(frame, c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	benchmarkRows(b, func(b *testing.B, c Columns, _ []sample, frame []byte) {
		batch, err := Decode(frame, c)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			batch.Record().Release()
		}
	})
}

// BenchmarkNodes reads where blocks are.
func BenchmarkNodes(b *testing.B) {
	samples := benchRows(4096)
	batch, err := Decode(placedFrame(AllColumns, samples, slices.Repeat([][]uint32{{7, 1, 11}}, len(samples))), AllColumns)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sum := uint32(0)
		for i := range batch.Len() {
			for k := range batch.NumBlocks(i) {
				nodes, _ := batch.Nodes(i, k)
				for j := range nodes.Len() {
					at, _ := nodes.At(j)
					sum += at
				}
			}
		}
		if sum != 19*4096 {
			b.Fatal(sum)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/row")
}

// BenchmarkArrowWriter is what BenchmarkEncode replaces: Arrow's writer over a ready
// record, into a buffer that has grown; without a checksum.
func BenchmarkArrowWriter(b *testing.B) {
	benchmarkRows(b, func(b *testing.B, c Columns, samples []sample, _ []byte) {
		record := arrowRecord(memory.DefaultAllocator, c, samples)
		defer record.Release()
		var out bytes.Buffer
		w := ipc.NewWriter(&out, ipc.WithSchema(Schema(c)))
		for b.Loop() {
			out.Reset()
			if err := w.Write(record); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkArrowBuilder is what BenchmarkAppend replaces.
func BenchmarkArrowBuilder(b *testing.B) {
	benchmarkRows(b, func(b *testing.B, c Columns, samples []sample, _ []byte) {
		for b.Loop() {
			arrowRecord(memory.DefaultAllocator, c, samples).Release()
		}
	})
}

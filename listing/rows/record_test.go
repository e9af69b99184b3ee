package rows

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster"
)

// A frame's payload, put between a schema message and the end of the stream, is a
// stream for any Arrow reader.
func TestRecordIsWhatArrowsReaderReads(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, c := range columnSets {
		empty := arrowStream(t, Schema(c))
		schema, end := empty[:len(empty)-endOfStream], empty[len(empty)-endOfStream:]
		for _, n := range []int{1, 3, 100} {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			frame := frameOf(c, randomRows(r, n))
			stream := bytes.Join([][]byte{schema, frame[headerBytes:], end}, nil)
			reader, err := ipc.NewReaderFromMessageReader(ipc.NewMessageReader(bytes.NewReader(stream), ipc.WithAllocator(mem)), ipc.WithAllocator(mem))
			if err != nil {
				t.Fatal(err)
			}
			if !reader.Next() {
				t.Fatalf("columns %#x: arrow reads no record: %v", uint32(c), reader.Err())
			}
			b, err := Decode(frame, c)
			if err != nil {
				t.Fatal(err)
			}
			record := b.Record()
			if !array.RecordEqual(record, reader.Record()) {
				t.Errorf("columns %#x, %d rows: record %v, arrow reads %v", uint32(c), n, record, reader.Record())
			}
			record.Release()
			reader.Release()
			mem.AssertSize(t, 0)
		}
	}
}

func TestRecordEqualsArrowBuilders(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	for _, c := range columnSets {
		for _, n := range []int{0, 1, 64} {
			mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
			samples := randomRows(r, n)
			b, err := Decode(frameOf(c, samples), c)
			if err != nil {
				t.Fatal(err)
			}
			got, want := b.Record(), arrowRecord(mem, c, samples)
			if !got.Schema().Equal(Schema(c)) || !array.RecordEqual(got, want) {
				t.Errorf("columns %#x: record %v, want %v", uint32(c), got, want)
			}
			if arrowStream(t, Schema(c), got) == nil {
				t.Error("arrow cannot write the record")
			}
			got.Release()
			want.Release()
			mem.AssertSize(t, 0)
		}
	}
}

func TestNoRowsAreNoBytes(t *testing.T) {
	var none *Batch
	b, err := Decode(nil, AllColumns)
	if err != nil || b.Len() != 0 || b.Columns() != AllColumns || none.Len() != 0 {
		t.Fatalf("batch of no bytes: %d rows, %v", b.Len(), err)
	}
	record := b.Record()
	defer record.Release()
	if record.NumRows() != 0 || int(record.NumCols()) != numColumns {
		t.Errorf("record %v, want no rows", record)
	}
}

func TestRecordOutlivesItsBatch(t *testing.T) {
	samples := oneOfEach()
	b, err := Decode(frameOf(AllColumns, samples), AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	record := b.Record()
	defer record.Release()
	name := b.Name(0)
	b = nil
	runtime.GC()
	_ = bytes.Repeat([]byte{0xff}, 1<<20)
	if got := record.Column(1).(*array.String).Value(0); got != "Käse" || name != "Käse" {
		t.Errorf("names %q, %q after the batch is gone", got, name)
	}
}

func TestIPCStreamIsStandardArrow(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	c := AllColumns
	var out bytes.Buffer
	w := NewIPCWriter(&out, c)
	r := rand.New(rand.NewPCG(11, 11))
	batches := [][]sample{oneOfEach(), {}, randomRows(r, 100)}
	for _, samples := range batches {
		b, err := Decode(frameOf(c, samples), c)
		if err != nil {
			t.Fatal(err)
		}
		path := func(i int) string { return fmt.Sprintf("/given%d/%s", b.PathIndex(i), b.Name(i)) }
		if err := w.Write(b, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	reader, err := ipc.NewReader(&out, ipc.WithAllocator(mem))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	if got, want := fmt.Sprint(reader.Schema()), `schema:
  fields: 15
    - path: type=utf8
    - name: type=utf8
    - kind: type=utf8
    - length: type=int64
    - mtime: type=timestamp[ms, tz=UTC]
    - atime: type=timestamp[ms, tz=UTC]
    - mode: type=uint16
    - owner: type=utf8
    - group: type=utf8
    - replication: type=utf8
    - block_size: type=int64
    - inode_id: type=uint64
    - flags: type=uint8
    - link_target: type=utf8
    - blocks: type=list<item: struct<container: uint64, local_id: uint64, offset: int64, length: int64, nodes: list<item: uint32, nullable>>>, nullable`; got != want {
		t.Errorf("schema %s\nwant %s", got, want)
	}
	for _, samples := range batches {
		if !reader.Next() {
			t.Fatalf("stream ends early: %v", reader.Err())
		}
		record := reader.Record()
		if int(record.NumRows()) != len(samples) {
			t.Fatalf("%d rows, want %d", record.NumRows(), len(samples))
		}
		for i, s := range samples {
			got := []string{record.Column(0).ValueStr(i), record.Column(1).ValueStr(i), record.Column(2).ValueStr(i), record.Column(9).ValueStr(i), record.Column(11).ValueStr(i)}
			want := []string{
				fmt.Sprintf("/given%d/%s", s.path, s.row.Name), string(s.row.Name), s.row.Kind.String(), s.row.Replication.String(), fmt.Sprint(s.row.ID),
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Fatalf("row %d: %q, want %q", i, got, want)
			}
		}
	}
	if reader.Next() || reader.Err() != nil {
		t.Errorf("stream does not end: %v", reader.Err())
	}
}

func TestIPCStreamOfChosenColumns(t *testing.T) {
	for _, c := range columnSets {
		var out bytes.Buffer
		w := NewIPCWriter(&out, c)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		reader, err := ipc.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		want := c.Names()
		want[0] = "path"
		var got []string
		for _, f := range reader.Schema().Fields() {
			got = append(got, f.Name)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || reader.Next() {
			t.Errorf("columns %v, want %v and no rows", got, want)
		}
		reader.Release()
	}
}

func TestIPCWriterReportsFaults(t *testing.T) {
	b, err := Decode(frameOf(AllColumns, oneOfEach()), AllColumns)
	if err != nil {
		t.Fatal(err)
	}
	path := func(int) string { return "/p" }
	if err := NewIPCWriter(&bytes.Buffer{}, DefaultColumns).Write(b, path); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("batch of other columns: %v, want ErrInvalid", err)
	}
	var whole bytes.Buffer
	w := NewIPCWriter(&whole, AllColumns)
	if err := errors.Join(w.Write(b, path), w.Close()); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	for room := 0; room < whole.Len(); room += 61 {
		w := NewIPCWriter(&limitedWriter{room: room, err: full}, AllColumns)
		if err := errors.Join(w.Write(b, path), w.Close()); !errors.Is(err, full) {
			t.Fatalf("writer with room for %d bytes: %v, want the writer's error", room, err)
		}
	}
}

// limitedWriter fails once its room is used up.
type limitedWriter struct {
	room int
	err  error
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return 0, w.err
	}
	w.room -= len(p)
	return len(p), nil
}

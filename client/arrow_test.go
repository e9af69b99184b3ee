package client_test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// paths reads an Arrow stream as a reader that knows nothing of Muster.
func pathsOf(t *testing.T, stream []byte) (paths []string) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(stream))
	must(t, err)
	defer r.Release()
	for r.Next() {
		record := r.Record()
		at := record.Schema().FieldIndices("path")
		if len(at) != 1 || at[0] != 0 || len(record.Schema().FieldIndices("path_index")) != 0 {
			t.Fatalf("schema %v", record.Schema())
		}
		column := record.Column(0).(*array.String)
		kinds := record.Column(record.Schema().FieldIndices("kind")[0]).(*array.String)
		for i := range int(record.NumRows()) {
			paths = append(paths, column.Value(i)+" "+kinds.Value(i))
		}
	}
	must(t, r.Err())
	return paths
}

func TestIPCWritesStandardArrowWithThePath(t *testing.T) {
	c := connect(t)
	plant(t, c, "/a/x", "/a/y/", "/b/", "/b/z -> x", "/f #3")
	plant(t, c, names("/many/", 300)...)
	dirs := slices.Values([]string{"/a//", "/b", "/no", "/f", "/many"})
	for _, columns := range []rows.Columns{0, rows.AllColumns, rows.ColKind | rows.ColMTime} {
		var want, each []string
		var whole bytes.Buffer
		w := client.NewIPCWriter(&whole, columns)
		for b, err := range c.List(t.Context(), dirs, client.ListOptions{Columns: columns}) {
			must(t, err)
			for i := range b.Len() {
				want = append(want, b.Path(i)+" "+b.Kind(i).String())
			}
			must(t, w.Write(b))
			var one bytes.Buffer
			must(t, b.IPC(&one))
			each = append(each, pathsOf(t, one.Bytes())...)
		}
		must(t, w.Close())
		same(t, each, want)
		same(t, pathsOf(t, whole.Bytes()), want)
		if len(want) != 304 {
			t.Errorf("%d rows", len(want))
		}
	}
}

func TestRecordHasTheRowsOfTheBatch(t *testing.T) {
	c := connect(t)
	plant(t, c, names("/d/", 100)...)
	for b, err := range c.List(t.Context(), slices.Values([]string{"/d", "/no"}), client.ListOptions{}) {
		must(t, err)
		record := b.Record()
		if int(record.NumRows()) != b.Len() {
			t.Errorf("%d rows, record has %d", b.Len(), record.NumRows())
		}
		column := record.Column(record.Schema().FieldIndices("name")[0]).(*array.String)
		for i := range b.Len() {
			if column.Value(i) != b.Name(i) {
				t.Errorf("row %d is %q, record has %q", i, b.Name(i), column.Value(i))
			}
		}
		record.Release()
	}
}

// wantReleased wants that a released array, and all below it, has no owner left: Arrow
// lets go of what an array holds with its last reference.
func wantReleased(t *testing.T, name string, data arrow.ArrayData, below []arrow.ArrayData) {
	t.Helper()
	if data.Buffers() != nil || data.Children() != nil {
		t.Errorf("%s is still held", name)
	}
	for _, child := range below {
		if child.Buffers() != nil {
			t.Errorf("an array in %s is still held", name)
		}
	}
}

func descendants(data arrow.ArrayData) (all []arrow.ArrayData) {
	for _, child := range data.Children() {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

func TestReleasedRecordsAndWrittenStreamsHoldNothing(t *testing.T) {
	before := memory.DefaultAllocator
	checked := memory.NewCheckedAllocator(before)
	memory.DefaultAllocator = checked // what a writer allocates from
	t.Cleanup(func() { memory.DefaultAllocator = before })
	c := connect(t)
	plant(t, c, names("/d/", 100)...)
	for b, err := range c.List(t.Context(), slices.Values([]string{"/d"}), client.ListOptions{Columns: rows.AllColumns}) {
		must(t, err)
		must(t, b.IPC(io.Discard))
		checked.AssertSize(t, 0)

		record := b.Record()
		record.Retain()
		record.Release()
		var data []arrow.ArrayData
		var below [][]arrow.ArrayData
		for _, column := range record.Columns() {
			if column.Len() != b.Len() {
				t.Fatalf("a retained record has %d rows, want %d", column.Len(), b.Len())
			}
			data = append(data, column.Data())
			below = append(below, descendants(column.Data()))
		}
		record.Release()
		for i, field := range record.Schema().Fields() {
			wantReleased(t, field.Name, data[i], below[i])
		}
		checked.AssertSize(t, 0)
	}
}

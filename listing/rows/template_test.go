package rows

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"
)

// manyColumnSets calls f for one in eleven of the sets that a client can choose, and
// for the widest.
func manyColumnSets(f func(c Columns)) {
	for c := requiredColumns; c < AllColumns; c += 11 * (requiredColumns + 1) {
		f(c)
	}
	f(AllColumns)
}

func TestTemplatesAreWhatArrowsWriterMakes(t *testing.T) {
	samples := randomRows(rand.New(rand.NewPCG(8, 8)), 3)
	sets := 0
	manyColumnSets(func(c Columns) {
		tmpl := newTemplate(c)
		if len(tmpl.head) > maxHead {
			t.Fatalf("columns %#x: head of %d bytes, at most %d", uint32(c), len(tmpl.head), maxHead)
		}
		var l lengths
		l.setCounts(counts{rows: 1})
		head := bytes.Clone(tmpl.head)
		tmpl.patch(head, counts{rows: 1}, &l)
		if !bytes.Equal(head, tmpl.head) {
			t.Fatalf("columns %#x: filling in what Arrow's writer was given changes its bytes", uint32(c))
		}
		if sets++; sets%10 == 0 {
			record := arrowRecord(memory.DefaultAllocator, c, samples)
			defer record.Release()
			stream := arrowStream(t, Schema(c), record)
			if got := frameOf(c, samples)[headerBytes:]; !bytes.HasSuffix(stream[:len(stream)-endOfStream], got) {
				t.Fatalf("columns %#x: payload differs from that of Arrow's writer", uint32(c))
			}
		}
	})
}

func TestTemplateCacheIsBounded(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				c := Columns(g + 4*i).Normal()
				if tmpl := templateOf(c); !tmpl.schema.Equal(newTemplate(c).schema) {
					t.Errorf("columns %#x: template of another set", uint32(c))
				}
			}
		})
	}
	wg.Wait()
	if n := len(*templates.byCols.Load()); n > maxTemplates {
		t.Errorf("%d templates in the cache, at most %d", n, maxTemplates)
	}
	if first := templateOf(AllColumns); first != templateOf(AllColumns) {
		t.Error("a template in use is made again")
	}
}

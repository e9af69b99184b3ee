package rows

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// template is what all messages of one column set share. It never changes.
//
// The metadata of a record batch has the same bytes and the same size for every batch
// of one schema with at least one row, but for a few 64-bit integers: the length of
// the body, the number of rows, and two integers for each field node and buffer. So
// the writer fills them into a copy, and the reader fills them into another one and
// compares: nobody ever parses a flatbuffer that came over the wire.
type template struct {
	schema  *arrow.Schema
	head    []byte // continuation mark, length, metadata, padding
	nodes   []level
	buffers []slot

	// Where the head has what varies, beside bodyAt, rowsAt and buffersAt.
	nodesAt  int
	textAt   [len(textSlots)]int // length of the buffer; 0: no such column
	blocksAt int                 // number of blocks; 0: no such column
	listsAt  int                 // field node of the lists of nodes, which that of the nodes follows; 0: no such column

	// What Size adds up.
	frameBytes, rowBytes, blockBytes int
}

// The head of a message: 0xFFFFFFFF and the length of what follows up to the body, then
// the flatbuffer. It has 64-bit integers at these places, whatever the columns; the
// field nodes follow the buffers, after 8 bytes.
const (
	prefixBytes = 8
	bodyAt      = 32 // length of the body
	rowsAt      = 72 // number of rows
	buffersAt   = 88 // for each buffer: offset, length
	bufferBytes = 16
	nodeBytes   = 16 // values, nulls
)

// maxHead bounds the head of any column set; a test holds it to that.
const maxHead = 1200

// maxTemplates bounds the cache: clients choose the column sets.
const maxTemplates = 64

// templates caches the templates of column sets in use. Readers load the map, which
// never changes; mu serialises those that replace it.
var templates struct {
	mu     sync.Mutex
	byCols atomic.Pointer[map[Columns]*template]
}

// templateOf returns the template of a normal column set.
func templateOf(c Columns) *template {
	if m := templates.byCols.Load(); m != nil {
		if t := (*m)[c]; t != nil {
			return t
		}
	}
	t := newTemplate(c)
	templates.mu.Lock()
	defer templates.mu.Unlock()
	next := map[Columns]*template{}
	if m := templates.byCols.Load(); m != nil && len(*m) < maxTemplates {
		next = maps.Clone(*m)
	}
	next[c] = t
	templates.byCols.Store(&next)
	return t
}

func newTemplate(c Columns) *template {
	t := &template{}
	var fields []arrow.Field
	for i := range columnTable {
		if col := &columnTable[i]; c.Has(1 << i) {
			fields = append(fields, col.field())
			t.nodes = append(t.nodes, col.nodes...)
			t.buffers = append(t.buffers, col.buffers...)
		}
	}
	t.schema = arrow.NewSchema(fields, nil)
	t.head = messageHead(t.schema)
	t.locate()
	t.measure()
	return t
}

// messageHead has Arrow's writer encode one row of empty values and returns the
// message without its body.
func messageHead(schema *arrow.Schema) []byte {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, f := range b.Fields() {
		f.AppendEmptyValue()
	}
	record := b.NewRecord()
	defer record.Release()

	var p headWriter
	w := ipc.NewWriterWithPayloadWriter(&p, ipc.WithSchema(schema))
	if err := w.Write(record); err != nil {
		panic(fmt.Sprintf("rows: arrow refuses a schema of ours: %v", err)) // a fault of the build, which tests find
	}
	return p.head
}

// headWriter keeps the metadata of the last payload it is given.
type headWriter struct{ head []byte }

func (*headWriter) Start() error { return nil }
func (*headWriter) Close() error { return nil }

func (w *headWriter) WritePayload(p ipc.Payload) error {
	meta := p.Meta()
	defer meta.Release()
	n := padded(meta.Len())
	w.head = make([]byte, prefixBytes+n)
	binary.LittleEndian.PutUint32(w.head, 0xFFFFFFFF)
	binary.LittleEndian.PutUint32(w.head[4:], uint32(n))
	copy(w.head[prefixBytes:], meta.Bytes())
	return nil
}

// locate finds the places of the head that depend on the columns.
func (t *template) locate() {
	t.nodesAt = buffersAt + bufferBytes*len(t.buffers) + 8
	if i := slices.Index(t.nodes, perBlock); i >= 0 {
		t.blocksAt = t.nodesAt + nodeBytes*i
		t.listsAt = t.nodesAt + nodeBytes*slices.Index(t.nodes, perList)
	}
	for k, s := range textSlots {
		if i := slices.Index(t.buffers, s); i >= 0 {
			t.textAt[k] = buffersAt + bufferBytes*i + 8
		}
	}
}

// measure computes what a frame costs: in all, for each row and for each block, apart
// from texts, nodes and the bits of validity. Padding counts in full.
func (t *template) measure() {
	sum := func(c counts) (n int) {
		var l lengths
		l.setCounts(c)
		for _, s := range t.buffers {
			if s != absent {
				n += l[s]
			}
		}
		return n
	}
	none := sum(counts{})
	t.frameBytes = headerBytes + len(t.head) + none + 8*len(t.buffers)
	t.rowBytes = sum(counts{rows: 1}) - none
	t.blockBytes = sum(counts{blocks: 1}) - none
}

// patch fills in what varies and returns the length of the body.
func (t *template) patch(head []byte, n counts, l *lengths) int {
	le := binary.LittleEndian
	at := t.nodesAt
	for _, node := range t.nodes {
		count, nulls := node.counts(n)
		le.PutUint64(head[at:], uint64(count))
		le.PutUint64(head[at+8:], uint64(nulls))
		at += nodeBytes
	}
	at, body := buffersAt, 0
	for _, s := range t.buffers {
		size := 0
		if s != absent {
			size = l[s]
		}
		le.PutUint64(head[at:], uint64(body))
		le.PutUint64(head[at+8:], uint64(size))
		at += bufferBytes
		body += padded(size)
	}
	le.PutUint64(head[rowsAt:], uint64(n.rows))
	le.PutUint64(head[bodyAt:], uint64(body))
	return body
}

// padded rounds n up to a multiple of 8, the alignment of everything in a frame.
func padded(n int) int { return (n + 7) &^ 7 }

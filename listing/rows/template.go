package rows

import (
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
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

	// Where the head has what varies.
	bodyAt, rowsAt, nodesAt, buffersAt int
	textAt                             [len(textSlots)]int // length of the buffer; 0: no such column
	blocksAt                           int                 // number of blocks; 0: no such column

	// What Size adds up.
	frameBytes, rowBytes, blockBytes int
}

// The head of a message: 0xFFFFFFFF, the length of what follows up to the body.
const prefixBytes = 8

// maxHead bounds the head of any column set; a test holds it to that.
const maxHead = 1536

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
		panic(fmt.Sprintf("rows: arrow refuses a schema of ours: %v", err)) // a fault of the build: every column set is tested
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

// locate finds the places that patch fills in. The numbers are the fields' places in
// the tables Message and RecordBatch of Arrow's Message.fbs.
func (t *template) locate() {
	const (
		messageHeader, messageBodyLength         = 8, 10
		batchLength, batchNodes, batchBuffers    = 4, 6, 8
		nodeBytes, bufferBytes, lengthInsideBuff = 16, 16, 8
	)
	meta := t.head[prefixBytes:]
	message := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	var batch flatbuffers.Table
	message.Union(&batch, flatbuffers.UOffsetT(message.Offset(messageHeader)))
	at := func(table *flatbuffers.Table, field flatbuffers.VOffsetT) flatbuffers.UOffsetT {
		return flatbuffers.UOffsetT(table.Offset(field))
	}
	t.bodyAt = prefixBytes + int(message.Pos+at(&message, messageBodyLength))
	t.rowsAt = prefixBytes + int(batch.Pos+at(&batch, batchLength))
	t.nodesAt = prefixBytes + int(batch.Vector(at(&batch, batchNodes)))
	t.buffersAt = prefixBytes + int(batch.Vector(at(&batch, batchBuffers)))

	for i, node := range t.nodes {
		if node == perBlock {
			t.blocksAt = t.nodesAt + nodeBytes*i
			break
		}
	}
	for i, s := range t.buffers {
		for k, text := range textSlots {
			if s == text {
				t.textAt[k] = t.buffersAt + bufferBytes*i + lengthInsideBuff
			}
		}
	}
}

// measure computes what a frame costs: in all, for each row and for each block, apart
// from texts and the bits of validity. Padding counts in full.
func (t *template) measure() {
	sum := func(rows, blocks int) (n int) {
		var l lengths
		l.setCounts(rows, blocks)
		for _, s := range t.buffers {
			if s != absent && s != slotNodesValidity {
				n += l[s]
			}
		}
		return n
	}
	none := sum(0, 0)
	t.frameBytes = headerBytes + len(t.head) + none + 8*len(t.buffers) + 64
	t.rowBytes = sum(1, 0) - none
	t.blockBytes = sum(0, 1) - none
}

// patch fills in what varies and returns the length of the body.
func (t *template) patch(head []byte, rows, blocks int, l *lengths) int {
	le := binary.LittleEndian
	at := t.nodesAt
	for _, node := range t.nodes {
		count, nulls := node.counts(rows, blocks)
		le.PutUint64(head[at:], uint64(count))
		le.PutUint64(head[at+8:], uint64(nulls))
		at += 16
	}
	at, body := t.buffersAt, 0
	for _, s := range t.buffers {
		n := 0
		if s != absent {
			n = l[s]
		}
		le.PutUint64(head[at:], uint64(body))
		le.PutUint64(head[at+8:], uint64(n))
		at += 16
		body += padded(n)
	}
	le.PutUint64(head[t.rowsAt:], uint64(rows))
	le.PutUint64(head[t.bodyAt:], uint64(body))
	return body
}

// padded rounds n up to a multiple of 8, the alignment of everything in a frame.
func padded(n int) int { return (n + 7) &^ 7 }

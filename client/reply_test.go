package client

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// generated is what the generated code makes of a reply.
func generated(b []byte) (*reply, error) {
	var m pb.ListReply
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	r := &reply{ListReply: rpc.ListReply{
		Frame: m.Frame, Cursor: m.Cursor, Done: m.Done, TotalRows: m.TotalRows,
		TotalOutcomes: m.TotalOutcomes, Txid: m.Txid, CursorIndex: m.CursorIndex, FrameSize: m.FrameSize,
	}}
	for _, o := range m.Outcomes {
		r.outcomes = append(r.outcomes, Outcome{Outcome: muster.Outcome{
			Index: o.Index, Code: muster.CodeOf(rpc.FromStatus(o.Code, "")), Message: o.Message,
			Rows: o.Rows, ID: o.InodeId, ChangedAt: o.ChangedAt, Txid: o.Txid,
		}})
	}
	for _, m := range m.Nodes {
		n, err := rpc.NodeFromPB(m)
		if err != nil {
			return nil, err
		}
		r.nodes = append(r.nodes, &n)
	}
	return r, nil
}

func sampleReply(t testing.TB) []byte {
	b, err := proto.Marshal(&pb.ListReply{
		Frame: []byte("rows"), Cursor: []byte{1, 0, 2}, Done: true, TotalRows: 1 << 40, TotalOutcomes: 2, Txid: 9, CursorIndex: 8, FrameSize: 70_000,
		Outcomes: []*pb.Outcome{
			{Index: 3, Rows: 4, InodeId: 5, ChangedAt: 6, Txid: 7},
			{Index: 4, Code: uint32(muster.ErrNotFound), Message: "no /x"},
			{Index: 5, Code: 1 << 30},
			{},
		},
		Nodes: []*pb.Node{
			{Number: 3, Id: "n3", Host: "host3", Address: "10.0.0.3", Port: 9866, HttpPort: 9864, Rack: "/r1", State: uint32(muster.Stale)},
			{Number: 0, Id: "n0", Host: "host0", Port: 1, Rack: "/r0"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzReplyIsReadAsTheGeneratedCodeReadsIt(f *testing.F) {
	f.Add(sampleReply(f))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var got reply
		err := got.take(b)
		want, wantErr := generated(b)
		if errors.Is(wantErr, muster.ErrCorrupt) && err == nil {
			t.Fatalf("taken, though %v", wantErr)
		}
		if wantErr != nil {
			return // ours is laxer about UTF-8 and wire types; rows.Decode and the ledger check what counts
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		if !same(&got, want) {
			t.Fatalf("got %+v, want %+v", got, *want)
		}
	})
}

// take receives and decodes a reply.
func (r *reply) take(b []byte) error {
	if err := (replyEncoding{}).Unmarshal(b, r); err != nil {
		return err
	}
	return r.decode(math.MaxInt, new(nodeRecords))
}

// same compares replies; no bytes and nil are the same.
func same(a, b *reply) bool {
	return string(a.Frame) == string(b.Frame) && string(a.Cursor) == string(b.Cursor) &&
		a.Done == b.Done && a.TotalRows == b.TotalRows && a.TotalOutcomes == b.TotalOutcomes &&
		a.Txid == b.Txid && a.CursorIndex == b.CursorIndex && a.FrameSize == b.FrameSize &&
		(len(a.outcomes)+len(b.outcomes) == 0 || reflect.DeepEqual(a.outcomes, b.outcomes)) &&
		slices.EqualFunc(a.nodes, b.nodes, func(m, n *muster.Node) bool { return *m == *n })
}

func TestReplyDoesNotKeepTheConnectionsBuffer(t *testing.T) {
	b := sampleReply(t)
	var r reply
	if err := r.take(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xff
	}
	want, _ := generated(sampleReply(t))
	if !same(&r, want) {
		t.Fatalf("the reply changed with the buffer: %+v", r)
	}
}

// While a reply is taken from the connection's buffer nothing else is received: so it is
// copied, and looked at later.
func TestReceivingAReplyIsNoMoreThanACopy(t *testing.T) {
	damaged := append(sampleReply(t), 0x12, 0xff)
	var r reply
	if n := testing.AllocsPerRun(10, func() {
		if err := (replyEncoding{}).Unmarshal(damaged, &r); err != nil {
			t.Fatal(err)
		}
	}); n > 1 { // the frame
		t.Errorf("%v allocations", n)
	}
	if err := r.decode(math.MaxInt, new(nodeRecords)); !errors.Is(err, muster.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestReplyAllocatesNothingForEachOutcome(t *testing.T) {
	m := &pb.ListReply{Frame: make([]byte, 1000)}
	for i := range 1000 {
		m.Outcomes = append(m.Outcomes, &pb.Outcome{Index: uint64(i), Rows: 1, InodeId: 77, Txid: 5})
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if n := testing.AllocsPerRun(10, func() { _ = r.take(b) }); n > 6 {
		t.Fatalf("%v allocations for 1,000 outcomes", n)
	}
}

func TestOutcomesOfNoPathTakeNoMemory(t *testing.T) {
	const paths, bound = 1000, 1 << 20 // the outcomes would take 200 MB
	message := func(n int) []byte { return bytes.Repeat([]byte{0x12, 0}, n) }
	for n, want := range map[int]error{paths: nil, paths + 1: muster.ErrCorrupt, rpc.MaxMessage / 2: muster.ErrCorrupt} {
		r := reply{fields: message(n)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := r.decode(paths, new(nodeRecords))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, want) {
			t.Errorf("%d outcomes of %d paths: %v", n, paths, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; err != nil && took > bound {
			t.Errorf("%d outcomes of %d paths took %d bytes", n, paths, took)
		}
	}
}

func TestABatchTakesTheMemoryThatItsRowsLieIn(t *testing.T) {
	for name, c := range map[string]struct {
		reply rpc.ListReply
		takes bool
	}{
		"rows":            {rpc.ListReply{Frame: []byte("rows")}, true},
		"compressed rows": {rpc.ListReply{Frame: []byte("rows"), FrameSize: 9}, false},
		"no rows":         {rpc.ListReply{}, false},
	} {
		memory := new(rpc.Memory)
		r := reply{ListReply: c.reply, memory: memory}
		if given := r.give(); (given == memory) != c.takes || (r.memory == nil) != c.takes {
			t.Errorf("%s: gave %p of %p and kept %p", name, given, memory, r.memory)
		}
	}
}

package rpc

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func sampleReplies() []ListReply {
	return []ListReply{
		{},
		{Frame: []byte("rows"), Outcomes: []muster.Outcome{{}}, Txid: 1},
		{
			Frame: make([]byte, 70_000), FrameSize: 1 << 31, Cursor: []byte{1, 0, 2}, CursorIndex: 127, Done: true,
			TotalRows: math.MaxUint64, TotalOutcomes: 128, Txid: 1 << 62,
			Outcomes: []muster.Outcome{
				{Index: math.MaxUint64, Rows: math.MaxUint64, ID: math.MaxUint64, ChangedAt: math.MaxUint64, Txid: math.MaxUint64, Code: muster.ErrInternal},
				{Index: 4, Code: muster.ErrNotFound, Message: "no \"/x\""},
				{Index: 5, Code: muster.ErrNotFound, Message: string(make([]byte, 200)) + "\xff", Rows: 300},
			},
		},
		{Nodes: []muster.Node{
			{ID: "a", Host: "h", Rack: "/"},
			{
				Number: muster.MaxNodes - 1, ID: strings.Repeat("i", muster.MaxNodeIDBytes), Host: strings.Repeat("h", muster.MaxHostBytes), Address: "::1",
				Port: math.MaxUint16, HTTPPort: 1, Rack: "/" + strings.Repeat("r", muster.MaxRackBytes-1), State: muster.Dead,
			},
		}},
	}
}

func replyToPB(r *ListReply) *pb.ListReply {
	m := &pb.ListReply{
		Frame: r.Frame, FrameSize: r.FrameSize, Cursor: r.Cursor, CursorIndex: r.CursorIndex, Done: r.Done,
		TotalRows: r.TotalRows, TotalOutcomes: r.TotalOutcomes, Txid: r.Txid,
	}
	for i := range r.Nodes {
		m.Nodes = append(m.Nodes, NodeToPB(&r.Nodes[i]))
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		m.Outcomes = append(m.Outcomes, &pb.Outcome{
			Index: o.Index, Code: uint32(o.Code), Message: strings.ToValidUTF8(o.Message, "\uFFFD"),
			Rows: o.Rows, InodeId: o.ID, ChangedAt: o.ChangedAt, Txid: o.Txid,
		})
	}
	return m
}

func TestRepliesAreWrittenAsTheGeneratedCodeWritesThem(t *testing.T) {
	for i, r := range sampleReplies() {
		want := marshalled(t, replyToPB(&r))
		if got := r.Append([]byte("before")); !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("reply %d: got\n% x\nwant\n% x", i, got, want)
		}
	}
}

func FuzzOutcomesAreWrittenAsTheGeneratedCodeWritesThem(f *testing.F) {
	f.Add(uint64(1), uint8(3), "text", uint64(127), uint64(128), uint64(math.MaxUint64), uint64(0))
	f.Add(uint64(0), uint8(0), "\xff", uint64(0), uint64(0), uint64(0), uint64(1<<35))
	f.Fuzz(func(t *testing.T, index uint64, code uint8, text string, rows, id, changed, txid uint64) {
		r := ListReply{Outcomes: []muster.Outcome{{
			Index: index, Code: muster.Code(code), Message: text, Rows: rows, ID: id, ChangedAt: changed, Txid: txid,
		}, {Index: txid}}}
		if got, want := r.Append(nil), marshalled(t, replyToPB(&r)); !bytes.Equal(got, want) {
			t.Fatalf("got\n% x\nwant\n% x", got, want)
		}
	})
}

func FuzzListRepliesAreReadAsTheGeneratedCodeReadsThem(f *testing.F) {
	for _, r := range sampleReplies() {
		r.Frame = r.Frame[:min(len(r.Frame), 200)]
		f.Add(r.Append(nil))
	}
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{0x80, 0x01, 0x08, 0x05, 0x12, 0x02, 0x0f, 0x03}) // a long tag; a field of an unknown type
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.ListReply
		generated := proto.Unmarshal(b, &m)
		got, err := readReply(b)
		if err != nil {
			wantCode(t, err, muster.ErrCorrupt)
			if generated == nil && !slices.ContainsFunc(m.Nodes, func(n *pb.Node) bool { _, err := NodeFromPB(n); return err != nil }) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if n := CountOutcomes(b); n != len(got.Outcomes) {
			t.Fatalf("%d outcomes were counted of %d", n, len(got.Outcomes))
		}
		if generated != nil {
			return // ours is laxer about UTF-8
		}
		want := ListReply{
			Frame: m.Frame, FrameSize: m.FrameSize, Cursor: m.Cursor, CursorIndex: m.CursorIndex, Done: m.Done,
			TotalRows: m.TotalRows, TotalOutcomes: m.TotalOutcomes, Txid: m.Txid,
		}
		for _, n := range m.Nodes {
			node, err := NodeFromPB(n)
			if err != nil {
				t.Fatalf("%v was read: %v", n, err)
			}
			want.Nodes = append(want.Nodes, node)
		}
		for _, o := range m.Outcomes {
			want.Outcomes = append(want.Outcomes, muster.Outcome{
				Index: o.Index, Code: knownCode(o.Code), Message: o.Message, Rows: o.Rows, ID: o.InodeId, ChangedAt: o.ChangedAt, Txid: o.Txid,
			})
		}
		if !bytes.Equal(got.Frame, want.Frame) || !bytes.Equal(got.Cursor, want.Cursor) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		got.Frame, want.Frame, got.Cursor, want.Cursor = nil, nil, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// readReply reads a reply as a client does.
func readReply(b []byte) (ListReply, error) {
	var r ListReply
	frame, rest := CutFrame(b)
	var outcomes []muster.Outcome
	err := r.Unmarshal(rest, func(b []byte) error {
		var o muster.Outcome
		err := UnmarshalOutcome(b, &o)
		outcomes = append(outcomes, o)
		return err
	}, nil)
	if r.Frame == nil {
		r.Frame = frame
	}
	r.Outcomes = outcomes
	return r, err
}

func TestRequestsAreWrittenAsTheGeneratedCodeWritesThem(t *testing.T) {
	for i, r := range []ListRequest{
		{},
		{HasOptions: true, Count: 127, Last: true},
		{
			HasOptions: true, Cursor: []byte("c"), Paths: make([]byte, 300), Count: 128,
			Options: ListOptions{
				Limit: math.MaxInt32, Columns: math.MaxUint32, Hidden: muster.HiddenSpark, Own: true,
				Consistency: muster.ConsistencySnapshot, Compress: true,
			},
		},
		{HasOptions: true, Options: ListOptions{Limit: -1}},
		{HasOptions: true, Options: ListOptions{
			Locations: muster.LocationsMust, LocationLimit: math.MaxInt32, Sorted: true, Follow: true, Reader: strings.Repeat("r", muster.MaxRackBytes),
		}},
	} {
		m := &pb.ListRequest{Cursor: r.Cursor, Paths: r.Paths, Count: r.Count, Last: r.Last}
		if o := r.Options; r.HasOptions {
			m.Options = &pb.ListOptions{Limit: int32(o.Limit), Columns: o.Columns, Hidden: pb.Hidden(o.Hidden), Own: o.Own, Consistency: pb.Consistency(o.Consistency),
				Locations: pb.WithLocations(o.Locations), LocationLimit: uint32(o.LocationLimit), Sorted: o.Sorted, Follow: o.Follow, Reader: o.Reader}
			if o.Compress {
				m.Options.Compression = pb.Compression_COMPRESSION_ZSTD
			}
		}
		want := marshalled(t, m)
		if got := r.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("request %d: got\n% x\nwant\n% x", i, got, want)
		}
		var back ListRequest
		if err := back.Unmarshal(want); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("request %d: got %+v, %v, want %+v", i, back, err, r)
		}
	}
}

// fuzzListRequest wants a request to be read as the generated code reads it.
func fuzzListRequest(t *testing.T, b []byte, m *pb.ListRequest, generated error) {
	t.Helper()
	var r ListRequest
	var err error
	wantAllocated(t, 8<<10, func() { err = r.Unmarshal(b) })
	o, optionsErr := ListOptionsFromPB(m.Options)
	if err != nil {
		wantCode(t, err, muster.ErrInvalid)
		if generated == nil && optionsErr == nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	if generated != nil {
		return // ours is laxer about fields that it does not know
	}
	if optionsErr != nil {
		t.Fatalf("%+v was read where the generated code says: %v", r, optionsErr)
	}
	if r.Options != o || r.HasOptions != (m.Options != nil) || !bytes.Equal(r.Cursor, m.Cursor) || !bytes.Equal(r.Paths, m.Paths) ||
		r.Count != m.Count || r.Last != m.Last {
		t.Fatalf("%+v was read of %v", r, m)
	}
}

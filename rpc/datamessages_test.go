package rpc

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func sampleWrites() []WriteRequest {
	return []WriteRequest{
		{},
		{Block: muster.BlockID{Container: 1, LocalID: 300}, Token: []byte("token"), File: 1 << 40},
		{Block: muster.BlockID{LocalID: math.MaxUint64}, Data: []byte("x"), Commit: true},
		{Data: bytes.Repeat([]byte("data"), 1000), Checksums: []byte("sums"), Offset: math.MaxInt64, Sync: true},
		{Offset: -1, File: math.MaxUint64, Sync: true, Commit: true},
	}
}

func writeToPB(r *WriteRequest) *pb.WriteRequest {
	m := &pb.WriteRequest{Data: r.Data, Checksums: r.Checksums, Offset: r.Offset, Token: r.Token, File: r.File, Sync: r.Sync, Commit: r.Commit}
	if r.Block != (muster.BlockID{}) {
		m.Block = &pb.BlockID{Container: r.Block.Container, LocalId: r.Block.LocalID}
	}
	return m
}

func readToPB(r *ReadRequest) *pb.ReadRequest {
	return &pb.ReadRequest{Container: r.Block.Container, LocalId: r.Block.LocalID, Token: r.Token, Offset: r.Offset, Length: r.Length}
}

func TestDataMessagesAreWrittenAsTheGeneratedCodeWritesThem(t *testing.T) {
	same := func(got []byte, m proto.Message) {
		t.Helper()
		if want := append([]byte("before"), marshalled(t, m)...); !bytes.Equal(got, want) {
			t.Errorf("got\n% x\nwant\n% x", got, want)
		}
	}
	for _, w := range sampleWrites() {
		same(w.Append([]byte("before")), writeToPB(&w))
		same(append(append(appendDataHead([]byte("before"), w.Data), w.Data...), w.appendRest(nil)...), writeToPB(&w))
		reply := ReadReply{Data: w.Data, Checksums: w.Checksums, Offset: w.Offset}
		same(reply.Append([]byte("before")), &pb.ReadReply{Data: w.Data, Checksums: w.Checksums, Offset: w.Offset})
		read := ReadRequest{Block: w.Block, Token: w.Token, Offset: w.Offset, Length: int64(w.File)}
		same(read.Append([]byte("before")), readToPB(&read))
	}
}

// Whatever comes as a message that carries data is read as the generated code reads it.
func FuzzDataMessagesAreReadAsTheGeneratedCodeReadsThem(f *testing.F) {
	for _, w := range sampleWrites() {
		f.Add(w.Append(nil))
		f.Add((&ReadRequest{Block: w.Block, Token: w.Token, Offset: w.Offset, Length: 7}).Append(nil))
	}
	f.Add([]byte{0x22, 0x02, 0x08, 0x05, 0x22, 0x04, 0x10, 0x07, 0x0f, 0x03}) // a block in two pieces
	f.Add([]byte{0x80, 0x01, 0x08, 0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var write WriteRequest
		var writePB pb.WriteRequest
		sameResult(t, write.Unmarshal(b), proto.Unmarshal(b, &writePB), muster.ErrInvalid, func() (proto.Message, proto.Message) {
			writePB.ProtoReflect().SetUnknown(nil)
			if id := writePB.Block; id != nil {
				if id.ProtoReflect().SetUnknown(nil); proto.Equal(id, &pb.BlockID{}) {
					writePB.Block = nil // as good as none
				}
			}
			return writeToPB(&write), &writePB
		})
		var read ReadRequest
		var readPB pb.ReadRequest
		sameResult(t, read.Unmarshal(b), proto.Unmarshal(b, &readPB), muster.ErrInvalid, func() (proto.Message, proto.Message) {
			readPB.ProtoReflect().SetUnknown(nil)
			return readToPB(&read), &readPB
		})
		var reply ReadReply
		var replyPB pb.ReadReply
		sameResult(t, reply.Unmarshal(b), proto.Unmarshal(b, &replyPB), muster.ErrCorrupt, func() (proto.Message, proto.Message) {
			replyPB.ProtoReflect().SetUnknown(nil)
			return &pb.ReadReply{Data: reply.Data, Checksums: reply.Checksums, Offset: reply.Offset}, &replyPB
		})
	})
}

func sameResult(t *testing.T, err, generated error, code muster.Code, messages func() (got, want proto.Message)) {
	t.Helper()
	if (err == nil) != (generated == nil) {
		t.Fatalf("%v, the generated code: %v", err, generated)
	}
	if err != nil {
		if !errors.Is(err, code) {
			t.Fatalf("%v, want %v", err, code)
		}
		return
	}
	if got, want := messages(); !proto.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

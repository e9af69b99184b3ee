package bench

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// BenchmarkCall measures single calls over loopback: one that does nothing, a status, and
// the iterator's page of a directory with one file.
//
//	go test -run '^$' -bench Call -benchtime 2s -count 3 ./bench
func BenchmarkCall(b *testing.B) {
	c := startServer(b)
	table := Table{Root: "/t", Partitions: 100, Files: 1}
	fill(b, c, table)
	directory := []string{table.Partition(0)}
	for _, call := range []struct {
		name string
		make func(context.Context) error
	}{
		{"empty", func(ctx context.Context) error { _, err := c.Capabilities(ctx); return err }},
		{"stat", func(ctx context.Context) error { _, err := c.Stat(ctx, directory[0]); return err }},
		{"page", func(ctx context.Context) error {
			_, err := c.Page(ctx, directory, nil, client.ListOptions{})
			return err
		}},
	} {
		b.Run("call="+call.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call.make(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReplyOfOneRow measures what the iterator's reply costs both ends beside the call: the
// row as an Arrow frame, as the iterator has it, and as a protobuf message with the same columns
// in the place of the frame. What the second saves is to be held against BenchmarkCall's page.
//
//	go test -run '^$' -bench ReplyOfOneRow -count 5 ./bench
func BenchmarkReplyOfOneRow(b *testing.B) {
	row := muster.Row{
		Name: []byte("part-00000-01234567-89ab-cdef-0123-456789abcdef-c000.snappy.parquet"), Kind: muster.File, Length: 64 << 20, MTime: 1_672_531_200_000, ATime: 1_672_531_200_000,
		Mode: 0o644, Owner: []byte(tableOwner), Group: []byte(tableGroup), Replication: muster.Replicated(3), BlockSize: blockSize, ID: 4711,
	}
	b.Run("form=arrow", func(b *testing.B) {
		builder := rows.NewBuilder(rows.DefaultColumns)
		benchmarkReply(b, func(dst []byte) []byte {
			builder.Reset()
			builder.Append(0, &row)
			return builder.AppendFrame(dst)
		}, func(frame []byte) bool {
			batch, err := rows.Decode(frame, rows.DefaultColumns)
			return err == nil && batch.Length(0) == row.Length && batch.Name(0) == string(row.Name)
		})
	})
	b.Run("form=protobuf", func(b *testing.B) {
		benchmarkReply(b, func(dst []byte) []byte {
			dst, err := proto.MarshalOptions{}.MarshalAppend(dst, &pb.EntryReply{
				InodeId: row.ID, Kind: uint32(row.Kind), Name: row.Name, Length: row.Length, Mtime: row.MTime, Atime: row.ATime, Mode: uint32(row.Mode),
				Owner: string(row.Owner), Group: string(row.Group), Replication: uint32(row.Replication), BlockSize: row.BlockSize,
			})
			if err != nil {
				b.Fatal(err)
			}
			return dst
		}, func(text []byte) bool {
			var got pb.EntryReply
			return proto.Unmarshal(text, &got) == nil && got.Length == row.Length && string(got.Name) == string(row.Name)
		})
	})
}

// benchmarkReply encodes and decodes replies around what encode appends. decode says whether that
// is the row.
func benchmarkReply(b *testing.B, encode func(dst []byte) []byte, decode func([]byte) bool) {
	sent := rpc.ListReply{Outcomes: []muster.Outcome{{Rows: 1, ID: 42, ChangedAt: 17, Txid: 99}}, Done: true, Txid: 99}
	var message []byte
	b.ReportAllocs()
	for b.Loop() {
		sent.Frame = encode(sent.Frame[:0])
		message = sent.Append(message[:0])
		var got rpc.ListReply
		var outcome muster.Outcome
		err := got.Unmarshal(message, func(text []byte) error { return rpc.UnmarshalOutcome(text, &outcome) }, nil)
		if err != nil || outcome.Rows != 1 || !decode(got.Frame) {
			b.Fatal("another reply came", err)
		}
	}
	b.ReportMetric(float64(len(message)), "wireB/op")
}

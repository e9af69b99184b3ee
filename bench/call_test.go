package bench

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
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

// BenchmarkReplyOfOneRow measures what the iterator's reply costs both ends, as an Arrow frame
// and as a protobuf message with the same columns: the iterator has the cheaper one.
//
//	go test -run '^$' -bench ReplyOfOneRow -count 5 ./bench
func BenchmarkReplyOfOneRow(b *testing.B) {
	row := muster.Row{
		Name: []byte("part-00000-0123456789abcdef-c000.snappy.parquet"), Kind: muster.File, Length: 64 << 20, MTime: 1_672_531_200_000, ATime: 1_672_531_200_000,
		Mode: 0o644, Owner: []byte(tableOwner), Group: []byte(tableGroup), Replication: muster.Replicated(3), BlockSize: blockSize, ID: 4711,
	}
	envelope := &pb.ListReply{Outcomes: []*pb.Outcome{{Rows: 1, InodeId: 42, ChangedAt: 17, Txid: 99}}, Done: true, Txid: 99}
	b.Run("form=arrow", func(b *testing.B) {
		builder, bytes := rows.NewBuilder(rows.DefaultColumns), 0
		b.ReportAllocs()
		for b.Loop() {
			builder.Reset()
			builder.Append(0, &row)
			envelope.Frame = builder.AppendFrame(envelope.Frame[:0])
			var reply pb.ListReply
			bytes = exchange(b, envelope, &reply)
			batch, err := rows.Decode(reply.Frame, rows.DefaultColumns)
			if err != nil || batch.Length(0) != row.Length || batch.Name(0) != string(row.Name) {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(bytes), "wireB/op")
	})
	b.Run("form=protobuf", func(b *testing.B) {
		envelope.Frame = nil
		bytes := 0
		b.ReportAllocs()
		for b.Loop() {
			sent := &pb.EntryReply{
				InodeId: row.ID, Kind: uint32(row.Kind), Name: row.Name, Length: row.Length, Mtime: row.MTime, Atime: row.ATime, Mode: uint32(row.Mode),
				Owner: string(row.Owner), Group: string(row.Group), Replication: uint32(row.Replication), BlockSize: row.BlockSize, Txid: 99,
			}
			var reply pb.ListReply
			var got pb.EntryReply
			bytes = exchange(b, envelope, &reply) + exchange(b, sent, &got)
			if got.Length != row.Length || string(got.Name) != string(row.Name) {
				b.Fatal(&got)
			}
		}
		b.ReportMetric(float64(bytes), "wireB/op")
	})
}

// exchange encodes a message and decodes it again, and returns its size.
func exchange(b *testing.B, sent, got proto.Message) int {
	text, err := proto.Marshal(sent)
	if err == nil {
		err = proto.Unmarshal(text, got)
	}
	if err != nil {
		b.Fatal(err)
	}
	return len(text)
}

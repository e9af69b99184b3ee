package rpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcserver"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

func benchPool(b *testing.B, s *service) *Pool {
	b.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server, err := NewServer(s, pb.DRPCNamespaceDescription{}, ServerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	p := NewPool(lis.Addr().String(), PoolOptions{})
	b.Cleanup(func() {
		_ = p.Close()
		_ = server.Shutdown(context.Background())
		wg.Wait()
	})
	return p
}

// BenchmarkCall is a small call with an identity, over loopback, with and without a
// deadline.
func BenchmarkCall(b *testing.B) {
	p := benchPool(b, &service{})
	request := &pb.PathRequest{Path: []byte("/warehouse/t/day=2026-11-30")}
	for _, timeout := range []time.Duration{0, time.Minute} {
		b.Run("timeout="+timeout.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					ctx := as(context.Background(), "u")
					cancel := context.CancelFunc(func() {})
					if timeout > 0 {
						ctx, cancel = context.WithTimeout(ctx, timeout)
					}
					if _, err := client(p).Lstat(ctx, request); err != nil {
						b.Error(err)
					}
					cancel()
				}
			})
		})
	}
}

// BenchmarkBareCall is the same call by dRPC alone, one after another: what BenchmarkCall
// with -cpu 1, or BenchmarkSequentialCall, can come near to.
func BenchmarkBareCall(b *testing.B) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	mux := drpcmux.New()
	if err := pb.DRPCRegisterNamespace(mux, &service{}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = drpcserver.New(mux).Serve(ctx, lis) })
	nc, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	c := drpcconn.New(nc)
	request := &pb.PathRequest{Path: []byte("/warehouse/t/day=2026-11-30")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pb.NewDRPCNamespaceClient(c).Lstat(context.Background(), request); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	cancel()
	wg.Wait()
}

// BenchmarkSequentialCall is a small call after another, with an identity, over loopback.
func BenchmarkSequentialCall(b *testing.B) {
	p := benchPool(b, &service{})
	request := &pb.PathRequest{Path: []byte("/warehouse/t/day=2026-11-30")}
	ctx := as(context.Background(), "u")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client(p).Lstat(ctx, request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream is messages of 256 KiB from server to client, over loopback.
func BenchmarkStream(b *testing.B) {
	message := make([]byte, 256<<10)
	p := benchPool(b, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		for range b.N {
			if err := SendRaw(s, message); err != nil {
				return err
			}
		}
		return nil
	}})
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	s, err := client(p).List(as(context.Background(), "u"))
	if err != nil {
		b.Fatal(err)
	}
	var m skip
	for range b.N {
		if err := s.MsgRecv(&m, skipEncoding{}); err != nil {
			b.Fatal(err)
		}
	}
	_ = s.Close()
}

// skip is a message that nobody looks at.
type skip struct{}

type skipEncoding struct{ rawEncoding }

func (skipEncoding) Unmarshal([]byte, drpc.Message) error { return nil }

// BenchmarkPaths packs and unpacks a chunk of a table's partitions.
func BenchmarkPaths(b *testing.B) {
	paths := make([]string, 512)
	for i := range paths {
		paths[i] = fmt.Sprintf("/warehouse/sales.db/orders/region=EU/day=2026-11-%02d/hour=%02d", i/24, i%24)
	}
	packed := pack(paths)
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			packed = packed[:0]
			prev := ""
			for _, path := range paths {
				packed = AppendPath(packed, prev, path)
				prev = path
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/path")
	})
	b.Run("unpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := UnpackPaths(packed, 512, 512, MaxChunkBytes); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/path")
	})
}

// BenchmarkOutcomes reads and writes the outcomes of a message.
func BenchmarkOutcomes(b *testing.B) {
	r := ListReply{Outcomes: make([]muster.Outcome, 4096)}
	for i := range r.Outcomes {
		r.Outcomes[i] = muster.Outcome{Index: uint64(20_000 + i), Rows: 1, ID: uint64(1_000_000 + i), ChangedAt: uint64(20_000 + i), Txid: 40_000}
	}
	message := r.Append(nil)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			message = r.Append(message[:0])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/outcome")
	})
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			CountOutcomes(message)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/outcome")
	})
	b.Run("read", func(b *testing.B) {
		outcomes := make([]muster.Outcome, 4096)
		for b.Loop() {
			i := 0
			_ = r.Unmarshal(message, func(b []byte) error {
				outcomes[i] = muster.Outcome{}
				i++
				return UnmarshalOutcome(b, &outcomes[i-1])
			}, nil)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/outcome")
	})
}

package blocks

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// zeros is a datanode whose only block is zeros, so that what it does costs next to nothing.
type zeros struct {
	pb.DRPCBlocksUnimplementedServer
	data, sums []byte // of one message
}

func newZeros() *zeros {
	z := &zeros{data: make([]byte, muster.MaxTransfer)}
	p := packet{data: z.data}
	p.seal()
	z.sums = p.checksums()
	return z
}

func (z *zeros) readChunk(_ context.Context, r *rpc.ReadRequest, reply *rpc.ReadReply) error {
	n := int(r.Length)
	reply.Data, reply.Offset = z.data[:n], r.Offset
	reply.Checksums = append(reply.Checksums[:0], z.sums[:n/muster.ChecksumBytes*4]...)
	return nil
}

func (z *zeros) ReadBlock(r *pb.ReadRequest, s pb.DRPCBlocks_ReadBlockStream) error {
	for at, end := r.GetOffset(), r.GetOffset()+r.GetLength(); at < end; {
		n := min(end-at, muster.MaxTransfer)
		if err := rpc.SendReadReply(s, &rpc.ReadReply{Data: z.data[:n], Checksums: z.sums[:n/muster.ChecksumBytes*4], Offset: at}); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// openZeros opens a file of one block of 256 MiB.
func openZeros(b *testing.B, m Mode) *File {
	b.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	z := newZeros()
	server, err := rpc.NewServer(z, pb.DRPCBlocksDescription{}, rpc.ServerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if err := server.HandleReadChunk(z.readChunk); err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	d, err := NewDatanodes(DatanodesOptions{})
	if err != nil {
		b.Fatal(err)
	}
	l := Layout{Length: 256 << 20, Blocks: []Block{{
		ID: muster.BlockID{Container: 1, LocalID: 1}, Length: 256 << 20, Token: make([]byte, 120),
		Nodes: []muster.Node{{Host: "127.0.0.1", Port: uint16(lis.Addr().(*net.TCPAddr).Port)}},
	}}}
	f, err := NewFile(rpc.ClientContext(context.Background(), muster.Identity{User: "u"}), d, l, nil, ReadOptions{Mode: m})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = f.Close()
		_ = d.Close()
		_ = server.Shutdown(context.Background())
		<-served
	})
	return f
}

// BenchmarkReadAt is positioned reads of 64 KiB, alone and beside a sequential reader.
func BenchmarkReadAt(b *testing.B) {
	for _, m := range []Mode{ByChunk, ByStream} {
		for _, readers := range []int{1, 8} {
			for _, beside := range []bool{false, true} {
				b.Run(fmt.Sprintf("mode=%v/readers=%d/sequential=%v", m, readers, beside), func(b *testing.B) {
					f := openZeros(b, m)
					stop, stopped := make(chan struct{}), make(chan struct{})
					var sequential atomic.Int64
					go func() {
						defer close(stopped)
						p := make([]byte, 1<<20)
						for beside {
							select {
							case <-stop:
								return
							default:
							}
							n, err := f.Read(p)
							sequential.Add(int64(n))
							if err == io.EOF {
								_, _ = f.Seek(0, io.SeekStart)
							}
						}
					}()
					b.SetBytes(64 << 10)
					b.ReportAllocs()
					b.ResetTimer()
					var wg sync.WaitGroup
					for i := range readers {
						wg.Go(func() {
							p := make([]byte, 64<<10)
							for k := i; k < b.N; k += readers {
								if _, err := f.ReadAt(p, int64(k%4096)<<16); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(sequential.Load())/1e6/b.Elapsed().Seconds(), "sequential-MB/s")
					close(stop)
					<-stopped
				})
			}
		}
	}
}

// BenchmarkRead is a sequential reader of 1 MiB a call.
func BenchmarkRead(b *testing.B) {
	for _, m := range []Mode{ByChunk, ByStream} {
		b.Run(m.String(), func(b *testing.B) {
			f := openZeros(b, m)
			p := make([]byte, 1<<20)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.ReadFull(f, p); err == io.EOF {
					_, _ = f.Seek(0, io.SeekStart)
				}
			}
		})
	}
}

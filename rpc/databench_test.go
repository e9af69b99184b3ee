package rpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// How much of bare TCP the calls that carry data reach: the same bytes over the same
// loopback in the same run, nobody verifies checksums.

const (
	chunkSize  = 64 << 10
	streamSize = muster.MaxTransfer
)

// blocks is a service of blocks that are all zeros.
type blocks struct {
	pb.DRPCBlocksUnimplementedServer
	read  func(*pb.ReadRequest, pb.DRPCBlocks_ReadBlockStream) error
	write func(pb.DRPCBlocks_WriteBlockStream) error
}

func (b *blocks) ReadBlock(r *pb.ReadRequest, s pb.DRPCBlocks_ReadBlockStream) error {
	return b.read(r, s)
}

func (b *blocks) WriteBlock(s pb.DRPCBlocks_WriteBlockStream) error { return b.write(s) }

// readZeros is ReadChunk of a block of zeros.
func readZeros(_ context.Context, request *ReadRequest, reply *ReadReply) error {
	n := int(request.Length)
	reply.Data = reply.Room(n)
	reply.Checksums = append(reply.Checksums[:0], zeroSums[:(n+muster.ChecksumBytes-1)/muster.ChecksumBytes*4]...)
	reply.Offset = request.Offset
	return nil
}

var zeroSums = make([]byte, 256)

// streamZeros is ReadBlock of as many zeros as are asked for.
func streamZeros(r *pb.ReadRequest, s pb.DRPCBlocks_ReadBlockStream) error {
	data := make([]byte, streamSize)
	for offset := int64(0); offset < r.Length; offset += streamSize {
		n := min(streamSize, r.Length-offset)
		if err := SendReadReply(s, &ReadReply{Data: data[:n], Checksums: zeroSums, Offset: offset}); err != nil {
			return err
		}
	}
	return nil
}

// countWrites is WriteBlock that answers each message that asks for it.
func countWrites(s pb.DRPCBlocks_WriteBlockStream) error {
	var r WriteRequest
	defer r.Release()
	for durable := int64(0); ; {
		switch err := ReceiveWriteRequest(s, &r); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		durable += int64(len(r.Data))
		if r.Sync || r.Commit {
			if err := s.Send(&pb.WriteReply{Durable: durable, Committed: r.Commit}); err != nil {
				return err
			}
		}
	}
}

func startBlocks(t testing.TB, b *blocks, o ServerOptions) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(b, pb.DRPCBlocksDescription{}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.HandleReadChunk(readZeros); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		wg.Wait()
	})
	return lis.Addr().String()
}

// startBare serves requests of 16 bytes, a size of messages and their number, by as many
// bytes.
func startBare(b *testing.B) string {
	b.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveBare(nc) })
		}
	})
	b.Cleanup(func() { _ = lis.Close(); wg.Wait() })
	return lis.Addr().String()
}

func serveBare(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	var request [16]byte
	data := make([]byte, streamSize)
	for {
		if _, err := io.ReadFull(nc, request[:]); err != nil {
			return
		}
		size := binary.LittleEndian.Uint64(request[:])
		for range binary.LittleEndian.Uint64(request[8:]) {
			if _, err := nc.Write(data[:size]); err != nil {
				return
			}
		}
	}
}

// bareRead reads as many messages over a bare connection.
func bareRead(nc net.Conn, buffer []byte, size, count int) error {
	var request [16]byte
	binary.LittleEndian.PutUint64(request[:], uint64(size))
	binary.LittleEndian.PutUint64(request[8:], uint64(count))
	if _, err := nc.Write(request[:]); err != nil {
		return err
	}
	for range count {
		if _, err := io.ReadFull(nc, buffer[:size]); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkReadChunk is positioned reads of 64 KiB, by ReadChunk and over bare TCP, each
// reader with a connection.
func BenchmarkReadChunk(b *testing.B) {
	addr, bare := startBlocks(b, &blocks{}, ServerOptions{}), startBare(b)
	for _, readers := range []int{1, 8} {
		b.Run(fmt.Sprintf("readers=%d/tcp", readers), func(b *testing.B) {
			benchReaders(b, readers, func(share int) error {
				nc, err := net.Dial("tcp", bare)
				if err != nil {
					return err
				}
				defer func() { _ = nc.Close() }()
				buffer := make([]byte, chunkSize)
				for range share {
					if err := bareRead(nc, buffer, chunkSize, 1); err != nil {
						return err
					}
				}
				return nil
			})
		})
		b.Run(fmt.Sprintf("readers=%d/rpc", readers), func(b *testing.B) {
			p := NewPool(addr, PoolOptions{})
			defer func() { _ = p.Close() }()
			ctx, cancel := context.WithCancel(as(context.Background(), "u"))
			defer cancel()
			benchReaders(b, readers, func(share int) error {
				request := ReadRequest{Block: muster.BlockID{Container: 1, LocalID: 1}, Token: make([]byte, 100), Length: chunkSize}
				buffer := make([]byte, chunkSize)
				var reply ReadReply
				defer reply.Release()
				for i := range share {
					request.Offset = int64(i%4096) * chunkSize
					if err := ReadChunk(ctx, p, &request, &reply); err != nil {
						return err
					}
					copy(buffer, reply.Data) // as a reader's ReadAt does
				}
				return nil
			})
		})
	}
}

func benchReaders(b *testing.B, readers int, read func(share int) error) {
	b.SetBytes(chunkSize)
	b.ReportAllocs()
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			if err := read(b.N/readers + min(1, max(0, b.N%readers-i))); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkReadBlock is a stream of the largest messages, and the same over bare TCP.
func BenchmarkReadBlock(b *testing.B) {
	addr, bare := startBlocks(b, &blocks{read: streamZeros}, ServerOptions{}), startBare(b)
	b.Run("tcp", func(b *testing.B) {
		b.SetBytes(streamSize)
		nc, err := net.Dial("tcp", bare)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if err := bareRead(nc, make([]byte, streamSize), streamSize, b.N); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("rpc", func(b *testing.B) {
		b.SetBytes(streamSize)
		b.ReportAllocs()
		p := NewPool(addr, PoolOptions{})
		defer func() { _ = p.Close() }()
		s, err := ReadBlock(as(context.Background(), "u"), p, &ReadRequest{Length: streamSize * int64(b.N)})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		var reply ReadReply
		n := 0
		for ; err == nil; n++ {
			err = s.Receive(&reply)
		}
		if err != io.EOF || n != b.N+1 {
			b.Fatalf("%d messages, %v", n, err)
		}
	})
}

// BenchmarkWriteBlock is a stream of the largest messages to the server, and the same over
// bare TCP.
func BenchmarkWriteBlock(b *testing.B) {
	addr := startBlocks(b, &blocks{write: countWrites}, ServerOptions{})
	data := make([]byte, streamSize)
	b.Run("tcp", func(b *testing.B) {
		b.SetBytes(streamSize)
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, streamSize)
			for err == nil {
				_, err = io.ReadFull(nc, buffer)
			}
			_ = nc.Close()
		})
		nc, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		for range b.N {
			if _, err := nc.Write(data); err != nil {
				b.Fatal(err)
			}
		}
		_ = nc.Close()
		wg.Wait()
		_ = lis.Close()
	})
	b.Run("rpc", func(b *testing.B) {
		b.SetBytes(streamSize)
		b.ReportAllocs()
		p := NewPool(addr, PoolOptions{})
		defer func() { _ = p.Close() }()
		s, err := WriteBlock(as(context.Background(), "u"), p)
		if err != nil {
			b.Fatal(err)
		}
		for i := range b.N {
			if err := s.Send(&WriteRequest{Data: data, Checksums: zeroSums, Offset: int64(i) * streamSize, Commit: i == b.N-1}); err != nil {
				b.Fatal(err)
			}
		}
		if r, err := s.Receive(); err != nil || r.Durable != streamSize*int64(b.N) {
			b.Fatalf("%v, %v", r, err)
		}
		_ = s.Close()
	})
}

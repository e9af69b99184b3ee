package rpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmetadata"
	"storj.io/drpc/drpcmigrate"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcserver"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// dataSizes are on both sides of what is large, and the most that there is.
func dataSizes() []int {
	return []int{0, 1, 100, largeFrom - 20, largeFrom, chunkSize, 600_000, muster.MaxTransfer, len(standIn)}
}

// content is n bytes that tell where they belong.
func content(seed, n int) []byte {
	return bytes.Repeat([]byte{byte(seed), byte(seed >> 8), 'x'}, n/3+1)[:n]
}

// contents is a service whose data is content, and that takes nothing else.
type contents struct {
	pb.DRPCBlocksUnimplementedServer
}

func readContent(_ context.Context, r *ReadRequest, reply *ReadReply) error {
	if r.Length < 0 {
		reply.Data = reply.Room(chunkSize) // not to be lost
		return fmt.Errorf("%w: length %d", muster.ErrInvalid, r.Length)
	}
	reply.Data = append(reply.Room(int(r.Length))[:0], content(int(r.Offset), int(r.Length))...)
	reply.Checksums, reply.Offset = append(reply.Checksums, r.Token...), r.Offset
	return nil
}

func (*contents) ReadChunk(_ context.Context, r *pb.ReadRequest) (*pb.ReadReply, error) {
	return &pb.ReadReply{Data: content(int(r.Offset), int(r.Length)), Checksums: r.Token, Offset: r.Offset}, nil
}

func (*contents) ReadBlock(r *pb.ReadRequest, s pb.DRPCBlocks_ReadBlockStream) error {
	for i, n := range dataSizes() {
		if err := SendReadReply(s, &ReadReply{Data: content(i, n), Checksums: r.Token, Offset: int64(n)}); err != nil {
			return err
		}
	}
	return nil
}

func (*contents) WriteBlock(s pb.DRPCBlocks_WriteBlockStream) error {
	var r WriteRequest
	defer r.Release()
	for i := 0; ; i++ {
		switch err := ReceiveWriteRequest(s, &r); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !bytes.Equal(r.Data, content(i, len(r.Data))):
			return fmt.Errorf("%w: message %d with %d bytes", muster.ErrCorrupt, i, len(r.Data))
		}
		if err := s.Send(&pb.WriteReply{Durable: int64(len(r.Data))}); err != nil {
			return err
		}
	}
}

func startContents(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(&contents{}, pb.DRPCBlocksDescription{}, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.HandleReadChunk(readContent); err != nil {
		t.Fatal(err)
	}
	run(t, server, lis)
	return lis.Addr().String()
}

func wantContent(t *testing.T, r *ReadReply, seed, n int, checksums string) {
	t.Helper()
	if !bytes.Equal(r.Data, content(seed, n)) || string(r.Checksums) != checksums {
		t.Fatalf("got %d bytes %.20x and %q, want %d of %d", len(r.Data), r.Data, r.Checksums, n, seed)
	}
}

func TestDataArrivesWhole(t *testing.T) {
	var dialed counting
	p := newPool(t, startContents(t), PoolOptions{Dial: dialed.dial})
	// A user whose name is that of the stand-in, which comes in the write of its first call.
	for _, user := range []string{"u", string(standIn), strings.Repeat("g", maxPrincipalBytes)} {
		ctx := as(t.Context(), user)
		var reply ReadReply
		for i, n := range dataSizes() {
			if err := ReadChunk(ctx, p, &ReadRequest{Offset: int64(i), Length: int64(n), Token: []byte("t")}, &reply); err != nil {
				t.Fatal(err)
			}
			wantContent(t, &reply, i, n, "t")
		}
		wantCode(t, ReadChunk(ctx, p, &ReadRequest{Length: -1}, &reply), muster.ErrInvalid)
		readStream(ctx, t, p)
		writeStream(ctx, t, p)
	}
	if n := dialed.dials(); n != 2 { // one for chunks, one for streams
		t.Errorf("%d connections, want 2", n)
	}
}

func readStream(ctx context.Context, t *testing.T, p *Pool) {
	t.Helper()
	s, err := ReadBlock(ctx, p, &ReadRequest{Token: standIn})
	if err != nil {
		t.Fatal(err)
	}
	var reply ReadReply
	for i, n := range dataSizes() {
		if err := s.Receive(&reply); err != nil {
			t.Fatal(err)
		}
		wantContent(t, &reply, i, n, string(standIn))
	}
	if err := s.Receive(&reply); err != io.EOF {
		t.Fatalf("the stream ended with %v", err)
	}
}

func writeStream(ctx context.Context, t *testing.T, p *Pool) {
	t.Helper()
	s, err := WriteBlock(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	var sent sync.WaitGroup
	sent.Go(func() {
		for i, n := range dataSizes() {
			if err := s.Send(&WriteRequest{Data: content(i, n), Checksums: standIn}); err != nil {
				t.Error(err)
			}
		}
		_ = s.CloseSend()
	})
	defer sent.Wait()
	for _, n := range dataSizes() {
		if r, err := s.Receive(); err != nil || r.Durable != int64(n) {
			t.Fatalf("got %v, %v; want %d", r, err, n)
		}
	}
	if _, err := s.Receive(); err != io.EOF {
		t.Fatalf("the stream ended with %v", err)
	}
}

// A side that knows nothing of large messages exchanges them with one that does.
func TestDataIsExchangedWithPlainSides(t *testing.T) {
	nc, err := net.Dial("tcp", startContents(t))
	if err != nil {
		t.Fatal(err)
	}
	plain := drpcconn.New(drpcmigrate.NewHeaderConn(nc, preface))
	defer func() { _ = plain.Close() }()
	ctx := drpcmetadata.Add(t.Context(), keyUser, "u")
	for i, n := range dataSizes() {
		r, err := pb.NewDRPCBlocksClient(plain).ReadChunk(ctx, &pb.ReadRequest{Offset: int64(i), Length: int64(n)})
		if err != nil || !bytes.Equal(r.Data, content(i, n)) {
			t.Fatalf("%d bytes: got %d, %v", n, len(r.GetData()), err)
		}
	}
	w, err := pb.NewDRPCBlocksClient(plain).WriteBlock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range dataSizes() {
		if err := w.Send(&pb.WriteRequest{Data: content(i, n)}); err != nil {
			t.Fatal(err)
		}
		if r, err := w.Recv(); err != nil || r.Durable != int64(n) {
			t.Fatalf("got %v, %v; want %d", r, err, n)
		}
	}
	_ = w.Close()

	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := drpcmux.New()
	if err := pb.DRPCRegisterBlocks(mux, &contents{}); err != nil {
		t.Fatal(err)
	}
	serving, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- drpcserver.New(mux).Serve(serving, bare{lis}) }()
	defer func() { cancel(); <-served }()
	p := newPool(t, lis.Addr().String(), PoolOptions{})
	defer func() { _ = p.Close() }()
	var reply ReadReply
	for i, n := range dataSizes() {
		if err := ReadChunk(as(t.Context(), "u"), p, &ReadRequest{Offset: int64(i), Length: int64(n)}, &reply); err != nil {
			t.Fatal(err)
		}
		wantContent(t, &reply, i, n, "")
	}
	writeStream(as(t.Context(), "u"), t, p)
}

// Whoever gives up a call leaves a connection behind that carries the next one, or none.
func TestDataOfGivenUpCallsLeavesNothingBehind(t *testing.T) {
	p := newPool(t, startContents(t), PoolOptions{MaxConnections: 1})
	for i := range 30 {
		ctx, cancel := context.WithCancel(as(t.Context(), "u"))
		s, err := ReadBlock(ctx, p, &ReadRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var reply ReadReply
		for range i % len(dataSizes()) {
			if err := s.Receive(&reply); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		_ = s.Close()
		w, err := WriteBlock(as(t.Context(), "u"), p)
		if err != nil {
			t.Fatal(err)
		}
		for j := range i % 4 {
			if err := w.Send(&WriteRequest{Data: content(j, muster.MaxTransfer)}); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Close()
		if err := ReadChunk(as(t.Context(), "u"), p, &ReadRequest{Offset: int64(i), Length: chunkSize}, &reply); err != nil {
			t.Fatal(err)
		}
		wantContent(t, &reply, i, chunkSize, "")
		reply.Release()
	}
}

// A handler's context knows its call; a stream that the handler opens elsewhere is another.
func TestPartsGoToTheStreamThatTheyAreSentTo(t *testing.T) {
	p := newPool(t, startContents(t), PoolOptions{})
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		w, err := WriteBlock(as(s.Context(), "u"), p)
		if err != nil {
			return err
		}
		defer func() { _ = w.Close() }()
		if err := w.Send(&WriteRequest{Data: content(0, chunkSize)}); err != nil {
			return err
		}
		r, err := w.Receive()
		if err != nil {
			return err
		}
		return s.Send(&pb.ListReply{Txid: uint64(r.Durable)})
	}}, ServerOptions{})
	s, err := client(newPool(t, addr, PoolOptions{})).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Recv(); err != nil || r.Txid != chunkSize {
		t.Fatalf("got %v, %v", r, err)
	}
	_ = s.Close()
}

// Many clients that begin messages and do not end them take no more memory than one message
// each.
func TestHalfSentDataIsBounded(t *testing.T) {
	addr := startContents(t)
	w := WriteRequest{Data: content(0, muster.MaxTransfer)}
	sent := []byte(preface)
	for i, f := range []drpcwire.Frame{
		{Kind: drpcwire.KindInvokeMetadata, Data: NewCredentials(muster.Identity{User: "u"}).metadata},
		{Kind: drpcwire.KindInvoke, Data: []byte(writeBlockCall)},
		{Kind: drpcwire.KindMessage, Data: w.Append(nil)},
	} {
		f.Done, f.ID = true, drpcwire.ID{Stream: 1, Message: uint64(i + 1)}
		sent = drpcwire.AppendFrame(sent, f)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const clients = 20
	for range clients {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if _, err := nc.Write(sent[:len(sent)-1]); err != nil {
			t.Fatal(err)
		}
	}
	p := newPool(t, addr, PoolOptions{})
	var reply ReadReply
	if err := ReadChunk(as(t.Context(), "u"), p, &ReadRequest{Length: chunkSize}, &reply); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > (clients+5)*(largeTo+128<<10) {
		t.Errorf("%d bytes for %d clients", took, clients)
	}
}

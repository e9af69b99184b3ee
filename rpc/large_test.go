package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmetadata"
	"storj.io/drpc/drpcmigrate"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcserver"
	"storj.io/drpc/drpcwire"

	"github.com/muster-fs/muster/rpc/pb"
)

// scripted is a connection that brings bytes in pieces of any sizes.
type scripted struct {
	net.Conn
	bytes []byte
	piece func() int
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece())], c.bytes)
	c.bytes = c.bytes[n:]
	return n, nil
}

// packets reads packets until dRPC's reader fails. take says what belongs in the place of
// a packet's data; nil: they are the message.
func packets(r io.Reader, take func() *Memory) (all []string, err error) {
	reader := drpcwire.NewReaderWithOptions(r, managerOptions().Reader)
	for {
		p, err := reader.ReadPacket()
		if err != nil {
			return all, err
		}
		if m := take(); m != nil {
			p.Data = append(p.Data, m.Bytes()...)
			m.Release()
		}
		all = append(all, fmt.Sprintf("%v %x %v", p, sha256.Sum256(p.Data), p.Control))
	}
}

// wantSamePackets fails unless dRPC gets of a client's connection what it would read itself.
func wantSamePackets(t *testing.T, sent []byte, piece func() int) {
	t.Helper()
	want, wantErr := packets(bytes.NewReader(sent), func() *Memory { return nil })
	c := &incoming{from: &scripted{bytes: bytes.Clone(sent), piece: piece}}
	got, err := packets(c, c.take)
	if len(got) != len(want) || errors.Is(err, io.EOF) != errors.Is(wantErr, io.EOF) {
		t.Fatalf("%d packets and %v, want %d and %v", len(got), err, len(want), wantErr)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("packet %d is %.100s, want %.100s", i, got[i], want[i])
		}
	}
}

func TestLargeMessagesReachTheReceiverAsDRPCWouldBringThem(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	sizes := []int{0, 1, 100, 5000, largeFrom - 1, largeFrom, largeFrom + 1, 100_000, largeTo, largeTo + 1}
	for range 60 {
		var sent []byte
		id := drpcwire.ID{Stream: 1, Message: 1}
		for range 1 + r.IntN(8) {
			data := make([]byte, sizes[r.IntN(len(sizes))])
			for i := 0; i < len(data); i += 1 + len(data)/50 {
				data[i] = byte(r.Uint32())
			}
			f := drpcwire.Frame{ID: id, Kind: drpcwire.KindMessage, Control: r.IntN(20) == 0}
			if r.IntN(6) == 0 {
				f.Kind = drpcwire.Kind(1 + r.IntN(7))
			}
			for piece := 1 + r.IntN(2*len(data)+1); !f.Done; data = data[len(f.Data):] { // split, or not
				f.Data = data[:min(piece, len(data))]
				f.Done = len(f.Data) == len(data)
				sent = drpcwire.AppendFrame(sent, f)
			}
			if id.Message++; r.IntN(4) == 0 {
				id = drpcwire.ID{Stream: id.Stream + 1, Message: 1}
			}
		}
		switch r.IntN(4) {
		case 0:
			sent = sent[:r.IntN(len(sent))]
		case 1:
			sent[r.IntN(len(sent))]++
		}
		most := 1 + r.IntN(200_000)
		wantSamePackets(t, sent, func() int { return 1 + r.IntN(most) })
	}
}

func FuzzDRPCGetsTheFramesThatCame(f *testing.F) {
	large := drpcwire.AppendFrame(nil, drpcwire.Frame{ID: drpcwire.ID{Stream: 1, Message: 1}, Kind: drpcwire.KindMessage, Done: true, Data: make([]byte, largeFrom)})
	f.Add(large, uint16(1000))
	f.Add(append(large, "\x05\x01\x02\x01x\x0b\x01\x03\x00"...), uint16(7))
	f.Add([]byte("\x05\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x0f"), uint16(1))
	f.Add([]byte("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), uint16(3))
	f.Fuzz(func(t *testing.T, sent []byte, piece uint16) {
		wantSamePackets(t, sent, func() int { return 1 + int(piece) })
	})
}

// samples are frames of a stream of replies, on both sides of what is large.
func samples() (frames [][]byte) {
	for i, size := range []int{10, largeFrom, largeFrom - 100, 600_000, 0, largeTo - 100, MaxMessage - 100, largeFrom + 1} {
		frames = append(frames, bytes.Repeat([]byte{byte(i), 'x'}, size/2))
	}
	return append(frames, standIn, append(make([]byte, largeFrom), standIn...), standIn)
}

// streaming is a service that streams the samples, each by send.
func streaming(send func(pb.DRPCNamespace_ListStream, *pb.ListReply) error) *service {
	return &service{list: func(s pb.DRPCNamespace_ListStream) error {
		for _, frame := range samples() {
			if err := send(s, &pb.ListReply{Frame: frame, Txid: 7}); err != nil {
				return err
			}
		}
		return nil
	}}
}

func sendInParts(s pb.DRPCNamespace_ListStream, m *pb.ListReply) error {
	r := ListReply{Frame: m.Frame, Txid: m.Txid}
	b, at := r.AppendAround(nil)
	return SendParts(s, b[:at], r.Frame, b[at:])
}

// wantSamples fails unless the samples come.
func wantSamples(t *testing.T, s pb.DRPCNamespace_ListClient) {
	t.Helper()
	for i, want := range samples() {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if !bytes.Equal(m.Frame, want) || m.Txid != 7 {
			t.Fatalf("message %d has %d bytes, want %d", i, len(m.Frame), len(want))
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatalf("the stream ended with %v", err)
	}
}

func TestMessagesInPartsArriveWhole(t *testing.T) {
	_, addr := startServer(t, streaming(sendInParts), ServerOptions{})
	p := newPool(t, addr, PoolOptions{MaxConnections: 1})
	for range 3 {
		s, err := client(p).List(as(t.Context(), "u"))
		if err != nil {
			t.Fatal(err)
		}
		wantSamples(t, s)
		check(t, p)
	}
	// A client that knows nothing of large messages.
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	plain := drpcconn.New(drpcmigrate.NewHeaderConn(nc, preface))
	defer func() { _ = plain.Close() }()
	s, err := pb.NewDRPCNamespaceClient(plain).List(drpcmetadata.Add(t.Context(), keyUser, "u"))
	if err != nil {
		t.Fatal(err)
	}
	wantSamples(t, s)
}

// bare is a listener of connections that have said the preface.
type bare struct{ net.Listener }

func (l bare) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err == nil {
		_, err = io.ReadFull(nc, make([]byte, len(preface)))
	}
	return nc, err
}

// A server that knows nothing of large messages sends them in pieces, or whole.
func TestLargeMessagesOfAPlainServerArrive(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := drpcmux.New()
	if err := pb.DRPCRegisterNamespace(mux, streaming(func(s pb.DRPCNamespace_ListStream, m *pb.ListReply) error { return s.Send(m) })); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- drpcserver.New(mux).Serve(ctx, bare{lis}) }()
	defer func() { cancel(); <-served }()
	p := newPool(t, lis.Addr().String(), PoolOptions{})
	defer func() { _ = p.Close() }()
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil { // such a server's call ends when both sides have said so
		t.Fatal(err)
	}
	wantSamples(t, s)
}

func TestMessageInPartsThatIsTooLargeIsRefused(t *testing.T) {
	refused := make(chan error, 1)
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		refused <- SendParts(s, make([]byte, MaxMessage), []byte("x"))
		return sendInParts(s, &pb.ListReply{Frame: make([]byte, largeFrom)})
	}}, ServerOptions{})
	s, err := client(newPool(t, addr, PoolOptions{})).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Recv(); err != nil || len(m.Frame) != largeFrom {
		t.Fatalf("got %v, %v", m, err)
	}
	if err := <-refused; err == nil {
		t.Error("a message past the bound was sent")
	}
}

// keeping is an encoding that keeps large messages.
type keeping struct {
	drpc.Encoding
	kept *[]*Memory
}

func (k keeping) Keep(m *Memory, _ drpc.Message) error {
	*k.kept = append(*k.kept, m)
	return nil
}

func TestKeptMessagesStayAsTheyCame(t *testing.T) {
	const messages = 20
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		for i := range messages {
			if err := SendParts(s, bytes.Repeat([]byte{byte(i)}, largeFrom), bytes.Repeat([]byte{byte(i)}, i*1000)); err != nil {
				return err
			}
		}
		return nil
	}}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{})
	s, err := client(p).List(as(t.Context(), "u"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []*Memory
	for range messages {
		if err := s.MsgRecv(nil, keeping{kept: &kept}); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range kept {
		if got := m.Bytes(); len(got) != largeFrom+i*1000 || bytes.Count(got, []byte{byte(i)}) != len(got) {
			t.Errorf("message %d has changed", i)
		}
	}
	_ = s.Close()
}

// The memory of a message is not taken before its bytes are on their way, and no message
// of a call that was given up is taken for one of the next call.
func TestCancelledStreamOfLargeMessagesLeavesNothingBehind(t *testing.T) {
	_, addr := startServer(t, &service{list: func(s pb.DRPCNamespace_ListStream) error {
		m, err := s.Recv()
		for err == nil {
			err = sendInParts(s, &pb.ListReply{Frame: bytes.Repeat(m.Cursor, 100_000)})
		}
		return err
	}}, ServerOptions{})
	p := newPool(t, addr, PoolOptions{MaxConnections: 1})
	for i := range 20 {
		ctx, cancel := context.WithTimeout(as(t.Context(), "u"), time.Minute)
		s, err := client(p).List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.ListRequest{Cursor: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
		for range 1 + i%3 {
			m, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(m.Frame, []byte{byte(i)}); n != 100_000 || len(m.Frame) != n {
				t.Fatalf("call %d: %d of %d bytes are its own", i, n, len(m.Frame))
			}
		}
		cancel()
		_ = s.Close()
		check(t, p)
	}
}

package rpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// The wire's names of the calls that carry data.
const (
	readChunkCall  = "/muster.v1.Blocks/ReadChunk"
	readBlockCall  = "/muster.v1.Blocks/ReadBlock"
	writeBlockCall = "/muster.v1.Blocks/WriteBlock"
)

// ReadChunk makes the call Blocks.ReadChunk. reply may have been used before: what it held
// is released. The caller releases it.
func ReadChunk(ctx context.Context, conn drpc.Conn, request *ReadRequest, reply *ReadReply) error {
	reply.Release()
	var err error
	if p, ok := conn.(*Pool); ok {
		err = p.invokeDirect(ctx, readChunkCall, dataEncoding{}, request, reply)
	} else {
		err = conn.Invoke(ctx, readChunkCall, dataEncoding{}, request, reply)
	}
	if err != nil {
		reply.Release()
	}
	return err
}

// ReadStream is a call of Blocks.ReadBlock. One goroutine receives; Close may be called beside it.
type ReadStream struct{ stream drpc.Stream }

// ReadBlock makes the call Blocks.ReadBlock. The server sends on as long as the client
// receives; the call holds its connection until Receive fails, the context ends or Close.
func ReadBlock(ctx context.Context, conn drpc.Conn, request *ReadRequest) (*ReadStream, error) {
	stream, err := conn.NewStream(ctx, readBlockCall, dataEncoding{})
	if err != nil {
		return nil, err
	}
	if err = stream.MsgSend(request, dataEncoding{}); err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		_ = stream.Close() // the call was not made
		return nil, err
	}
	return &ReadStream{stream}, nil
}

// Receive receives the next message into reply, as ReadChunk does. io.EOF says that the
// server has sent all that was asked for; after it, or any other error, the call is over.
func (s *ReadStream) Receive(reply *ReadReply) error {
	reply.Release()
	err := s.stream.MsgRecv(reply, dataEncoding{})
	if err != nil {
		reply.Release()
	}
	return err
}

// Close ends the call, whatever state it is in, and makes Receive fail.
func (s *ReadStream) Close() error { return s.stream.Close() }

// WriteStream is a call of Blocks.WriteBlock. One goroutine may send while another
// receives; Close may be called beside both.
type WriteStream struct{ stream drpc.Stream }

// WriteBlock makes the call Blocks.WriteBlock.
func WriteBlock(ctx context.Context, conn drpc.Conn) (*WriteStream, error) {
	stream, err := conn.NewStream(ctx, writeBlockCall, dataEncoding{})
	if err != nil {
		return nil, err
	}
	return &WriteStream{stream}, nil
}

// Send sends a request, whose memory is the caller's again when it returns. io.EOF says
// that the server has ended the call: Receive then tells how.
func (s *WriteStream) Send(r *WriteRequest) error {
	m := newOutgoing()
	defer m.release()
	before := appendDataHead(m.fields, r.Data)
	m.fields = r.appendRest(before)
	return SendParts(s.stream, m.fields[:len(before)], r.Data, m.fields[len(before):])
}

// Receive receives a reply. io.EOF is the normal end of the call; after it, or any other
// error, the call is over.
func (s *WriteStream) Receive() (*pb.WriteReply, error) {
	r := new(pb.WriteReply)
	if err := s.stream.MsgRecv(r, dataEncoding{}); err != nil {
		return nil, err
	}
	return r, nil
}

// CloseSend says that no more requests are sent.
func (s *WriteStream) CloseSend() error { return s.stream.CloseSend() }

// Close ends the call, whatever state it is in.
func (s *WriteStream) Close() error { return s.stream.Close() }

// ReadChunkFunc carries out Blocks.ReadChunk. The request, its token too, is the server's
// again when it returns. It sets reply to what is sent, and may read the data into memory
// by reply.Room, which the server releases when it has sent it.
type ReadChunkFunc func(ctx context.Context, request *ReadRequest, reply *ReadReply) error

// HandleReadChunk lets f carry out Blocks.ReadChunk instead of the service's method, and
// sends what it replies without copying it. It comes before Serve.
func (s *Server) HandleReadChunk(f ReadChunkFunc) error {
	return s.handleRaw(readChunkCall, true, func(ctx context.Context, request []byte, reply *outgoing) error {
		c := chunkCalls.Get().(*chunkCall)
		defer c.release()
		if err := c.request.Unmarshal(request); err != nil {
			return err
		}
		err := f(ctx, &c.request, &c.reply)
		reply.memory, c.reply.memory = c.reply.memory, nil
		if err != nil {
			return err
		}
		before := appendDataHead(reply.fields, c.reply.Data)
		reply.fields = c.reply.appendRest(before)
		reply.parts = append(reply.parts, reply.fields[:len(before)], c.reply.Data, reply.fields[len(before):])
		return nil
	})
}

// chunkCall is the messages of a call of ReadChunk on the server.
type chunkCall struct {
	request ReadRequest
	reply   ReadReply
}

var chunkCalls = sync.Pool{New: func() any { return new(chunkCall) }}

func (c *chunkCall) release() {
	*c = chunkCall{reply: ReadReply{Checksums: c.reply.Checksums[:0]}}
	chunkCalls.Put(c)
}

// Room returns pooled memory for n bytes of data, 1 MiB at most, which are the reply's
// until Release; what it had before is released.
func (r *ReadReply) Room(n int) []byte { return r.keep(NewMemory(n)) }

// SendReadReply sends a reply of a server's stream of Blocks.ReadBlock. Its memory is the
// caller's again when it returns.
func SendReadReply(stream drpc.Stream, r *ReadReply) error {
	m := newOutgoing()
	defer m.release()
	before := appendDataHead(m.fields, r.Data)
	m.fields = r.appendRest(before)
	return SendParts(stream, m.fields[:len(before)], r.Data, m.fields[len(before):])
}

// ReceiveWriteRequest receives a request of a server's stream of Blocks.WriteBlock into r,
// which may have been used before: what it held is released. The caller releases it.
// Errors are those of the stream's MsgRecv.
func ReceiveWriteRequest(stream drpc.Stream, r *WriteRequest) error {
	r.Release()
	err := stream.MsgRecv(r, dataEncoding{})
	if err != nil {
		r.Release()
	}
	return err
}

// dataEncoding is the encoding of the calls that carry data.
type dataEncoding struct{}

var _ Keeper = dataEncoding{}

// Marshal encodes a message.
func (dataEncoding) Marshal(msg drpc.Message) ([]byte, error) {
	return dataEncoding{}.MarshalAppend(nil, msg)
}

// MarshalAppend encodes a message to the end of dst.
func (dataEncoding) MarshalAppend(dst []byte, msg drpc.Message) ([]byte, error) {
	switch m := msg.(type) {
	case *ReadRequest:
		return m.Append(dst), nil
	default:
		return nil, fmt.Errorf("%w: no message of a data call: %T", muster.ErrInternal, msg)
	}
}

// Unmarshal decodes a message from a buffer that is used again.
func (dataEncoding) Unmarshal(b []byte, msg drpc.Message) error {
	switch m := msg.(type) {
	case *ReadReply:
		return m.Unmarshal(m.copy(b))
	case *WriteRequest:
		return m.Unmarshal(m.copy(b))
	default:
		return proto.Unmarshal(b, msg.(proto.Message))
	}
}

// Keep decodes a large message in its memory.
func (dataEncoding) Keep(memory *Memory, msg drpc.Message) error {
	switch m := msg.(type) {
	case *ReadReply:
		return m.Unmarshal(m.keep(memory))
	case *WriteRequest:
		return m.Unmarshal(m.keep(memory))
	default:
		defer memory.Release()
		return proto.Unmarshal(memory.Bytes(), msg.(proto.Message))
	}
}

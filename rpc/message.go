package rpc

import (
	"fmt"
	"sync"

	"storj.io/drpc"
	"storj.io/drpc/drpcenc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc/pb"
)

// MaxMessage is the most bytes that one message may have, either way. Whoever receives
// more closes the connection, so senders check it. A listing's messages stay under 1 MiB.
const MaxMessage = 4 << 20

// buffers are for encoded messages. Larger ones than maxPooled are not kept.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 1 << 20

// encode puts msg into a pooled buffer, which the caller gives back by release.
func encode(msg drpc.Message, enc drpc.Encoding) (*[]byte, error) {
	b := buffers.Get().(*[]byte)
	data, err := drpcenc.MarshalAppend(msg, enc, (*b)[:0])
	if err != nil {
		release(b)
		return nil, fmt.Errorf("%w: encode message: %v", muster.ErrInternal, err)
	}
	*b = data
	if err := checkSize(len(data)); err != nil {
		release(b)
		return nil, err
	}
	return b, nil
}

func release(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

func checkSize(n int) error {
	if n > MaxMessage {
		return fmt.Errorf("%w: message of %d bytes, at most %d", muster.ErrLimit, n, MaxMessage)
	}
	return nil
}

// SendRaw sends b, an encoded message, without copying it to a buffer that grows with
// each stream, as drpc's own MsgSend does. b is free again when SendRaw returns.
// A send without progress for the stall timeout ends the connection.
func SendRaw(stream drpc.Stream, b []byte) error {
	if err := checkSize(len(b)); err != nil {
		return err
	}
	m := raws.Get().(*raw)
	*m = b
	err := stream.MsgSend(m, rawEncoding{})
	*m = nil
	raws.Put(m)
	return err
}

// raws are what SendRaw sends by.
var raws = sync.Pool{New: func() any { return new(raw) }}

// ReceiveRaw receives a message without decoding it: it sets b to it, and uses b's memory
// if that suffices. Errors are those of the stream's MsgRecv.
func ReceiveRaw(stream drpc.Stream, b *[]byte) error {
	return stream.MsgRecv((*raw)(b), rawEncoding{})
}

// raw is a message that is encoded already.
type raw []byte

// rawEncoding is the encoding of *raw. Its MarshalAppend lends the message's own bytes:
// the streams that it is used on do not keep buffers (see managerOptions).
type rawEncoding struct{}

func (rawEncoding) Marshal(msg drpc.Message) ([]byte, error) { return *msg.(*raw), nil }

func (rawEncoding) MarshalAppend(_ []byte, msg drpc.Message) ([]byte, error) {
	return *msg.(*raw), nil
}

func (rawEncoding) Unmarshal(buf []byte, msg drpc.Message) error {
	m := msg.(*raw)
	*m = append((*m)[:0], buf...)
	return nil
}

// decoding reads messages that came from the other side. An error, and even a panic,
// of the encoding becomes one of this call with the given code; a panic inside drpc's
// receive would leave the connection locked for ever. A stream has one, which the
// receiving goroutine uses.
type decoding struct {
	drpc.Encoding
	code  muster.Code
	large *incoming // of the connection
}

func (d *decoding) Unmarshal(buf []byte, msg drpc.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: decode message: panic: %v", d.code, p)
		}
	}()
	if _, ok := msg.(*pb.ApplyRequest); ok {
		if err := checkBatch(buf); err != nil {
			return err
		}
	}
	if err := d.unmarshal(buf, msg); err != nil {
		return fmt.Errorf("%w: decode message: %v", d.code, err)
	}
	return nil
}

func (d *decoding) unmarshal(buf []byte, msg drpc.Message) error {
	m := d.large.take()
	if m == nil {
		return d.Encoding.Unmarshal(buf, msg)
	}
	if k, ok := d.Encoding.(Keeper); ok {
		return k.Keep(m, msg)
	}
	defer m.Release()
	return d.Encoding.Unmarshal(m.Bytes(), msg)
}

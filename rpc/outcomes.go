package rpc

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fs/muster"
)

// The outcomes in a ListReply are read and written by hand as it is: a long listing has one
// for each of its paths.

// The tags of an outcome's fields.
const (
	outcomeIndex     = 1<<3 | varint
	outcomeCode      = 2<<3 | varint
	outcomeMessage   = 3<<3 | length
	outcomeRows      = 4<<3 | varint
	outcomeID        = 5<<3 | varint
	outcomeChangedAt = 6<<3 | varint
	outcomeTxid      = 7<<3 | varint
)

func appendOutcome(dst []byte, o *muster.Outcome) []byte {
	text := strings.ToValidUTF8(o.Message, "\uFFFD")
	var b outcomeBuffer
	n := b.put(0, outcomeIndex, o.Index)
	n = b.put(n, outcomeCode, uint64(o.Code))
	head := n
	n = b.put(n, outcomeRows, o.Rows)
	n = b.put(n, outcomeID, o.ID)
	n = b.put(n, outcomeChangedAt, o.ChangedAt)
	n = b.put(n, outcomeTxid, o.Txid)
	if text == "" {
		return append(append(dst, replyOutcome, byte(n)), b[:n]...)
	}
	dst = protowire.AppendVarint(append(dst, replyOutcome), uint64(n+1+protowire.SizeBytes(len(text))))
	dst = append(dst, b[:head]...)
	dst = protowire.AppendString(append(dst, outcomeMessage), text)
	return append(dst, b[head:n]...)
}

// outcomeBuffer has room for the numbers of an outcome: six fields of at most 11 bytes. So
// one byte tells how many they take.
type outcomeBuffer [6 * 11]byte

// put puts a number at n, unless it is 0, and returns where the next is to go.
func (b *outcomeBuffer) put(n int, tag byte, v uint64) int {
	if v == 0 {
		return n
	}
	b[n] = tag
	n++
	for ; v >= 0x80; v >>= 7 {
		b[n] = byte(v) | 0x80
		n++
	}
	b[n] = byte(v)
	return n + 1
}

// UnmarshalOutcome sets o, which must be zero, to the message of an outcome, which it does
// not keep. A code of a newer version is muster.ErrInternal. A damaged message is
// muster.ErrCorrupt.
func UnmarshalOutcome(b []byte, o *muster.Outcome) error {
	b = unmarshalNumbers(b, o)
	for len(b) > 0 {
		tag, value, text, rest, err := nextField(b)
		if err != nil {
			return fmt.Errorf("%w: outcome: %w", muster.ErrCorrupt, err)
		}
		b = rest
		setOutcome(o, tag, value, text)
	}
	return nil
}

// unmarshalNumbers reads the fields of an outcome as far as they come in their order, without
// a code or a message, as most do to the end. It returns the rest.
func unmarshalNumbers(b []byte, o *muster.Outcome) []byte {
	b = number(b, outcomeIndex, &o.Index)
	b = number(b, outcomeRows, &o.Rows)
	b = number(b, outcomeID, &o.ID)
	b = number(b, outcomeChangedAt, &o.ChangedAt)
	return number(b, outcomeTxid, &o.Txid)
}

// number reads a field of up to four bytes, if it comes next, and returns the rest.
func number(b []byte, tag byte, v *uint64) []byte {
	if len(b) < 2 || b[0] != tag {
		return b
	}
	if b[1] < 0x80 {
		*v = uint64(b[1])
		return b[2:]
	}
	if len(b) > 2 && b[2] < 0x80 {
		*v = uint64(b[1]&0x7f) | uint64(b[2])<<7
		return b[3:]
	}
	if len(b) > 3 && b[3] < 0x80 {
		*v = uint64(b[1]&0x7f) | uint64(b[2]&0x7f)<<7 | uint64(b[3])<<14
		return b[4:]
	}
	return b
}

func setOutcome(o *muster.Outcome, tag byte, value uint64, text []byte) {
	switch tag {
	case outcomeIndex:
		o.Index = value
	case outcomeCode:
		o.Code = knownCode(uint32(value))
	case outcomeMessage:
		o.Message = string(text)
	case outcomeRows:
		o.Rows = value
	case outcomeID:
		o.ID = value
	case outcomeChangedAt:
		o.ChangedAt = value
	case outcomeTxid:
		o.Txid = value
	}
}

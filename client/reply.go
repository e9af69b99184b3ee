package client

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// reply is a pb.ListReply, with the outcomes in one piece: a listing of small
// directories has as many of them as rows, and the generated code allocates each.
type reply struct {
	frame         []byte
	outcomes      []muster.Outcome
	cursor        []byte
	done          bool
	totalRows     uint64
	totalOutcomes uint64
	txid          uint64
	cursorIndex   uint64
	frameSize     uint64 // not 0: of the frame when it is expanded
}

// replyEncoding is the generated encoding with replies as the type above.
type replyEncoding struct{}

// Marshal encodes a request.
func (replyEncoding) Marshal(m drpc.Message) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

// Unmarshal decodes a reply. Nothing in it aliases b, which is used again.
func (replyEncoding) Unmarshal(b []byte, m drpc.Message) error { return m.(*reply).unmarshal(b) }

// The tags of the fields of pb.ListReply and pb.Outcome: field number and wire type.
const (
	replyFrame         = 1<<3 | uint64(protowire.BytesType)
	replyOutcome       = 2<<3 | uint64(protowire.BytesType)
	replyCursor        = 3<<3 | uint64(protowire.BytesType)
	replyDone          = 4<<3 | uint64(protowire.VarintType)
	replyTotalRows     = 5<<3 | uint64(protowire.VarintType)
	replyTotalOutcomes = 6<<3 | uint64(protowire.VarintType)
	replyTxid          = 7<<3 | uint64(protowire.VarintType)
	replyCursorIndex   = 8<<3 | uint64(protowire.VarintType)
	replyFrameSize     = 9<<3 | uint64(protowire.VarintType)

	outcomeIndex     = 1<<3 | uint64(protowire.VarintType)
	outcomeCode      = 2<<3 | uint64(protowire.VarintType)
	outcomeMessage   = 3<<3 | uint64(protowire.BytesType)
	outcomeRows      = 4<<3 | uint64(protowire.VarintType)
	outcomeID        = 5<<3 | uint64(protowire.VarintType)
	outcomeChangedAt = 6<<3 | uint64(protowire.VarintType)
	outcomeTxid      = 7<<3 | uint64(protowire.VarintType)
)

func (r *reply) unmarshal(b []byte) error {
	*r = reply{}
	if n := countOutcomes(b); n > 0 {
		r.outcomes = make([]muster.Outcome, 0, n)
	}
	return eachField(b, func(tag, value uint64, text []byte) error {
		switch tag {
		case replyFrame:
			r.frame = bytes.Clone(text)
		case replyOutcome:
			o, err := unmarshalOutcome(text)
			r.outcomes = append(r.outcomes, o)
			return err
		case replyCursor:
			r.cursor = bytes.Clone(text)
		case replyDone:
			r.done = value != 0
		case replyTotalRows:
			r.totalRows = value
		case replyTotalOutcomes:
			r.totalOutcomes = value
		case replyTxid:
			r.txid = value
		case replyCursorIndex:
			r.cursorIndex = value
		case replyFrameSize:
			r.frameSize = uint64(uint32(value)) // as the generated code has it
		}
		return nil
	})
}

// countOutcomes returns the number of outcomes in a reply, as far as it is sound.
func countOutcomes(b []byte) (n int) {
	_ = eachField(b, func(tag, _ uint64, _ []byte) error {
		if tag == replyOutcome {
			n++
		}
		return nil
	})
	return n
}

func unmarshalOutcome(b []byte) (o muster.Outcome, err error) {
	err = eachField(b, func(tag, value uint64, text []byte) error {
		switch tag {
		case outcomeIndex:
			o.Index = value
		case outcomeCode:
			o.Code = muster.CodeOf(rpc.FromStatus(uint32(value), ""))
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
		return nil
	})
	return o, err
}

// eachField calls f for each field of a message: with its value, or with its bytes.
func eachField(b []byte, f func(tag, value uint64, text []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return corruptReply(n)
		}
		b = b[n:]
		var value uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default: // of a newer server
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return corruptReply(n)
		}
		b = b[n:]
		if err := f(protowire.EncodeTag(number, kind), value, text); err != nil {
			return err
		}
	}
	return nil
}

func corruptReply(n int) error {
	return fmt.Errorf("%w: reply: %w", muster.ErrCorrupt, protowire.ParseError(n))
}

package client

import (
	"bytes"
	"math/bits"
	"sync"

	"google.golang.org/protobuf/proto"
	"storj.io/drpc"

	"github.com/muster-fs/muster/rpc"
)

// reply is a pb.ListReply as it was received. It is used again and again; only what
// a batch keeps is made anew for each, or was given back by one.
type reply struct {
	rpc.ListReply
	outcomes []Outcome   // without their paths
	nodes    nodeTable   // additions to the call's
	told     int         // bytes of their messages
	fields   []byte      // all fields but the frame, encoded
	copied   []byte      // fields of a reply that had no memory of its own
	memory   *rpc.Memory // in which the frame and the fields lie; nil: they were copied
}

// replyEncoding is the encoding of the requests and replies of a listing.
type replyEncoding struct{}

// Marshal encodes a request.
func (replyEncoding) Marshal(m drpc.Message) ([]byte, error) {
	return replyEncoding{}.MarshalAppend(nil, m)
}

// MarshalAppend encodes a request.
func (replyEncoding) MarshalAppend(dst []byte, m drpc.Message) ([]byte, error) {
	if r, ok := m.(*rpc.ListRequest); ok {
		return r.Append(dst), nil
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m.(proto.Message))
}

// Unmarshal takes a reply from the connection's buffer, which is used again and which
// nothing is read into meanwhile: so it is decoded later.
func (replyEncoding) Unmarshal(b []byte, m drpc.Message) error {
	r := m.(*reply)
	frame, rest := rpc.CutFrame(b)
	r.copied = append(r.copied[:0], rest...)
	r.receive(bytes.Clone(frame), r.copied, nil)
	return nil
}

// Keep takes a large reply, which has come in memory of its own.
func (replyEncoding) Keep(m *rpc.Memory, msg drpc.Message) error {
	frame, rest := rpc.CutFrame(m.Bytes())
	msg.(*reply).receive(frame, rest, m)
	return nil
}

func (r *reply) receive(frame, fields []byte, m *rpc.Memory) {
	if r.memory != nil {
		r.memory.Release() // of a reply that no batch was made of
	}
	r.ListReply, r.fields, r.memory = rpc.ListReply{Frame: frame}, fields, m
}

// give returns the memory that the rows lie in, which is their batch's from now on; nil if
// they lie elsewhere, as those of a compressed frame do, or there are none.
func (r *reply) give() *rpc.Memory {
	if r.FrameSize > 0 || len(r.Frame) == 0 {
		return nil
	}
	m := r.memory
	r.memory = nil
	return m
}

// decode reads the fields. The frame and the outcomes are the caller's, all else is
// valid until the next reply is received. More outcomes than paths can have, which may be
// as small as two bytes each, are refused before memory is taken for them.
func (r *reply) decode(paths int, records *nodeRecords) error {
	frame := r.Frame
	r.outcomes, r.nodes, r.told = nil, r.nodes[:0], 0
	if n := rpc.CountOutcomes(r.fields); n > paths {
		return corrupt("%d outcomes of at most %d paths", n, paths)
	} else if n > 0 {
		r.outcomes = takeOutcomes(n)
	}
	err := r.Unmarshal(r.fields, func(b []byte) error {
		n := len(r.outcomes)
		if n == cap(r.outcomes) {
			return corrupt("more outcomes than were counted")
		}
		r.outcomes = r.outcomes[:n+1] // zero, as takeOutcomes returns them
		return rpc.UnmarshalOutcome(b, &r.outcomes[n].Outcome)
	}, func(b []byte) (err error) {
		r.told += len(b)
		r.nodes, err = records.append(r.nodes, b)
		return err
	})
	if r.Frame == nil { // it comes first: it was not among them
		r.Frame = frame
	} else {
		r.Frame = bytes.Clone(r.Frame)
	}
	return err
}

// onlyNodes says whether the message does nothing but add to the table of nodes.
func (r *reply) onlyNodes() bool {
	return len(r.nodes) > 0 && len(r.Frame) == 0 && len(r.outcomes) == 0 && len(r.Cursor) == 0 && !r.Done
}

// released are outcomes of batches that were released, zero again: at index i those with
// room for up to 2^i, and for more than half of that, so that a batch that is kept for long
// takes no more than twice the memory that it needs.
var released [bits.UintSize + 1]sync.Pool

func releasedFor(n int) *sync.Pool { return &released[bits.Len(uint(n-1))] }

// takeOutcomes returns room for n outcomes, which are zero.
func takeOutcomes(n int) []Outcome {
	if o, ok := releasedFor(n).Get().(*[]Outcome); ok && cap(*o) >= n {
		return (*o)[:0]
	}
	return make([]Outcome, 0, n)
}

// releaseOutcomes gives outcomes to batches that are still to come.
func releaseOutcomes(o []Outcome) {
	o = o[:cap(o)]
	clear(o)
	releasedFor(len(o)).Put(&o)
}
